import type { AgentName, ChannelName } from '../../protocol/names.ts';
import { Refusal } from '../../protocol/refusal.ts';
import type { AgentRecord, Directory } from './directory.ts';
import {
  membersIn,
  newRecord,
  recordFrom,
  recordText,
  refuseLikeness,
  rewritten,
  seenLately,
  sortedChannels,
  subscribersIn,
} from './rules.ts';

/** The directory of one process, gone with it: for tests and trials. Records are texts, as they would stand on a disk. */
export class MemoryDirectory implements Directory {
  constructor(
    readonly now: () => number,
    readonly texts = new Map<AgentName, string>(),
  ) {}

  async get(name: AgentName): Promise<AgentRecord | null> {
    return this.#read(name);
  }

  async list(): Promise<AgentRecord[]> {
    return this.#all().sort((a, b) => a.name.localeCompare(b.name));
  }

  async unreadable(): Promise<string[]> {
    return [...this.texts.keys()].filter((name) => this.#read(name) === null);
  }

  async channels(): Promise<ChannelName[]> {
    return sortedChannels(this.#all());
  }

  async subscribers(channel: ChannelName): Promise<AgentName[]> {
    return subscribersIn(await this.list(), channel);
  }

  async members(role: AgentName): Promise<AgentName[]> {
    return membersIn(await this.list(), role);
  }

  async register(name: AgentName, kind: 'agent' | 'human' | 'foreign'): Promise<AgentRecord> {
    const now = new Date(this.now()).toISOString();
    const known = this.#read(name);
    if (known) {
      this.#rewrite(name, { lastSeen: now });
      return { ...known, lastSeen: now };
    }
    if (this.texts.has(name)) {
      throw new Refusal(
        'storage_failed',
        `the record of ${name} cannot be read; mend or remove it, then run this again`,
      );
    }
    refuseLikeness(name, [...this.texts.keys()], this.#all());
    const record = newRecord(name, kind, now);
    this.texts.set(name, recordText(record));
    return record;
  }

  async subscribe(name: AgentName, channel: ChannelName): Promise<void> {
    const { subscriptions } = this.#known(name);
    if (!subscriptions.includes(channel)) this.#rewrite(name, { subscriptions: [...subscriptions, channel] });
  }

  async unsubscribe(name: AgentName, channel: ChannelName): Promise<void> {
    const { subscriptions } = this.#known(name);
    if (subscriptions.includes(channel)) {
      this.#rewrite(name, { subscriptions: subscriptions.filter((other) => other !== channel) });
    }
  }

  async seen(name: AgentName): Promise<void> {
    const record = this.#read(name);
    if (!record || seenLately(record, this.now())) return;
    this.#rewrite(name, { lastSeen: new Date(this.now()).toISOString() });
  }

  async remove(name: AgentName): Promise<void> {
    this.texts.delete(name);
  }

  async close(): Promise<void> {}

  #read(name: AgentName): AgentRecord | null {
    return recordFrom(name, this.texts.get(name) ?? '');
  }

  #known(name: AgentName): AgentRecord {
    const record = this.#read(name);
    if (!record) throw new Refusal('not_found', `no agent is called ${name}`);
    return record;
  }

  #all(): AgentRecord[] {
    return [...this.texts.keys()].map((name) => this.#read(name)).filter((record) => record !== null);
  }

  #rewrite(name: AgentName, change: Partial<AgentRecord>): void {
    this.texts.set(name, rewritten(this.texts.get(name) ?? '{}', change));
  }
}
