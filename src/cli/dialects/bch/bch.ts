import type { Desk, Home, Who } from '../../../flow/desk.ts';
import { BODY_LIMIT } from '../../../protocol/message.ts';
import type { AgentName, MessageId } from '../../../protocol/names.ts';
import { Refusal } from '../../../protocol/refusal.ts';
import type { Use } from '../../../sessions/authority.ts';
import { backchannelHome } from '../../env.ts';
import type { Env } from '../../env.ts';
import { writeAll } from '../../terminal.ts';
import { openDesk, openFarHome } from '../../wiring.ts';
import { readAddress, readName, unreachable } from '../../../protocol/backchannel.ts';
import { readConfig } from './config.ts';
import type { Config } from './config.ts';
import { elsewhere, tokenAt } from './elsewhere.ts';
import type { Elsewhere } from './elsewhere.ts';

/** What a command of this dialect has at hand. Nothing in it is opened before it is asked for. */
export class Bch {
  #config: Config | undefined;
  #desk: (Desk & { home: Home }) | undefined;

  constructor(readonly env: Env) {}

  get root(): string {
    return backchannelHome(this.env);
  }

  get config(): Config {
    this.#config ??= readConfig(this.root);
    return this.#config;
  }

  /** The relay that is in use; null for the local spool. */
  get elsewhere(): Elsewhere | null {
    return elsewhere(this.env, this.config);
  }

  /** One home only: the local spool, or the mailbox at a relay. */
  get desk(): Desk & { home: Home } {
    this.#desk ??= this.#open();
    return this.#desk;
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
    const { home } = this.desk;
    await this.refusePerson(name, use);
    return { name, home };
  }

  async refusePerson(name: AgentName, use: Use): Promise<void> {
    if ((await this.desk.home.directory.get(name))?.parley?.kind !== 'human') return;
    const { refusePersonsName } = await import('../../consent.ts');
    refusePersonsName(this.env, name, use, 'BACKCHANNEL_AGENT=<agent>');
  }

  /** The same for a reader: what the dead left is put right first, and everybody can see that the agent was here. */
  async reader(use: Use = 'read'): Promise<Who> {
    const who = await this.who(use);
    await who.home.spool.heal();
    await who.home.directory.seen(who.name);
    return who;
  }

  say(text: string): void {
    writeAll(1, `${text}\n`);
  }

  #open(): Desk & { home: Home } {
    const place = this.elsewhere;
    if (place) return this.#openAt(place);
    const desk = openDesk(this.env, { bodyLimit: BODY_LIMIT, durability: 'normal' }, 'bch');
    const [home] = desk.homes;
    if (!home) throw new Error('a desk without a home');
    return { ...desk, home, readAddress, unreachable };
  }

  #openAt(place: Elsewhere): Desk & { home: Home } {
    const agent = this.identity;
    if (!agent) throw nobody();
    const token = tokenAt(place, agent, this.env, this.config);
    const home = openFarHome({
      place: { ...place, agent, ...(token && { token }) },
      below: this.root,
      durability: 'normal',
    });
    return {
      homes: [home],
      home,
      readAddress,
      now: Date.now,
      newId: () => crypto.randomUUID() as MessageId,
      bodyLimit: BODY_LIMIT,
    };
  }
}

function nobody(): Refusal {
  return new Refusal('no_identity', 'no agent identity — run `bch init <name>` first (or set BACKCHANNEL_AGENT)');
}
