import { mentionsIn } from '../../core/attention/text.ts';
import { AgentName } from '../../core/names.ts';
import type { ChannelName } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import { SURFACE_BOX } from '../../core/mail/route.ts';
import type { HostContext } from './context.ts';
import { bridgeName, personName } from './platform-names.ts';

const NAMED = 20;

/** Who is where at a surface: people and bots as agents, and who belongs to which conversation. */
export class Members {
  readonly #channels = new Set<ChannelName>();
  readonly #joined = new Set<string>();
  readonly #names = new Map<AgentName, string>();

  constructor(readonly context: HostContext) {}

  isChannel(channel: ChannelName): boolean {
    return this.#channels.has(channel);
  }

  /** The mailbox for what is said in the channels of a platform: it is shown there once, however many listen. */
  async bridge(platform: AgentName): Promise<AgentName> {
    const { directory } = this.context.deps.home;
    const name = bridgeName(platform);
    if (await directory.get(name)) return name;
    // Somebody there could have the rest of such a name, and would speak for that agent.
    const other = (await directory.list()).find((record) => record.name.startsWith(`${platform}.`));
    if (other)
      throw new Refusal('name_taken', `@${other.name} is an agent here; bind this surface under another platform name`);
    await directory.register(name, 'agent');
    return name;
  }

  /** Is this channel one of the platform's? Of any other nobody there knows anything, whatever id they name. */
  async isShown(platform: AgentName, channel: ChannelName): Promise<boolean> {
    const bridge = await this.context.deps.home.directory.get(bridgeName(platform));
    return bridge?.subscriptions.includes(channel) ?? false;
  }

  /** A person or bot of a platform as an agent. How it is called is kept. */
  async person(
    platform: AgentName,
    { id, kind, displayName }: { id: string; kind: 'human' | 'agent'; displayName?: string | undefined },
  ): Promise<AgentName> {
    const { directory } = this.context.deps.home;
    const name = personName(platform, id);
    if (!this.#names.has(name)) {
      if (!(await directory.get(name))) await directory.register(name, kind);
      this.#names.set(name, '');
    }
    const called =
      displayName
        ?.replace(/\p{Cc}+/gu, ' ')
        .trim()
        .slice(0, 200) ?? '';
    if (called !== '' && this.#names.get(name) !== called) {
      await directory.amend(name, (own) => (own.displayName === called ? null : { displayName: called }));
      this.#names.set(name, called);
    }
    return name;
  }

  /**
   * Who says something in a conversation belongs to it. In a public one everybody who is called there does too; into a private one
   * nobody comes by being named.
   */
  async join(platform: AgentName, author: AgentName, channel: ChannelName, publicText: string): Promise<void> {
    await this.#refuseOthers(platform, channel);
    this.#channels.add(channel);
    for (const name of [bridgeName(platform), author]) await this.#subscribe(name, channel);
    if (!publicText.includes('@')) return;
    const { directory } = this.context.deps.home;
    for (const called of mentionsIn(publicText).slice(0, NAMED)) {
      const name = AgentName.safeParse(called);
      if (!name.success) continue;
      const agent = await directory.get(name.data);
      for (const one of agent ? [agent] : await directory.members(name.data)) {
        if (one.parley?.kind === 'agent') await this.#subscribe(one.name, channel);
      }
    }
  }

  /** A conversation is one platform's: of two that call theirs alike, neither may read along in the other. */
  async #refuseOthers(platform: AgentName, channel: ChannelName): Promise<void> {
    const bridge = bridgeName(platform);
    if (this.#joined.has(`${bridge} ${channel}`)) return;
    const names = (await this.context.deps.home.directory.subscribers(channel)).map(({ name }) => name);
    if (names.includes(bridge) || !names.some((name) => name.endsWith(SURFACE_BOX))) return;
    throw new Refusal(
      'name_taken',
      `${channel} is a conversation of another surface here; bring this one under another id`,
    );
  }

  async #subscribe(name: AgentName, channel: ChannelName): Promise<void> {
    const { directory } = this.context.deps.home;
    const key = `${name} ${channel}`;
    if (this.#joined.has(key)) return;
    if (!(await directory.get(name))?.subscriptions.includes(channel)) await directory.subscribe(name, channel);
    if (this.#joined.size > 100_000) this.#joined.clear();
    this.#joined.add(key);
  }
}
