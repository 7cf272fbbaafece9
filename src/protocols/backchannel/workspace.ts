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

/** What a `bch` command works with. Each part is opened at first use. */
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

  /** The relay in use; null for the local spool. */
  get relayPlace(): RelayPlace | null {
    return relayPlace(this.env, this.config);
  }

  /** A workspace with one home: the local spool, or the mailbox at a relay. */
  get workspace(): Workspace & { home: Home } {
    this.#workspace ??= this.#open();
    return this.#workspace;
  }

  /** The agent that acts: the environment overrides the config, even with an empty value. */
  get identity(): AgentName | null {
    const name = this.env['BACKCHANNEL_AGENT'] ?? this.config.agent;
    return name ? readName(name) : null;
  }

  /**
   * The agent that acts, and its home. As in the original, it need not be registered to send or to look. A person's mailbox has the same
   * rule as for `parley`.
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

  /** The same for a reader: first finishes the work of dead processes, and updates `lastSeen`. */
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
  throw new Refusal('bad_config', `${path} is not a valid config; correct or remove it, then run this again`);
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
 * Makes this agent the current one on this machine. A token belongs to one agent; the original forgets it when another agent becomes
 * current. Here `token` is always the current agent's, which is all that the original reads. The others' tokens are kept in `tokens` until
 * their agent is current again.
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
    // A token without an agent belongs to the agent that becomes current.
    const current = own ?? (agent === undefined ? token : undefined);
    const after: Config = { agent: name, ...before };
    after.agent = name;
    delete after.token;
    delete after.tokens;
    if (place) {
      // At a relay every agent's token also has its own file. The config has only what the original reads.
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
 * The relay whose mailbox is used; null for the local spool. The environment overrides the config, even with an empty value. Refuses any
 * other backend, so that mail does not end up where nobody looks.
 */
function relayPlace(env: Env, config: Config): RelayPlace | null {
  const place = relayInUse(env, config);
  if (!place && isLocalSpool(env, config) === false)
    throw new Refusal(
      'bad_config',
      'the relay backend is set but no relay is named; run `bch init <name> --url <relay>`',
    );
  return place;
}

/** Like `relayPlace`, but a missing relay is not an error. */
export function relayInUse(env: Env, config: Config): RelayPlace | null {
  const local = isLocalSpool(env, config);
  const url = (env['BACKCHANNEL_URL'] ?? config.url)?.replace(/\/+$/, '');
  if (local || !url) return null;
  if (!/^https?:\/\/./.test(url) || !URL.canParse(url)) {
    throw new Refusal(
      'bad_config',
      `"${url}" is not the address of a relay; write https://host or http://localhost:7117`,
    );
  }
  const room = roomAt(url, env, config);
  return { url, ...(room && { room }) };
}

/** The room in use at this relay. The room of another relay is ignored; a malformed one means the default room. */
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

/** Is the local spool chosen explicitly? Undefined if no backend is set. */
function isLocalSpool(env: Env, config: Config): boolean | undefined {
  for (const variable of ['UNISON_TOKEN', 'UNISON_API_URL']) if (env[variable]) throw noBrain(`${variable} is set`);
  return (
    isLocal(env['BACKCHANNEL_BACKEND'], 'BACKCHANNEL_BACKEND is set') ??
    isLocal(config.backend, 'config.json has a "backend"')
  );
}

/** True for `fs`, the local spool; undefined if no backend is set. */
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
