import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs';
import { basename, dirname, resolve } from 'node:path';
import { command } from '../../core/command.ts';
import { JOURNAL_FORMAT } from '../../daemon/homes.ts';
import { lineForModel } from '../../core/gate.ts';
import { becomeOwner, ownersOf, refuseOtherOwner, sendHeld } from '../../core/obligations/owners.ts';
import { nearest } from '../../core/nearest.ts';
import { send } from '../../core/mail/send.ts';
import type { Who } from '../../core/mail/workspace.ts';
import { parleyHome } from '../../platform/env.ts';
import { TOKEN_FILE, tokenFrom, tokenWarning } from '../../platform/input.ts';
import { MAIN, VERSION, isCompiled } from '../../platform/program.ts';
import { revokeTrust, trust, trustOf, trustedPaths } from '../../platform/trust.ts';
import { AgentName } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import { readRepoFile, repoFilePath } from '../../protocols/c2c/supervisors.ts';
import { refuseUnlessUser } from '../../platform/authority.ts';
import type { AgentRecord } from '../../core/ports/directory.ts';
import { bashScript, fishScript, completables, zshScript } from '../completion.ts';
import { agentName } from '../context.ts';
import type { Context } from '../context.ts';
import { prepareHook } from '../hook-setup.ts';
import { refuseSurfaceName } from '../make-mailbox.ts';
import { becomeDefault } from '../settings-file.ts';
import { projectFiles, readProjectFile } from '../settings.ts';
import { parseDraft } from './mail.ts';
import { joinRelay, welcome } from './remote.ts';
import type { JoinOrder } from './remote.ts';

const initCommand = command({
  usage: 'init <name>',
  about:
    'Makes a mailbox on this machine, or, with --url, on a relay. The first one becomes your default; use others with --as or ' +
    'PARLEY_AGENT. For yourself: parley init <your name> --human --owner.',
  options: {
    human: { type: 'boolean', help: 'a mailbox of a person, not of an agent' },
    owner: { type: 'boolean', help: 'this person gets a notice when nobody else can decide; a home has one owner' },
    'instead-of': { type: 'string', value: 'name', help: 'with --owner: replace this owner' },
    default: { type: 'boolean', help: 'make it your default' },
    capture: {
      type: 'string',
      value: 'on|off',
      help: 'off: what its model answers in its window is not sent as the answer to a question',
    },
    url: { type: 'string', value: 'url', help: 'make it on this relay' },
    'token-file': {
      ...TOKEN_FILE,
      help: "the token of the relay's room, in a file or on stdin (-); or set PARLEY_TOKEN",
    },
    token: { type: 'string', value: 'token', help: 'the same; other users can see it in `ps`' },
    room: { type: 'string', value: 'id', help: 'the room of the relay' },
    insecure: { type: 'boolean', help: 'accept a relay without TLS on a network that you trust' },
    session: {
      type: 'string',
      value: 'id',
      help: "bind this session of a client to the mailbox, for the client's hooks",
    },
  },
  words: [1, 1],
  examples: [
    'parley init claude-main',
    'parley init codex-1',
    'parley init ada --human --owner',
    'parley init bob --human --owner --instead-of ada',
    'parley init codex-1 --url https://relay.example.org --token-file room-token',
    'PARLEY_AGENT=codex-1 parley inbox',
  ],
  async run(context: Context, values, [text = '']) {
    const name = agentName(text);
    if (values.human || values.owner) refuseUnlessUser(context.env, "make a person's mailbox");
    const { capture } = values;
    if (capture !== undefined && capture !== 'on' && capture !== 'off')
      throw new Refusal('invalid_request', 'use --capture on or --capture off');
    const { url, room, insecure = false, session } = values;
    if (url !== undefined) {
      if (values.human || values.owner || capture)
        throw new Refusal('invalid_request', '--human, --owner and --capture are for a mailbox on this machine');
      const byDefault = values.default ?? false;
      const token = tokenFrom(values, context.cwd, context.env['PARLEY_TOKEN']);
      if (values.token !== undefined) context.note(`warning: ${tokenWarning('PARLEY_TOKEN')}`);
      return initAtRelay(context, { agent: name, url, token, room, insecure, session, byDefault });
    }
    if ((values.token ?? values['token-file'] ?? room) !== undefined)
      throw new Refusal('invalid_request', '--token-file, --token and --room are for a relay; say which: --url');
    const home = context.workspace.homes.find((one) => one.label === 'parley');
    if (!home) return;
    refuseRelayName(home.root, name);
    const others = context.workspace.homes.filter((one) => one !== home && !one.remote);
    const sameName = await Promise.all(others.map((other) => other.directory.get(name)));
    if (sameName.some(Boolean)) {
      context.note(`@${name} is in another home too; write @${name}%parley or @${name}%bch`);
    }
    const before = await home.directory.get(name);
    refuseOtherKind(name, before, values);
    refusePersonsSession(name, values.human || before?.parley?.kind === 'human', values.session);
    if (!before) await refuseSurfaceName(home, name);
    const former = values['instead-of'] === undefined ? undefined : agentName(values['instead-of']);
    if (values.owner) refuseOtherOwner(await ownersOf(home), name, former);
    const existed = before !== null;
    await home.directory.register(name, values.human ? 'human' : 'agent');
    if (capture) await home.directory.amend(name, () => ({ capture: capture === 'off' ? 'off' : undefined }));
    const isOwner = values.owner === true && (await makeOwner(context, { name, home }, former));
    await home.mailboxes.heal();
    await home.mailboxes.adopt(name);
    prepareHook(context, { name, home }, values.session);
    const config = `${parleyHome(context.env)}/config.json`;
    const isDefault = becomeDefault(config, name, values.default ?? false) === name;
    const { kind, owner = false } = (await home.directory.get(name))?.parley ?? { kind: 'agent' };
    if (context.json)
      return context.sayJson({ agent: name, home: home.root, kind, owner, default: isDefault, existed });
    const done = existed ? `mailbox @${name} was here already, in` : `made mailbox @${name} in`;
    context.say(`${context.paint.green(done)} ${home.root}`);
    if (capture)
      context.say(`what its model answers in its window is ${capture === 'off' ? 'not ' : ''}sent as an answer`);
    if (values.owner)
      context.say(
        `@${name} ${isOwner ? 'is the owner now' : 'was the owner already'}, and gets a notice when nobody else can decide`,
      );
    context.say(
      isDefault
        ? `You are @${name} here. Next: parley send @<someone> "hello"   (parley agents lists who is here)`
        : `Act as it with --as ${name} or PARLEY_AGENT=${name}; to make it the default: parley init ${name} --default`,
    );
  },
});

/** A mailbox keeps its kind: otherwise an agent could make itself a person, and answer for one. */
function refuseOtherKind(
  name: AgentName,
  before: AgentRecord | null,
  { human, owner, 'instead-of': insteadOf }: { human?: boolean; owner?: boolean; 'instead-of'?: string },
): void {
  if (insteadOf !== undefined && !owner) throw new Refusal('invalid_request', '--instead-of goes with --owner');
  const kind = before ? (before.parley?.kind ?? 'agent') : human ? 'human' : 'agent';
  if (human && kind !== 'human')
    throw new Refusal('name_taken', `@${name} is the mailbox of an agent; make a person's mailbox under another name`);
  if (owner && kind !== 'human')
    throw new Refusal(
      'invalid_request',
      `only a person can be the owner: parley init ${before ? '<name>' : name} --human --owner`,
    );
}

/** A session is a model's: it gets the mailbox of an agent. */
function refusePersonsSession(name: AgentName, isPerson: boolean, session: string | undefined): void {
  if (isPerson && session !== undefined)
    throw new Refusal('invalid_request', `@${name} is a person; bind the session to an agent: parley init <agent>`);
}

/** Who loses that place is told so: nobody should learn late that another decides now. */
async function makeOwner(context: Context, who: Who, former: AgentName | undefined): Promise<boolean> {
  const isNew = await becomeOwner(who, former);
  const held = await sendHeld(context.workspace, who.home);
  if (held > 0)
    context.note(
      `${held} ${held === 1 ? 'notice was' : 'notices were'} held for an owner: parley inbox --as ${who.name}`,
    );
  if (!isNew || former === undefined) return isNew;
  const body = `@${who.name} is the owner now, in your place. If that is not right: parley init ${former} --human --owner --instead-of ${who.name}`;
  await send(context.workspace, who.name, parseDraft({ to: `@${former}%${who.home.label}`, body, intent: 'fyi' }));
  return isNew;
}

async function initAtRelay(context: Context, order: JoinOrder): Promise<void> {
  const { agent, room } = order;
  const done = await joinRelay(context, order);
  const { url, root: home, isDefault, existed } = done;
  if (context.json) return context.sayJson({ agent, url, room, home, default: isDefault, existed });
  context.say(`${context.paint.green(existed ? 'mailbox exists already:' : 'made mailbox')} @${agent} at ${url}`);
  welcome(context, agent, done);
}

/** One name, one inbox. */
function refuseRelayName(root: string, name: string): void {
  const relays = existsSync(`${root}/relays`) ? readdirSync(`${root}/relays`) : [];
  const taken = relays.find((one) => one.startsWith(`${name}@`));
  if (!taken) return;
  throw new Refusal(
    'name_taken',
    `@${name} is at a relay; use another name here, or remove ${root}/relays/${taken} to leave it`,
  );
}

/** A file that a repository can bring along, with what it sets, in the user's words. */
interface Offered {
  path: string;
  text: string;
  sets: string;
  agent?: unknown;
}

const trustCommand = command({
  usage: 'trust [path]',
  about:
    'Trusts files that came with a repository: .parley.json (which agent you are there, and your context) and .c2c/repo.json ' +
    '(who may answer for you there). Without trust they are ignored. The path is a folder or one of these files; default: this folder. ' +
    'Trust is for the text as it is now: after a change you must trust it again. Only a person can do this, at a terminal.',
  options: {
    list: { type: 'boolean', help: 'list the files that you trust' },
    revoke: { type: 'boolean', help: 'end the trust' },
  },
  words: [0, 1],
  examples: ['parley trust', 'parley trust ~/src/api', 'parley trust --list', 'parley trust --revoke ~/src/api'],
  async run(context: Context, values, [word = '.']) {
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
  return trustOf(env, path, readFileSync(path, 'utf8')) === 'trusted' ? 'trusted' : 'changed, so it is ignored';
}

function revoke(context: Context, path: string): void {
  const revoked = [...filesAt(path), path, `${path}/.parley.json`, `${path}/.c2c/repo.json`].filter((file) =>
    revokeTrust(context.env, file),
  );
  if (context.json) return context.sayJson(revoked);
  if (revoked.length === 0)
    throw new Refusal('invalid_request', `you trust nothing at ${path}; see \`parley trust --list\``);
  for (const file of revoked) context.say(`${lineForModel(file, 400)} is not trusted any more`);
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
    if (own !== path) throw new Refusal('bad_config', `${path} does not belong to you, so it cannot be trusted`);
    const { text, sets } = readProjectFile(path);
    const said = Object.entries(sets).map(([name, value]) => `${name} ${lineForModel(JSON.stringify(value), 200)}`);
    return { path, text, sets: said.join(', ') || 'it sets nothing', agent: sets['agent'] };
  }
  if (!path.endsWith('/.c2c/repo.json'))
    throw new Refusal('invalid_request', `${path} is neither a folder, nor a .parley.json, nor a .c2c/repo.json`);
  const file = readRepoFile(env, path);
  if (!file || file.trouble !== null)
    throw new Refusal('bad_config', `${path} cannot be trusted: ${file?.trouble ?? 'it is gone'}`);
  const names = file.supervisors.map((name) => lineForModel(name, 64)).join(', ');
  return { path, text: file.text, sets: `supervisors ${names || 'nobody'}` };
}

/** Without its mailbox nobody gets mail there. */
async function noteMissing(context: Context, agent: unknown): Promise<void> {
  const named = AgentName.safeParse(agent);
  if (!named.success) return;
  const records = await Promise.all(context.workspace.homes.map(({ directory }) => directory.get(named.data)));
  if (records.every((record) => record === null))
    context.note(`there is no mailbox @${named.data} yet; run \`parley init ${named.data}\``);
}

/** Such a file never makes anybody a person. */
async function refusePerson(context: Context, { path, agent }: Offered): Promise<void> {
  const named = AgentName.safeParse(agent);
  if (!named.success) return;
  for (const { directory } of context.workspace.homes) {
    if ((await directory.get(named.data))?.parley?.kind !== 'human') continue;
    throw new Refusal('bad_config', `${path} names @${named.data}, a person; such a file can only name an agent`);
  }
}

const SHELLS = { bash: bashScript, zsh: zshScript, fish: fishScript } as const;
type Shell = keyof typeof SHELLS;

const completionCommand = command({
  usage: 'completion <bash|zsh|fish>',
  about:
    'Prints a script that lets your shell complete the commands, options and recipients of parley. Its first lines say how to load it.',
  words: [1, 1],
  examples: ['eval "$(parley completion bash)"', 'parley completion fish > ~/.config/fish/completions/parley.fish'],
  async run(context: Context, _values, [text = '']) {
    // What the scripts ask for while somebody types a recipient.
    if (text === 'names') return context.say((await recipients(context)).join('\n'));
    const names = Object.keys(SHELLS) as Shell[];
    const shell = names.find((name) => name === text);
    if (!shell) {
      const [near] = nearest(text, names);
      throw new Refusal(
        'invalid_request',
        `no completion for that shell; ${near ? `did you mean ${near}?` : `use ${names.join(', ')}`}`,
      );
    }
    const script = SHELLS[shell](await completables());
    if (context.json) return context.sayJson({ shell, script });
    context.say(script.trimEnd());
  },
});

/** Every agent, role and channel of this machine's homes. A home at a relay is left out: nobody waits for a network while typing. */
async function recipients({ workspace }: Context): Promise<string[]> {
  const found = new Set<string>();
  for (const { directory, remote } of workspace.homes) {
    if (remote) continue;
    for (const { name, parley } of await directory.list())
      for (const one of [name, ...(parley?.roles ?? [])]) found.add(`@${one}`);
    for (const channel of await directory.channels()) found.add(channel);
  }
  return [...found].sort();
}

const versionCommand = command({
  usage: 'version',
  about: 'The version of this program, of the Bun that runs it, and of the ledger format that it writes.',
  examples: ['parley version', 'parley --version'],
  async run(context: Context) {
    const compiled = isCompiled();
    if (context.json) {
      return context.sayJson({
        version: VERSION,
        bun: Bun.version,
        ledgerFormat: JOURNAL_FORMAT,
        compiled,
        path: compiled ? process.execPath : MAIN,
      });
    }
    context.say(
      `parley ${VERSION} (Bun ${Bun.version}, ledger format ${JOURNAL_FORMAT}, ${compiled ? 'compiled' : 'from source'})`,
    );
  },
});

export const commands = {
  init: initCommand,
  trust: trustCommand,
  completion: completionCommand,
  version: versionCommand,
};
