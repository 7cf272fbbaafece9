import type { AgentName, ChannelName } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import type { RelayHttp } from './remote-http.ts';
import { AgentRecord } from '../../core/ports/directory.ts';
import type { Directory } from '../../core/ports/directory.ts';
import { membersIn, rolesIn, sortedChannels, subscribersIn } from '../../store/directory/rules.ts';

/** How long a list of agents is reused: one command asks several times. */
const LIST_MS = 1000;

/** The agents of a relay, as one of them sees them. */
export class RelayDirectory implements Directory {
  #listed: { at: number; records: AgentRecord[] } | undefined;

  constructor(
    readonly http: RelayHttp,
    /** Our own record at the relay, known without a request. */
    readonly self: AgentRecord,
  ) {}

  async get(name: AgentName): Promise<AgentRecord | null> {
    if (name === this.self.name) return this.self;
    return (await this.list()).find((record) => record.name === name) ?? null;
  }

  async list(): Promise<AgentRecord[]> {
    if (this.#listed && Date.now() - this.#listed.at < LIST_MS) return this.#listed.records;
    const { data } = await this.http.ask('GET', '/v1/agents');
    const records = (Array.isArray(data) ? data : []).flatMap((one: unknown) => {
      const record = AgentRecord.safeParse(one);
      return record.success ? [record.data] : [];
    });
    this.#listed = { at: Date.now(), records };
    return records;
  }

  async unreadable(): Promise<string[]> {
    return [];
  }

  async count(): Promise<number> {
    return (await this.list()).length;
  }

  async channels(): Promise<ChannelName[]> {
    return sortedChannels(await this.list());
  }

  async subscribers(channel: ChannelName): Promise<AgentRecord[]> {
    return subscribersIn(await this.list(), channel);
  }

  async members(role: AgentName): Promise<AgentRecord[]> {
    return membersIn(await this.list(), role);
  }

  async rolesAmong(names: readonly AgentName[]): Promise<AgentName[]> {
    return rolesIn(await this.list(), names);
  }

  /** The relay checks tokens itself. */
  async byToken(): Promise<null> {
    return null;
  }

  /** Registers only our own agent again. A new agent has no token yet and must join. */
  async register(name: AgentName): Promise<AgentRecord> {
    const { data } = await this.http.ask('POST', '/v1/register', { body: { name } });
    return AgentRecord.parse(data);
  }

  async subscribe(agent: AgentName, channel: ChannelName): Promise<void> {
    await this.#change('subscribe', agent, channel);
  }

  async unsubscribe(agent: AgentName, channel: ChannelName): Promise<void> {
    await this.#change('unsubscribe', agent, channel);
  }

  /** The relay updates `lastSeen` itself. */
  async seen(): Promise<void> {}

  async giveToken(): Promise<never> {
    throw onlyForTheHost();
  }

  async amend(): Promise<never> {
    throw onlyForTheHost();
  }

  async remove(): Promise<never> {
    throw onlyForTheHost();
  }

  async close(): Promise<void> {}

  async #change(verb: 'subscribe' | 'unsubscribe', agent: AgentName, channel: ChannelName): Promise<void> {
    await this.http.ask('POST', `/v1/${verb}`, { body: { agent, channel } });
    this.#listed = undefined;
  }
}

/** A directory without requests, for decisions while the relay is unreachable. It knows only our own record. */
export class OfflineDirectory extends RelayDirectory {
  override async list(): Promise<AgentRecord[]> {
    return [this.self];
  }
}

function onlyForTheHost(): Refusal {
  return new Refusal('not_yours', 'only the host of a relay can change its agents; ask the person who runs it');
}
