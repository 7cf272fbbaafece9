import type { Env } from '../../core/env.ts';
import { takeRepairs } from './files.ts';
import { openBroker } from './open-broker.ts';
import { refuseSupervisor, isSupervisor } from './supervisors.ts';
import { brokerRoot } from './broker-root.ts';
import { visibleLine } from '../../core/gate.ts';
import { speakerOf } from './sessions.ts';
import { readAlias, readRoom, readSessionId } from './shapes.ts';
import type { Broker } from './broker.ts';
import { existsSync, readFileSync } from 'node:fs';
import { inShell } from '../../clients/shell-word.ts';
import { FLAG, TEXT } from '../../core/command.ts';
import type { Workspace, Home, Who } from '../../core/mail/workspace.ts';
import { nearest } from '../../core/nearest.ts';
import { backchannelHome, parleyHome } from '../../platform/env.ts';
import { gitTop } from '../../platform/git.ts';
import { writeAll } from '../../platform/terminal.ts';
import type { Address } from '../../core/address.ts';
import { BODY_LIMIT } from '../../core/message.ts';
import type { AgentName, ChannelName, MessageId } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import type { Use } from '../../platform/authority.ts';

/** Options of many commands. */
export const JSON_FLAG = { ...FLAG, short: 'j' } as const;
export const SESSION_ID = { ...TEXT, short: 's' } as const;

/** The context of a c2c command. The broker is opened at the first use. */
export class C2c {
  #opened: { home: Home; broker: Broker } | undefined;

  constructor(
    readonly env: Env,
    readonly cwd: string,
  ) {}

  get root(): string {
    return brokerRoot(this.env, this.cwd);
  }

  /** The context of another broker, if one is named; else this one. */
  at(root: string | undefined): C2c {
    return root === undefined ? this : new C2c({ ...this.env, C2C_MCP_BROKER_ROOT: root }, this.cwd);
  }

  /** The context of another session. */
  as(sessionId: string): C2c {
    return new C2c({ ...this.env, C2C_MCP_SESSION_ID: sessionId }, this.cwd);
  }

  /** The session of the caller; null if nothing names one. */
  get sessionId(): string | null {
    return sessionIn(this.env, this.cwd);
  }

  get broker(): Broker {
    return this.#open().broker;
  }

  get home(): Home {
    return this.#open().home;
  }

  /** The workspace whose only home is this broker directory. */
  get workspace(): Workspace {
    return {
      homes: [this.home],
      now: Date.now,
      newId: () => crypto.randomUUID() as MessageId,
      bodyLimit: BODY_LIMIT,
      readAddress,
      unreachable: (text, from) => unreachable(this, text, from),
    };
  }

  /** The mailbox of a session: its alias; for one that is not registered, its own id. */
  async mailbox(sessionId = this.session()): Promise<AgentName> {
    const alias = await this.broker.aliasOf(sessionId);
    if (alias !== null) {
      this.refuseSupervisor(alias, 'read');
      return alias;
    }
    // The session id is the alias of another session, so the mailbox of that name is not this session's.
    const other = await this.broker.byAlias(sessionId);
    if (!other) return sessionId as AgentName;
    throw new Refusal(
      'not_yours',
      `session ${sessionId} is not registered, and "${other.row.alias}" is the alias of session ${other.row.session_id}; run \`c2c register <alias>\` with another one, or name that session`,
    );
  }

  async reader(sessionId = this.session()): Promise<Who> {
    const name = await this.mailbox(sessionId);
    await this.home.mailboxes.heal();
    return { name, home: this.home };
  }

  /** The alias that writes: `from`, else the alias of the calling session, else the alias in the environment. */
  async writer(from?: string): Promise<AgentName> {
    const alias = await this.#speaker(from);
    this.refuseSupervisor(alias, 'act');
    return alias;
  }

  async #speaker(from: string | undefined): Promise<AgentName> {
    if (from !== undefined) return this.#named(readAlias(from), this.sessionId);
    const id = this.sessionId;
    const known = id === null ? null : await this.broker.aliasOf(id);
    if (known !== null) return known;
    const { C2C_MCP_AUTO_REGISTER_ALIAS: alias } = this.env;
    if (alias) return this.#named(readAlias(alias), this.sessionId ?? alias);
    throw new Refusal(
      'no_identity',
      id === null
        ? 'this shell is not a session of c2c; run `export C2C_MCP_SESSION_ID=me` and `c2c register me` first, or give --from <alias>'
        : 'this session has no alias; run `c2c register <alias>` first, or give --from <alias>',
    );
  }

  /** Checks that the caller may write under this alias. The user may write as a supervisor, whichever session has that alias. */
  async #named(alias: AgentName, sessionId: string | null): Promise<AgentName> {
    if (!isSupervisor(this.env, alias)) return speakerOf(this.broker, alias, sessionId);
    this.refuseSupervisor(alias, 'act');
    return ((await this.broker.byAlias(alias))?.row.alias ?? alias) as AgentName;
  }

  /** Refuses the alias of a supervisor, unless the user acts. */
  refuseSupervisor(alias: string, use: Use): void {
    refuseSupervisor(this.env, alias, use);
  }

  /** The named session, else the caller's. Refuses if there is none. */
  session(named?: string): string {
    const id = named === undefined ? this.sessionId : readSessionId(named);
    if (id !== null) return id;
    throw new Refusal(
      'no_identity',
      'this shell is not a session of c2c; name one with `export C2C_MCP_SESSION_ID=<id>`, or give --session-id <id>',
    );
  }

  say(text: string): void {
    writeAll(1, `${text}\n`);
  }

  /** Prints to stderr, so that it never mixes with the result. */
  note(text: string): void {
    writeAll(2, `${text}\n`);
  }

  /** Prints which files were found broken, and where their copies are. Does nothing if no broker was opened. */
  async tellRepairs(): Promise<void> {
    for (const { file, copy, what } of this.#opened ? takeRepairs(this.root) : []) {
      this.note(
        `${visibleLine(file)} was broken (${visibleLine(what)}); what could be recovered is in use, and the broken file is kept as ${visibleLine(copy)}`,
      );
    }
  }

  sayJson(value: unknown): void {
    writeAll(1, `${JSON.stringify(value)}\n`);
  }

  #open(): { home: Home; broker: Broker } {
    this.#opened ??= openBroker(this.root);
    return this.#opened;
  }
}

/** Reads a recipient: an alias, with or without @, or `#room`. */
function readAddress(text: string): Address {
  if (text.startsWith('#')) return { kind: 'channel', channel: `#${readRoom(text)}` as ChannelName };
  return { kind: 'name', name: readAlias(text.replace(/^@/, '')) };
}

/** The refusal for a message without a recipient. It suggests similar names, or how to write to an agent of another home. spec: c2c#recipients */
async function unreachable(c2c: C2c, text: string, from: AgentName): Promise<Refusal> {
  const { broker } = c2c;
  const name = text.replace(/^[@#]/, '');
  const rooms = broker.rooms.existing();
  if (text.startsWith('#')) {
    const near = nearest(
      name,
      rooms.filter((room) => room !== name),
    );
    const known = rooms.includes(name) ? 'has no other members, so nobody would get this' : 'does not exist';
    return refused(`room #${name} ${known}`, near, '`c2c rooms list`');
  }
  if (rooms.includes(name)) {
    return new Refusal('unknown_recipient', `"${name}" is a room; write to it with \`c2c rooms send ${name} …\``);
  }
  const lines = await parleyLines(c2c, name as AgentName, from);
  if (lines.length > 0) {
    const what = `"${name}" is an agent of Parley, not a session of c2c`;
    return new Refusal('unknown_recipient', `${what}; type: ${lines.join(' or ')}`);
  }
  const aliases = (await broker.sessions()).map(({ row }) => row.alias);
  return refused(`no session is called "${name}"`, nearest(name, aliases), '`c2c list`');
}

function refused(what: string, near: string[], list: string): Refusal {
  const hint = near.length > 0 ? `did you mean ${near.join(' or ')}?` : `see ${list}`;
  return new Refusal('unknown_recipient', `${what}; ${hint}`);
}

/** The commands that reach an agent of this name: one for each home that has it. If that agent's message is unanswered, a `parley reply`. */
async function parleyLines(c2c: C2c, name: AgentName, from: AgentName): Promise<string[]> {
  const { env, home } = c2c;
  const homes = { parley: parleyHome(env), bch: backchannelHome(env) };
  const labels = (['parley', 'bch'] as const).filter((label) => existsSync(`${homes[label]}/agents/${name}.json`));
  if (labels.length === 0) return [];
  const { register, as } = await speaker(c2c, from);
  const parley = `${register}${brokerVariable(c2c)}parley`;
  const asked = labels.length === 1 ? await home.journal.unanswered(name, from, 0) : null;
  if (asked) return [`${parley} reply ${asked.id.slice(0, 8)} "…" --as ${as}`];
  return labels.map((label) => `${parley} send @${name}${labels.length === 1 ? '' : `%${label}`} "…" --as ${as}`);
}

/** The name for `--as`, which needs a mailbox: this alias if it is registered, else the session's own alias. Else `register` registers it first. */
async function speaker({ broker, sessionId }: C2c, from: AgentName): Promise<{ register: string; as: AgentName }> {
  if (await broker.byAlias(from)) return { register: '', as: from };
  const own = sessionId === null ? null : await broker.aliasOf(sessionId);
  return own === null ? { register: `c2c register ${from} && `, as: from } : { register: '', as: own };
}

/** The variable that names this broker to `parley`; empty if `parley` finds it by the folder. */
function brokerVariable({ env, cwd, root }: C2c): string {
  const { C2C_MCP_BROKER_ROOT: _mcp, C2C_BROKER_ROOT: _broker, ...rest } = env;
  return brokerRoot(rest, cwd) === root ? '' : `C2C_MCP_BROKER_ROOT=${inShell(root)} `;
}

/** Variables in which clients give their own id of a session. spec: c2c#sessions */
export const CLIENT_VARIABLES = ['CLAUDE_CODE_SESSION_ID', 'CLAUDE_SESSION_ID', 'CODEX_THREAD_ID'] as const;

/** Variables that name the session. The first that is set counts. */
const SESSION_VARIABLES = ['C2C_MCP_SESSION_ID', 'C2C_SESSION_ID', ...CLIENT_VARIABLES] as const;

/** The session of the caller; null if nothing names one. */
export function sessionIn(env: Env, cwd: string): string | null {
  for (const name of SESSION_VARIABLES) {
    const value = env[name];
    if (value) return readSessionId(value);
  }
  // OpenCode gives its child processes no session id, so use the one in the plugin's file.
  const isOpenCode = env['OPENCODE'] === '1' || env['C2C_MCP_CLIENT_TYPE'] === 'opencode';
  return isOpenCode ? sessionOfPlugin(cwd) : null;
}

function sessionOfPlugin(cwd: string): string | null {
  for (const folder of [cwd, gitTop(cwd)]) {
    if (folder === undefined) continue;
    try {
      const { session_id } = JSON.parse(readFileSync(`${folder}/.opencode/c2c-plugin.json`, 'utf8')) as {
        session_id?: unknown;
      };
      return readSessionId(session_id);
    } catch {
      // No plugin is installed there, or its file has no session id.
    }
  }
  return null;
}
