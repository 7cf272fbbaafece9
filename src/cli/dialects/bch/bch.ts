import type { Desk, Home, Who } from '../../../flow/desk.ts';
import { BODY_LIMIT } from '../../../protocol/message.ts';
import type { AgentName } from '../../../protocol/names.ts';
import { Refusal } from '../../../protocol/refusal.ts';
import { backchannelHome } from '../../settings.ts';
import type { Env } from '../../settings.ts';
import { writeAll } from '../../terminal.ts';
import { openDesk } from '../../wiring.ts';
import { readAddress, readName } from './address.ts';
import { readConfig } from './config.ts';
import type { Config } from './config.ts';
import { refuseElsewhere } from './elsewhere.ts';

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

  /** The local spool: this dialect sees only its own home. Whoever is set up to use another place is told so instead. */
  get desk(): Desk & { home: Home } {
    refuseElsewhere(this.env, this.config);
    this.#desk ??= this.#open();
    return this.#desk;
  }

  /** Who acts: the environment beats the config, even when it is set to nothing. */
  get identity(): AgentName | null {
    const name = this.env['BACKCHANNEL_AGENT'] ?? this.config.agent;
    return name ? readName(name) : null;
  }

  /** Who acts, and where. As in the original, nobody has to be registered to write or to look. */
  async who(): Promise<Who> {
    const name = this.identity;
    if (!name)
      throw new Refusal('no_identity', 'no agent identity — run `bch init <name>` first (or set BACKCHANNEL_AGENT)');
    const { home } = this.desk;
    return { name, home };
  }

  /** The same for a reader: what the dead left is put right first, and everybody can see that the agent was here. */
  async reader(): Promise<Who> {
    const who = await this.who();
    await who.home.spool.heal();
    await who.home.directory.seen(who.name);
    return who;
  }

  say(text: string): void {
    writeAll(1, `${text}\n`);
  }

  #open(): Desk & { home: Home } {
    const desk = openDesk(this.env, { bodyLimit: BODY_LIMIT, durability: 'normal' }, 'bch');
    const [home] = desk.homes;
    if (!home) throw new Error('a desk without a home');
    return { ...desk, home, readAddress };
  }
}
