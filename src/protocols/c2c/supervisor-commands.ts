import { visibleLine } from '../../core/gate.ts';
import { QUESTION_S, mayAnswer, openQuestion } from './pending.ts';
import { splitList } from './sessions.ts';
import { readAlias } from './shapes.ts';
import { TEXT, command } from '../../core/command.ts';
import { Refusal } from '../../core/refusal.ts';
import { refuseUnlessUser } from '../../platform/authority.ts';
import { nameSupervisors, readRepoFile, repoFilePath, supervisors } from './supervisors.ts';
import type { RepoFile } from './supervisors.ts';
import { JSON_FLAG } from './workspace.ts';
import type { C2c } from './workspace.ts';

const WAYS = 'repo [show] | set supervisors <alias,…> | unset supervisors';

/** `c2c repo`: shows who may answer for the user in this repository, and changes it. Only the user may change it. spec: c2c#repo */
const repoCommand = command({
  usage: WAYS,
  options: { json: JSON_FLAG },
  words: [0, Infinity],
  async run(c2c: C2c, { json }, [verb = 'show', field, ...words]) {
    if (verb === 'set' && field === 'supervisors' && words.length > 0) {
      await nameThem(c2c, words.flatMap(splitList).map(readAlias));
    } else if (verb === 'unset' && field === 'supervisors' && words.length === 0) {
      await nameThem(c2c, []);
    } else if (!['show', 'get'].includes(verb)) throw new Refusal('invalid_request', `usage: c2c ${WAYS}`);
    show(c2c, json ?? false);
  },
});

async function nameThem(c2c: C2c, aliases: readonly string[]): Promise<void> {
  refuseUnlessUser(c2c.env, 'name supervisors');
  nameSupervisors(c2c.env, c2c.cwd, aliases);
  for (const alias of aliases) {
    const holder = await c2c.broker.byAlias(alias);
    if (holder?.alive)
      c2c.note(`${alias} is the alias of a running session; from now on only you can write as ${alias}`);
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

const openPendingReplyCommand = command({
  usage: 'open-pending-reply <id> --kind permission|question --supervisors <alias,…> [--json]',
  options: { kind: { ...TEXT, short: 'k' }, supervisors: { ...TEXT, short: 's' }, json: JSON_FLAG },
  words: [1, 1],
  async run(c2c: C2c, values, [id = '']) {
    const ttl = Number(c2c.env['C2C_PERMISSION_TTL'] || QUESTION_S);
    const opened = await openQuestion(
      c2c.broker,
      c2c.session(),
      {
        id,
        kind: values.kind ?? 'permission',
        supervisors: splitList(values.supervisors),
        ttl: Number.isFinite(ttl) && ttl > 0 ? ttl : QUESTION_S,
      },
      Date.now(),
    );
    if (values.json) return c2c.sayJson(opened);
    c2c.say(`${opened.perm_id} is open for ${opened.ttl_seconds} s`);
  },
});

const checkPendingReplyCommand = command({
  usage: 'check-pending-reply <id> <from> [--json]',
  options: { json: JSON_FLAG },
  words: [2, 2],
  async run(c2c: C2c, values, [id = '', from = '']) {
    const checked = await mayAnswer(c2c.broker, id, from, supervisors(c2c.env, c2c.cwd));
    if (values.json) return c2c.sayJson(checked);
    c2c.say(checked.valid ? `${from} may answer ${id}` : `no: ${checked.error}`);
  },
});

export const commands = {
  repo: repoCommand,
  'open-pending-reply': openPendingReplyCommand,
  'check-pending-reply': checkPendingReplyCommand,
};
