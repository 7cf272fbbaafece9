import { visibleLine } from '../../../delivery/gate.ts';
import { namesIn } from '../../../flow/c2c/sessions.ts';
import { readAlias } from '../../../protocol/c2c.ts';
import { BadArguments } from '../../arguments.ts';
import { refuseUnlessUser } from '../../consent.ts';
import type { C2c } from './c2c.ts';
import { c2cCommand, FLAG } from './command.ts';
import { readRepoFile, repoFilePath } from './repo-file.ts';
import type { RepoFile } from './repo-file.ts';
import { nameSupervisors, supervisors } from './supervisors.ts';

const WAYS = 'repo [show] | set supervisors <alias,…> | unset supervisors';

/** Who may answer for the user in this repository. Only the user changes it. spec: c2c#repo */
export default c2cCommand({
  usage: WAYS,
  options: { json: { ...FLAG, short: 'j' } },
  words: [0, Infinity],
  async run(c2c, { json }, [verb = 'show', field, ...words]) {
    if (verb === 'set' && field === 'supervisors' && words.length > 0) {
      await name(c2c, words.flatMap(namesIn).map(readAlias));
    } else if (verb === 'unset' && field === 'supervisors' && words.length === 0) {
      await name(c2c, []);
    } else if (!['show', 'get'].includes(verb)) throw new BadArguments(`usage: c2c ${WAYS}`);
    show(c2c, json ?? false);
  },
});

async function name(c2c: C2c, aliases: readonly string[]): Promise<void> {
  refuseUnlessUser(c2c.env, 'name supervisors');
  nameSupervisors(c2c.env, c2c.cwd, aliases);
  for (const alias of aliases) {
    const holder = await c2c.broker.called(alias);
    if (holder?.alive)
      c2c.note(`${alias} is the alias of a session that runs; from now on only you can write as ${alias}`);
  }
}

function show(c2c: C2c, json: boolean): void {
  const named = supervisors(c2c.env, c2c.cwd);
  const file = readRepoFile(c2c.env, repoFilePath(c2c.cwd));
  if (json) return c2c.sayJson({ supervisors: named, ...(file && { file: { ...file, text: undefined } }) });
  c2c.say(`supervisors: ${named.length > 0 ? named.join(', ') : 'nobody'}`);
  if (file) c2c.say(aboutFile(file));
}

function aboutFile({ path: place, supervisors: names, trust, trouble }: RepoFile): string {
  const path = visibleLine(place, 400);
  if (trouble !== null) return `${path} does not count: ${visibleLine(trouble, 400)}`;
  const list = names.length > 0 ? visibleLine(names.join(', '), 400) : 'nobody';
  if (trust === 'trusted') return `${path} names ${list}; you trust it`;
  const why = trust === 'changed' ? 'it has changed since you trusted it' : 'it came with the repository';
  return `${path} names ${list} and does not count: ${why}. To let it count: parley trust ${path}`;
}
