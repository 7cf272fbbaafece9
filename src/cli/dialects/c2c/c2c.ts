import { visibleLine } from '../../../delivery/gate.ts';
import { speakerOf } from '../../../flow/c2c/sessions.ts';
import type { Desk, Home, Who } from '../../../flow/desk.ts';
import { readAlias } from '../../../protocol/c2c.ts';
import { BODY_LIMIT } from '../../../protocol/message.ts';
import type { AgentName, MessageId } from '../../../protocol/names.ts';
import { Refusal } from '../../../protocol/refusal.ts';
import type { Broker } from '../../../storage/c2c/broker.ts';
import type { Use } from '../../../sessions/authority.ts';
import type { Env } from '../../env.ts';
import { writeAll } from '../../terminal.ts';
import type * as Wiring from '../../wiring-broker.ts';
import { brokerRoot } from './root.ts';
import { readAddress, unreachable } from './address.ts';
import { sessionIn } from './session-id.ts';
import { isSupervisor, refuseSupervisor } from './supervisor-alias.ts';

/** What a command of this dialect has at hand. Nothing in it is opened before it is asked for. */
export class C2c {
  #opened: { home: Home; broker: Broker } | undefined;

  constructor(
    readonly env: Env,
    readonly cwd: string,
  ) {}

  get root(): string {
    return brokerRoot(this.env, this.cwd);
  }

  /** The same at another broker, if one is named. */
  at(root: string | undefined): C2c {
    return root === undefined ? this : new C2c({ ...this.env, C2C_MCP_BROKER_ROOT: root }, this.cwd);
  }

  /** The same for a session that nothing in the environment names. */
  as(sessionId: string): C2c {
    return new C2c({ ...this.env, C2C_MCP_SESSION_ID: sessionId }, this.cwd);
  }

  /** The session of whoever calls; null if nothing names one. */
  get sessionId(): string | null {
    return sessionIn(this.env, this.cwd);
  }

  get broker(): Broker {
    return this.#open().broker;
  }

  get home(): Home {
    return this.#open().home;
  }

  /** One home only: this broker directory. */
  get desk(): Desk {
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
    // The inbox of that name is somebody else's.
    const other = await this.broker.called(sessionId);
    if (!other) return sessionId as AgentName;
    throw new Refusal(
      'not_yours',
      `session ${sessionId} is not registered, and "${other.row.alias}" is the alias of session ${other.row.session_id}; run \`c2c register <alias>\` with another one, or name that session`,
    );
  }

  async reader(sessionId = this.session()): Promise<Who> {
    const name = await this.mailbox(sessionId);
    await this.home.spool.heal();
    return { name, home: this.home };
  }

  /** Who writes: the one that `from` names, or the alias of the calling session, or what the environment says it would be. */
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
        ? 'this shell is no session of c2c; run `export C2C_MCP_SESSION_ID=me` and `c2c register me` first, or say --from <alias>'
        : 'this session has no alias; run `c2c register <alias>` first, or say --from <alias>',
    );
  }

  /** The user acts under the alias of a supervisor, whatever session has it. */
  async #named(alias: AgentName, sessionId: string | null): Promise<AgentName> {
    if (!isSupervisor(this.env, alias)) return speakerOf(this.broker, alias, sessionId);
    this.refuseSupervisor(alias, 'act');
    return ((await this.broker.called(alias))?.row.alias ?? alias) as AgentName;
  }

  /** Only the user acts under the alias of a supervisor. */
  refuseSupervisor(alias: string, use: Use): void {
    refuseSupervisor(this.env, alias, use);
  }

  session(): string {
    const id = this.sessionId;
    if (id !== null) return id;
    throw new Refusal(
      'no_identity',
      'this shell is no session of c2c; name one with `export C2C_MCP_SESSION_ID=<id>`, or say --session-id <id>',
    );
  }

  say(text: string): void {
    writeAll(1, `${text}\n`);
  }

  /** Beside the result: never mixed with it. */
  note(text: string): void {
    writeAll(2, `${text}\n`);
  }

  /** Says which files were found broken, and where they are kept. Costs nothing where no broker was opened. */
  async tellRepairs(): Promise<void> {
    for (const { file, copy, what } of (await this.#opened?.broker.repairs()) ?? []) {
      this.note(
        `${visibleLine(file)} was broken (${visibleLine(what)}); what could be saved of it is in use, and as it was found it is kept as ${visibleLine(copy)}`,
      );
    }
  }

  sayJson(value: unknown): void {
    writeAll(1, `${JSON.stringify(value)}\n`);
  }

  #open(): { home: Home; broker: Broker } {
    // Read only here: a look into an empty inbox should not pay for it.
    const { openBroker } = require('../../wiring-broker.ts') as typeof Wiring;
    this.#opened ??= openBroker(this.root);
    return this.#opened;
  }
}
