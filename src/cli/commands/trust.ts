import { existsSync, readFileSync, statSync } from 'node:fs';
import { basename, dirname, resolve } from 'node:path';
import { lineForModel } from '../../delivery/gate.ts';
import { AgentName } from '../../protocol/names.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { command } from '../command.ts';
import { refuseUnlessUser } from '../consent.ts';
import type { Context } from '../context.ts';
import { readRepoFile, repoFilePath } from '../dialects/c2c/repo-file.ts';
import { projectFiles, readProjectFile } from '../settings.ts';
import { revokeTrust, trust, trustedPaths, trustOf } from '../trust.ts';

/** A file that a repository can bring along, with what it sets, in the user's words. */
interface Offered {
  path: string;
  text: string;
  sets: string;
  agent?: unknown;
}

export default command({
  usage: 'trust [path]',
  about:
    'Lets the files count that came with a repository: .parley.json (which agent you are there, and your context) and .c2c/repo.json ' +
    '(who may answer for you there). Until then they are ignored. The path is a folder or one of these files; without it, this folder. ' +
    'What counts is the text as it is now: after a change you are asked to look again. Only you can do this, at a terminal.',
  options: {
    list: { type: 'boolean', help: 'every file that you trust' },
    revoke: { type: 'boolean', help: 'let it count no longer' },
  },
  words: [0, 1],
  examples: ['parley trust', 'parley trust ~/src/api', 'parley trust --list', 'parley trust --revoke ~/src/api'],
  async run(context, values, [word = '.']) {
    if (values.list) return list(context);
    refuseUnlessUser(context.env, 'trust the files of a repository');
    const path = resolve(context.cwd, word);
    if (values.revoke) return revoke(context, path);
    const files = filesAt(path);
    if (files.length === 0)
      throw new Refusal('invalid_request', `there is no .parley.json and no .c2c/repo.json at ${path}`);
    const offered = files.map((file) => offeredBy(context, file));
    for (const one of offered) await refusePerson(context, one);
    for (const { path: file, text } of offered) trust(context.env, file, text);
    if (context.json) return context.sayJson(offered.map(({ path: file, sets }) => ({ path: file, sets })));
    for (const { path: file, sets } of offered)
      context.say(`${context.paint.green('trusted')} ${lineForModel(file, 400)}: ${sets}`);
    for (const { agent } of offered) await noteMissing(context, agent);
  },
});

function list(context: Context): void {
  const rows = trustedPaths(context.env).map((path) => ({ path, state: stateOf(context, path) }));
  if (context.json) return context.sayJson(rows);
  if (rows.length === 0) return context.say('you trust no file of a repository');
  for (const { path, state } of rows)
    context.say(`${lineForModel(path, 400)}${state === 'trusted' ? '' : ` (${state})`}`);
}

function stateOf({ env }: Context, path: string): string {
  if (!existsSync(path)) return 'gone';
  return trustOf(env, path, readFileSync(path, 'utf8')) === 'trusted' ? 'trusted' : 'changed, so it does not count';
}

function revoke(context: Context, path: string): void {
  const revoked = [...filesAt(path), path, `${path}/.parley.json`, `${path}/.c2c/repo.json`].filter((file) =>
    revokeTrust(context.env, file),
  );
  if (context.json) return context.sayJson(revoked);
  if (revoked.length === 0)
    throw new Refusal('invalid_request', `you trust nothing at ${path}; see \`parley trust --list\``);
  for (const file of revoked) context.say(`${lineForModel(file, 400)} does not count any more`);
}

/** The file itself, or those of a folder: the nearest .parley.json upwards, and the repository's .c2c/repo.json. */
function filesAt(path: string): string[] {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) {
    const [nearest] = projectFiles(path);
    return [nearest, repoFilePath(path)].filter((file) => file !== undefined).filter((file) => existsSync(file));
  }
  return existsSync(path) ? [path] : [];
}

/** What a file would set, from the very text that becomes trusted. */
function offeredBy({ env }: Context, path: string): Offered {
  if (basename(path) === '.parley.json') {
    const [own] = projectFiles(dirname(path));
    if (own !== path) throw new Refusal('bad_config', `${path} is not a file of yours, so it cannot count`);
    const { text, sets } = readProjectFile(path);
    const said = Object.entries(sets).map(([name, value]) => `${name} ${lineForModel(JSON.stringify(value), 200)}`);
    return { path, text, sets: said.join(', ') || 'it sets nothing', agent: sets['agent'] };
  }
  if (!path.endsWith('/.c2c/repo.json'))
    throw new Refusal('invalid_request', `${path} is neither a folder, nor a .parley.json, nor a .c2c/repo.json`);
  const file = readRepoFile(env, path);
  if (!file || file.trouble !== null)
    throw new Refusal('bad_config', `${path} cannot count: ${file?.trouble ?? 'it is gone'}`);
  const names = file.supervisors.map((name) => lineForModel(name, 64)).join(', ');
  return { path, text: file.text, sets: `supervisors ${names || 'nobody'}` };
}

/** Without its mailbox nobody gets mail there. */
async function noteMissing(context: Context, agent: unknown): Promise<void> {
  const named = AgentName.safeParse(agent);
  if (!named.success) return;
  const records = await Promise.all(context.desk.homes.map(({ directory }) => directory.get(named.data)));
  if (records.every((record) => record === null))
    context.note(`there is no mailbox @${named.data} yet; run \`parley init ${named.data}\``);
}

/** Such a file never makes anybody a person. */
async function refusePerson(context: Context, { path, agent }: Offered): Promise<void> {
  const named = AgentName.safeParse(agent);
  if (!named.success) return;
  for (const { directory } of context.desk.homes) {
    if ((await directory.get(named.data))?.parley?.kind !== 'human') continue;
    throw new Refusal('bad_config', `${path} names @${named.data}, a person; such a file can only name an agent`);
  }
}
