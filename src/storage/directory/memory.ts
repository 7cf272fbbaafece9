import type { AgentName, ChannelName } from '../../protocol/names.ts';
import { Refusal } from '../../protocol/refusal.ts';
import type { AgentRecord, Amendment, Directory } from './directory.ts';
import {
  amended,
  holderIn,
  membersIn,
  newRecord,
  recordText,
  refuseLikeness,
  refuseUnreadable,
  rewritten,
  rolesIn,
  sortedChannels,
  subscribersIn,
  withChannel,
  withoutChannel,
} from './rules.ts';
import { recordFrom, seenLately } from './record-places.ts';

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

  async count(): Promise<number> {
    return this.texts.size;
  }

  async channels(): Promise<ChannelName[]> {
    return sortedChannels(this.#all());
  }

  async subscribers(channel: ChannelName): Promise<AgentRecord[]> {
    return subscribersIn(await this.list(), channel);
  }

  async members(role: AgentName): Promise<AgentRecord[]> {
    return membersIn(await this.list(), role);
  }

  async rolesAmong(names: readonly AgentName[]): Promise<AgentName[]> {
    return rolesIn(this.#all(), names);
  }

  async byToken(tokenHash: string): Promise<AgentName | null> {
    return holderIn(this.#all(), tokenHash);
  }

  async register(name: AgentName, kind: 'agent' | 'human' | 'foreign', tokenHash?: string): Promise<AgentRecord> {
    const now = new Date(this.now()).toISOString();
    const known = this.#read(name);
    if (known) {
      this.#rewrite(name, { lastSeen: now });
      return { ...known, lastSeen: now };
    }
    if (this.texts.has(name)) throw refuseUnreadable(`the record of ${name}`);
    refuseLikeness(name, [...this.texts.keys()], this.#all());
    const record = newRecord(name, kind, now, tokenHash);
    this.texts.set(name, recordText(record));
    return record;
  }

  async amend(name: AgentName, change: Amendment): Promise<AgentRecord> {
    const record = this.#read(name);
    if (!record && this.texts.has(name)) throw refuseUnreadable(`the record of ${name}`);
    if (!record) throw new Refusal('not_found', `no agent is called ${name}`);
    const after = amended(this.texts.get(name) ?? '', record, change, () => this.#all());
    if (after === null) return record;
    const changed = recordFrom(name, after);
    if (!changed?.parley) throw new Error(`the record of ${name} could not be read as it was to be written`);
    this.texts.set(name, after);
    return changed;
  }

  async subscribe(name: AgentName, channel: ChannelName): Promise<void> {
    this.#change(name, (record) => withChannel(record, channel));
  }

  async unsubscribe(name: AgentName, channel: ChannelName): Promise<void> {
    this.#change(name, (record) => withoutChannel(record, channel));
  }

  async seen(name: AgentName): Promise<void> {
    const record = this.#read(name);
    if (!record || seenLately(record, this.now())) return;
    this.#rewrite(name, { lastSeen: new Date(this.now()).toISOString() });
  }

  async giveToken(name: AgentName, tokenHash: string | null): Promise<void> {
    this.#change(name, () => ({ tokenHash: tokenHash ?? undefined }));
  }

  async remove(name: AgentName): Promise<void> {
    this.texts.delete(name);
  }

  async close(): Promise<void> {}

  #read(name: AgentName): AgentRecord | null {
    return recordFrom(name, this.texts.get(name) ?? '');
  }

  #change(name: AgentName, change: (record: AgentRecord) => Partial<AgentRecord> | null): void {
    const record = this.#read(name);
    if (!record) throw new Refusal('not_found', `no agent is called ${name}`);
    const changed = change(record);
    if (changed) this.#rewrite(name, changed);
  }

  #all(): AgentRecord[] {
    return [...this.texts.keys()].map((name) => this.#read(name)).filter((record) => record !== null);
  }

  #rewrite(name: AgentName, change: Partial<AgentRecord>): void {
    this.texts.set(name, rewritten(this.texts.get(name) ?? '{}', change));
  }
}
