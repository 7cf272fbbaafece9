import type { Env } from '../core/env.ts';
import { openWorkspace } from '../daemon/homes.ts';
import { nearest } from '../core/nearest.ts';
import type { Home, Workspace, Who } from '../core/mail/workspace.ts';
import { parleyHome } from '../platform/env.ts';
import { hasColour, Paint, writeAll } from '../platform/terminal.ts';
import { AgentName, ChannelName, nameAdvice } from '../core/names.ts';
import { Refusal } from '../core/refusal.ts';
import { refuseSupervisor } from '../protocols/c2c/supervisors.ts';
import { C2c } from '../protocols/c2c/workspace.ts';
import type { Use } from '../platform/authority.ts';
import { refusePersonsName } from '../platform/authority.ts';
import { clientBindings, sharedMailbox } from '../delivery/client-bindings.ts';
import { loadSettings } from './settings.ts';
import type { Loaded, Settings } from './settings.ts';

/** What a command works with. Nothing in it is opened before it is asked for. */
export class Context {
  readonly json: boolean;
  readonly paint: Paint;
  readonly #flags: { as?: string; match?: unknown; verbose?: boolean; client?: string };
  #loaded: Loaded | undefined;
  #workspace: Workspace | undefined;
  #hasTold = false;

  constructor(
    readonly env: Env,
    readonly cwd: string,
    flags: Record<string, unknown>,
  ) {
    this.json = flags['json'] === true;
    this.paint = new Paint(!this.json && hasColour(env));
    this.#flags = flags;
  }

  get loaded(): Loaded {
    this.#loaded ??= this.#load(true);
    return this.#loaded;
  }

  #load(withProject: boolean): Loaded {
    const { as, match, client } = this.#flags;
    return loadSettings(this.env, this.cwd, { agent: as?.replace(/^@/, ''), match }, { withProject, client });
  }

  get settings(): Settings {
    return this.loaded.settings;
  }

  get workspace(): Workspace {
    return (this.#workspace ??= openWorkspace(this.env, this.settings));
  }

  /** The home of Parley itself on this machine. */
  get ownHome(): Home {
    const home = this.workspace.homes.find(({ label }) => label === 'parley');
    if (!home) throw new Error('a workspace has a home of Parley');
    return home;
  }

  openWorkspace(): Workspace {
    const { bodyLimit, durability } = this.settings;
    return openWorkspace(this.env, { bodyLimit, durability }, { stays: true, cwd: this.cwd });
  }

  /** Who acts, and where that mailbox is. A name without a mailbox is an error, never an empty inbox. */
  async who(use: Use = 'act'): Promise<Who> {
    if (use !== 'serve') this.#tellIgnored();
    const name = this.settings.agent;
    if (!name)
      throw new Refusal('no_identity', 'no agent identity; run `parley init <name>` first (or set PARLEY_AGENT)');
    for (const home of this.workspace.homes) {
      const record = await home.directory.get(name);
      if (!record) continue;
      if (record.parley?.kind === 'human') {
        if (this.#isFromProject()) return this.#whoWithoutProject(name, use);
        refusePersonsName(this.env, name, use);
      }
      if (this.workspace.homes.some(({ label }) => label === 'c2c')) refuseSupervisor(this.env, name, use);
      if (home.label === 'c2c' && use === 'act') await this.#refuseOthersAlias(name);
      await home.mailboxes.heal();
      this.log('identity', { agent: name, home: home.label });
      const shares = home.label === 'parley' ? sharedMailbox(home.root, name) : undefined;
      return { name, home, ...(shares !== undefined && { shares }) };
    }
    const names = (await Promise.all(this.workspace.homes.map((home) => home.directory.list())))
      .flat()
      .map((record) => record.name);
    const [near] = nearest(name, names);
    const from = this.#origin();
    const named = from.startsWith('/') ? ` (named by ${from})` : '';
    throw new Refusal(
      'no_identity',
      `no mailbox is called "${name}"${named}; run \`parley init ${name}\`${near ? `, or did you mean ${near}?` : ''}`,
    );
  }

  /** Refuses the alias of another c2c session. A shell may not know the session that its client's server has. spec: c2c#aliases */
  async #refuseOthersAlias(alias: AgentName): Promise<void> {
    const c2c = new C2c(this.env, this.cwd);
    if (c2c.sessionId !== null) await c2c.writer(alias);
  }

  /** Says once that a project's file does not count. */
  #tellIgnored(): void {
    const { ignored } = this.loaded;
    if (ignored !== null && !this.#hasTold) this.note(`parley: ${ignored}`);
    this.#hasTold = true;
  }

  /** What says who acts: `flag`, a variable, or the path of a file. */
  #origin(): string {
    return this.loaded.origins.find((origin) => origin.name === 'agent')?.from ?? '';
  }

  #isFromProject(): boolean {
    return this.#origin().endsWith('/.parley.json');
  }

  /** A project's file never makes anybody a person, trusted or not. */
  async #whoWithoutProject(name: AgentName, use: Use): Promise<Who> {
    if (use !== 'serve')
      this.note(
        `parley: A project file can only name an agent; @${name} is a person. Use --as ${name} at your own terminal.`,
      );
    this.#loaded = this.#load(false);
    this.#workspace = undefined;
    return this.who(use);
  }

  /** What a hint must repeat so that it acts as the same agent: ` --as <agent>`, or nothing. */
  get asOption(): string {
    return this.#flags.as === undefined ? '' : ` --as ${this.#flags.as.replace(/^@/, '')}`;
  }

  /** Words for people. */
  say(text: string): void {
    writeAll(1, `${text}\n`);
  }

  /** One JSON value for programs. */
  sayJson(value: unknown): void {
    writeAll(1, `${JSON.stringify(value, null, 2)}\n`);
  }

  /** Progress, warnings and what to do next: never mixed with the result. */
  note(text: string): void {
    writeAll(2, `${text}\n`);
  }

  /** Everything is to be logged. */
  get verbose(): boolean {
    return this.#flags.verbose === true || this.env['PARLEY_LOG'] === 'debug';
  }

  /** Says more with `--verbose`, or PARLEY_LOG=debug, or PARLEY_LOG=json. Never a body. */
  log(event: string, facts: Record<string, string | number | boolean> = {}): void {
    const level = this.env['PARLEY_LOG'];
    if (level === 'json') writeAll(2, `${JSON.stringify({ at: new Date().toISOString(), event, ...facts })}\n`);
    else if (this.verbose) {
      const told = Object.entries(facts).map(([name, value]) => ` ${name}=${value}`);
      writeAll(2, `parley: ${event}${told.join('')}\n`);
    }
  }
}

/** A name from the command line, with or without its @. */
export function agentName(text: string): AgentName {
  const plain = text.replace(/^@/, '');
  const name = AgentName.safeParse(plain);
  if (name.success) return name.data;
  throw new Refusal(
    'invalid_request',
    `invalid agent name "${text.replace(/\p{Cc}/gu, '?').slice(0, 80)}" (${nameAdvice(plain)})`,
  );
}

/** A channel from the command line, with or without its #. */
export function channelName(text: string): ChannelName {
  const channel = ChannelName.safeParse(text.startsWith('#') ? text : `#${text}`);
  if (channel.success) return channel.data;
  throw new Refusal(
    'invalid_request',
    `invalid channel "${text.replace(/\p{Cc}/gu, '?').slice(0, 80)}" (use letters, digits, . _ -)`,
  );
}

/**
 * Refuses the mailbox of config.json to a client that has no mailbox of its own: it is the user's, or another client's.
 * A hook line of 0.1.0 may name no mailbox, and looks like a line of today. It is served in a home where no client is bound. spec: hook#session
 */
export function refuseClientWithoutMailbox({ loaded, env }: Context, client: string, by: 'hook' | 'mcp'): void {
  const home = parleyHome(env);
  const from = loaded.origins.find(({ name }) => name === 'agent')?.from;
  if (from !== 'default' && from !== `${home}/config.json`) return;
  if (by === 'hook' && Object.keys(clientBindings(home)).length === 0) return;
  throw new Refusal('no_identity', `${client} has no mailbox here; run \`parley install ${client}\` first`);
}
