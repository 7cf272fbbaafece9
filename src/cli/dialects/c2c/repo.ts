import { namesIn } from '../../../flow/c2c/sessions.ts';
import { readAlias } from '../../../protocol/c2c.ts';
import { BadArguments } from '../../arguments.ts';
import { c2cCommand, FLAG } from './command.ts';
import { readRepo, repoFile, supervisorsIn, writeRepo } from './repo-file.ts';

const WAYS = 'repo [show] | set supervisors <alias,…> | unset supervisors';

/** Who may answer for the user in this repository. This command is the user's own hand: nothing else calls it. */
export default c2cCommand({
  usage: WAYS,
  options: { json: { ...FLAG, short: 'j' } },
  words: [0, Infinity],
  async run(c2c, { json }, [verb = 'show', field, ...words]) {
    const path = repoFile(c2c.cwd);
    if (verb === 'set' && field === 'supervisors' && words.length > 0) {
      writeRepo(path, 'supervisors', words.flatMap(namesIn).map(readAlias));
    } else if (verb === 'unset' && field === 'supervisors' && words.length === 0) {
      writeRepo(path, 'supervisors', undefined);
    } else if (!['show', 'get'].includes(verb)) throw new BadArguments(`usage: c2c ${WAYS}`);
    const values = readRepo(path);
    if (json) return c2c.sayJson(values);
    const named = supervisorsIn(values);
    c2c.say(`supervisors: ${named.length > 0 ? named.join(', ') : 'nobody'} (${path})`);
  },
});
