import { AgentName } from '../../core/names.ts';
import type { ChannelName } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import { SURFACE_BOX } from '../../core/mail/route.ts';
import type { HostContext } from './context.ts';
import { bridgeName, originNames, personName, safe } from './platform-names.ts';
import type { ChatOrigin } from './platform-names.ts';

const NAMED = 20;
/** How many DMs of one person are remembered: those with the agents that the person wrote to last. */
const DMS = 100;

/** The people and bots of a surface as agents, and the members of its conversations. */
export class Members {
  readonly #channels = new Set<ChannelName>();
  readonly #joined = new Set<string>();
  readonly #names = new Map<AgentName, string>();
  readonly #dms = new Map<string, string>();

  constructor(readonly context: HostContext) {}

  isChannel(channel: ChannelName): boolean {
    return this.#channels.has(channel);
  }

  /**
   * Gives a workspace its permanent name, and one mailbox for the messages of its channels. Through that mailbox each message is shown there
   * once, however many people subscribe.
   */
  async origin(platform: AgentName, workspaceId: string): Promise<ChatOrigin> {
    const { directory } = this.context.deps.home;
    for (const name of originNames(platform, workspaceId)) {
      const box = bridgeName(name);
      if (!(await directory.get(box))) {
        await this.#refuseAgents(name);
        await directory.register(box, 'agent');
      }
      // An earlier version wrote no workspace into this mailbox: each platform had only one.
      const own = { platform, workspaceId };
      const { parley } = await directory.amend(box, ({ surface }) => (surface ? null : { surface: own }));
      if (parley?.surface?.platform === platform && parley.surface.workspaceId === workspaceId)
        return { platform, workspaceId, name };
    }
    throw new Refusal(
      'name_taken',
      `another surface has the name of this workspace; bind it under another platform name`,
    );
  }

  /** Refuses a name under which an agent exists: a person there could get that agent's name and speak for it. */
  async #refuseAgents(origin: AgentName): Promise<void> {
    const records = await this.context.deps.home.directory.list();
    const other = records.find((record) => record.name.startsWith(`${origin}.`));
    if (other)
      throw new Refusal('name_taken', `@${other.name} is an agent here; bind this surface under another platform name`);
  }

  /** The agents that these names mention: agents and roles by name, people by the platform's id. Unknown names mention nobody. */
  async called(origin: ChatOrigin, names: readonly string[]): Promise<AgentName[]> {
    const { directory } = this.context.deps.home;
    const called = new Set<AgentName>();
    for (const name of names.slice(0, NAMED)) {
      const here = AgentName.safeParse(name.replace(/^@/, ''));
      const isHere =
        here.success && ((await directory.get(here.data)) || (await directory.rolesAmong([here.data])).length > 0);
      const person = AgentName.safeParse(isHere ? here.data : `${origin.name}.${safe(name)}`);
      if (person.success && (isHere || (await directory.get(person.data)))) called.add(person.data);
    }
    return [...called];
  }

  /** Remembers the platform's id of a person's DM with an agent. Messages that the agent begins are shown there. */
  async keepDm(person: AgentName, agent: AgentName, conversation: string): Promise<void> {
    const key = `${person} ${agent}`;
    if (this.#dms.get(key) === conversation) return;
    await this.context.deps.home.directory.amend(person, ({ dms = {} }) => {
      if (dms[agent] === conversation) return null;
      const others = Object.entries(dms).filter(([name]) => name !== agent);
      return { dms: Object.fromEntries([...others, [agent, conversation]].slice(-DMS)) };
    });
    if (this.#dms.size > 100_000) this.#dms.clear();
    this.#dms.set(key, conversation);
  }

  /** Does this channel belong to the workspace? Its people can refer to no message of any other channel. */
  async isShown({ name }: ChatOrigin, channel: ChannelName): Promise<boolean> {
    const bridge = await this.context.deps.home.directory.get(bridgeName(name));
    return bridge?.subscriptions.includes(channel) ?? false;
  }

  /** A person or bot of a workspace as an agent. Keeps its display name. */
  async person(
    origin: ChatOrigin,
    { id, kind, displayName }: { id: string; kind: 'human' | 'agent'; displayName?: string | undefined },
  ): Promise<AgentName> {
    const { directory } = this.context.deps.home;
    const name = personName(origin, id);
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
   * Adds the author of a message to its conversation, and in a public conversation also those whom the message mentions. Being mentioned
   * does not add anybody to a private conversation.
   */
  async join(origin: ChatOrigin, author: AgentName, channel: ChannelName, publicly: readonly string[]): Promise<void> {
    await this.#refuseOthers(origin, channel);
    this.#channels.add(channel);
    for (const name of [bridgeName(origin.name), author]) await this.#subscribe(name, channel);
    const { directory } = this.context.deps.home;
    for (const called of publicly.slice(0, NAMED)) {
      const name = AgentName.safeParse(called);
      if (!name.success) continue;
      const agent = await directory.get(name.data);
      for (const one of agent ? [agent] : await directory.members(name.data)) {
        if (one.parley?.kind === 'agent') await this.#subscribe(one.name, channel);
      }
    }
  }

  /** Refuses a conversation that belongs to another workspace: people of one must not read the other's. */
  async #refuseOthers(origin: ChatOrigin, channel: ChannelName): Promise<void> {
    const bridge = bridgeName(origin.name);
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
