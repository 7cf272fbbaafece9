import type { Env } from '../../core/env.ts';
import { openHome } from '../../store/home.ts';
import { openRemoteHome } from './homes.ts';
import { mkdirSync, readFileSync } from 'node:fs';
import type { Workspace, Home, Who } from '../../core/mail/workspace.ts';
import { backchannelHome } from '../../platform/env.ts';
import { replaceFile } from '../../platform/files.ts';
import { writeAll } from '../../platform/terminal.ts';
import { readAddress, readName, unreachable } from './names.ts';
import { BODY_LIMIT } from '../../core/message.ts';
import { RoomId } from '../../core/names.ts';
import type { AgentName, MessageId } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import type { Use } from '../../platform/authority.ts';
import { refusePersonsName } from '../../platform/authority.ts';
import { isMissing } from '../../core/disk.ts';
import { locked } from '../../platform/lock-file.ts';

/** What a command of this dialect works with. Nothing in it is opened before it is asked for. */
export class Bch {
  #config: Config | undefined;
  #workspace: (Workspace & { home: Home }) | undefined;

  constructor(readonly env: Env) {}

  get root(): string {
    return backchannelHome(this.env);
  }

  get config(): Config {
    this.#config ??= readConfig(this.root);
    return this.#config;
  }

  /** The relay that is in use; null for the local spool. */
  get relayPlace(): RelayPlace | null {
    return relayPlace(this.env, this.config);
  }

  /** One home only: the local spool, or the mailbox at a relay. */
  get workspace(): Workspace & { home: Home } {
    this.#workspace ??= this.#open();
    return this.#workspace;
  }

  /** Who acts: the environment beats the config, even when it is set to nothing. */
  get identity(): AgentName | null {
    const name = this.env['BACKCHANNEL_AGENT'] ?? this.config.agent;
    return name ? readName(name) : null;
  }

  /**
   * Who acts, and where. As in the original, no agent has to be registered to write or to look. For a mailbox
   * whose record says that it is a person's, the rule is the same as for `parley`.
   */
  async who(use: Use = 'act'): Promise<Who> {
    const name = this.identity;
    if (!name) throw nobody();
    const { home } = this.workspace;
    await this.refusePerson(name, use);
    return { name, home };
  }

  async refusePerson(name: AgentName, use: Use): Promise<void> {
    if ((await this.workspace.home.directory.get(name))?.parley?.kind !== 'human') return;
    refusePersonsName(this.env, name, use, 'BACKCHANNEL_AGENT=<agent>');
  }

  /** The same for a reader: what the dead left is put right first, and everybody can see that the agent was here. */
  async reader(use: Use = 'read'): Promise<Who> {
    const who = await this.who(use);
    await who.home.mailboxes.heal();
    await who.home.directory.seen(who.name);
    return who;
  }

  say(text: string): void {
    writeAll(1, `${text}\n`);
  }

  #open(): Workspace & { home: Home } {
    const place = this.relayPlace;
    if (place) return this.#openAt(place);
    return { ...workspaceOf(openHome('bch', this.root, 'normal')), unreachable };
  }

  #openAt(place: RelayPlace): Workspace & { home: Home } {
    const agent = this.identity;
    if (!agent) throw nobody();
    const token = tokenAt(place, agent, this.env, this.config);
    const home = openRemoteHome({
      place: { ...place, agent, ...(token && { token }) },
      below: this.root,
      durability: 'normal',
    });
    return workspaceOf(home);
  }
}

function nobody(): Refusal {
  return new Refusal('no_identity', 'no agent identity — run `bch init <name>` first (or set BACKCHANNEL_AGENT)');
}

/** `config.json`, shared with the original. Keys that we do not know are kept. */
interface Config {
  agent?: string;
  url?: string;
  token?: string;
  room?: string;
  backend?: string;
  /** Ours: the tokens of the agents that are not `agent` at the moment, by name. */
  tokens?: Record<string, string>;
  [unknown: string]: unknown;
}

function readConfig(root: string): Config {
  const path = `${root}/config.json`;
  try {
    const config: unknown = JSON.parse(readFileSync(path, 'utf8'));
    if (isConfig(config)) return config;
  } catch (error) {
    if (isMissing(error)) return {};
    if (!(error instanceof SyntaxError)) throw error;
  }
  throw new Refusal('bad_config', `${path} is not readable as a config; mend or remove it, then run this again`);
}

function isConfig(value: unknown): value is Config {
  if (!isTable(value)) return false;
  const { tokens = {}, ...rest } = value;
  const texts = ['agent', 'url', 'token', 'room', 'backend'].map((key) => rest[key]);
  return (
    isTable(tokens) &&
    [...texts, ...Object.values(tokens)].every((text) => text === undefined || typeof text === 'string')
  );
}

function isTable(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * Makes this agent the one who acts on this machine. A token belongs to one agent, and the original forgets it when another is
 * made the current one. Here `token` is always the current agent's, which is all that the original reads; those of the others
 * wait in `tokens` until their agent is the current one again.
 */
export function becomeAgent(
  root: string,
  name: AgentName,
  place?: { url: string; room?: string; token?: string },
): void {
  mkdirSync(root, { recursive: true, mode: 0o700 });
  locked(`${root}/config.lock`, () => {
    const before = readConfig(root);
    const { agent, token } = before;
    const tokens = { ...before.tokens, ...(agent !== undefined && token !== undefined && { [agent]: token }) };
    const { [name]: own, ...others } = tokens;
    // A token beside no agent is nobody else's.
    const current = own ?? (agent === undefined ? token : undefined);
    const after: Config = { agent: name, ...before };
    after.agent = name;
    delete after.token;
    delete after.tokens;
    if (place) {
      // At a relay every agent's token has a file of its own besides: here is only what the original reads.
      delete after.room;
      Object.assign(after, place);
      if (before.tokens) after.tokens = before.tokens;
      return write(`${root}/config.json`, after);
    }
    if (current !== undefined) after.token = current;
    if (Object.keys(others).length > 0) after.tokens = others;
    write(`${root}/config.json`, after);
  });
}

function write(path: string, config: Config): void {
  replaceFile(path, JSON.stringify(config, null, 2), { flush: true });
}

/** A relay, and a room in it. */
interface RelayPlace {
  url: string;
  room?: string;
}

/**
 * At which relay the mail waits; null for the local spool. The environment beats the config, even when
 * it is set to nothing. Any other place is refused in one line: that mail must not land where nobody looks.
 */
function relayPlace(env: Env, config: Config): RelayPlace | null {
  const place = relayInUse(env, config);
  if (!place && isLocalSpool(env, config) === false)
    throw new Refusal('bad_config', 'a relay is wanted and none is named; run `bch init <name> --url <relay>`');
  return place;
}

/** The same before a relay is named: that none was named is no fault then. */
export function relayInUse(env: Env, config: Config): RelayPlace | null {
  const local = isLocalSpool(env, config);
  const url = (env['BACKCHANNEL_URL'] ?? config.url)?.replace(/\/+$/, '');
  if (local || !url) return null;
  if (!/^https?:\/\/./.test(url) || !URL.canParse(url)) {
    throw new Refusal('bad_config', `"${url}" is no address of a relay; write https://host or http://localhost:7117`);
  }
  const room = roomAt(url, env, config);
  return { url, ...(room && { room }) };
}

/** The room that is meant at this relay; that of another relay means nothing there. A bad one means the default room. */
export function roomAt(url: string, env: Env, config: Config): string | undefined {
  const given = env['BACKCHANNEL_RELAY_ROOM'] ?? (config.url?.replace(/\/+$/, '') === url ? config.room : undefined);
  const room = RoomId.safeParse(given?.trim());
  return room.success && room.data !== 'default' ? room.data : undefined;
}

/** The agent token that the config or the environment holds for this agent at this relay. */
export function tokenAt({ url, room }: RelayPlace, agent: AgentName, env: Env, config: Config): string | undefined {
  const own = env['BACKCHANNEL_TOKEN'];
  if (own) return own;
  const isThere =
    config.url === undefined || (config.url.replace(/\/+$/, '') === url && roomAt(url, {}, config) === room);
  if (config.agent === agent && isThere) return config.token;
  return undefined;
}

export function noBrain(because: string): Refusal {
  return new Refusal(
    'not_in_this_version',
    `the brain backend is not part of this program (${because}); leave it out to use the local spool`,
  );
}

/** Whether the local spool is asked for by name; undefined if nothing is said. */
function isLocalSpool(env: Env, config: Config): boolean | undefined {
  for (const variable of ['UNISON_TOKEN', 'UNISON_API_URL']) if (env[variable]) throw noBrain(`${variable} is set`);
  return (
    isLocal(env['BACKCHANNEL_BACKEND'], 'BACKCHANNEL_BACKEND is set') ??
    isLocal(config.backend, 'config.json has a "backend"')
  );
}

/** `fs` is the local spool; undefined if nothing is said. */
function isLocal(backend: unknown, because: string): boolean | undefined {
  if (!backend) return undefined;
  if (backend === 'brain') throw noBrain(because);
  if (backend === 'fs') return true;
  if (backend === 'relay' || backend === 'http') return false;
  throw new Refusal('bad_config', `no such backend (${because}); leave it out`);
}

function workspaceOf(home: Home): Workspace & { home: Home } {
  return {
    homes: [home],
    home,
    readAddress,
    now: Date.now,
    newId: () => crypto.randomUUID() as MessageId,
    bodyLimit: BODY_LIMIT,
  };
}
