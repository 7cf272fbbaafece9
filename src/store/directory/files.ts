import type { AgentName, ChannelName } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import type { AgentRecord, Amendment, Directory } from '../../core/ports/directory.ts';
import { RecordFiles, seenLately } from './record-files.ts';
import {
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

/** The records on disk, read again for every query: right for a command that asks once. */
export class FilesDirectory implements Directory {
  readonly #files: RecordFiles;

  constructor(
    readonly root: string,
    readonly now: () => number,
  ) {
    this.#files = new RecordFiles(root);
  }

  async get(name: AgentName): Promise<AgentRecord | null> {
    return this.#files.read(name);
  }

  async list(): Promise<AgentRecord[]> {
    return this.#files.all().sort((a, b) => a.name.localeCompare(b.name));
  }

  async unreadable(): Promise<string[]> {
    const unread = this.#files.names().filter((name) => this.#files.read(name) === null);
    return unread.map((name) => this.#files.path(name));
  }

  async count(): Promise<number> {
    return this.#files.names().length;
  }

  async channels(): Promise<ChannelName[]> {
    return sortedChannels(this.#files.all());
  }

  async subscribers(channel: ChannelName): Promise<AgentRecord[]> {
    return subscribersIn(await this.list(), channel);
  }

  async members(role: AgentName): Promise<AgentRecord[]> {
    return membersIn(await this.list(), role);
  }

  async rolesAmong(names: readonly AgentName[]): Promise<AgentName[]> {
    return rolesIn(this.#files.all(), names);
  }

  async byToken(tokenHash: string): Promise<AgentName | null> {
    return holderIn(this.#files.all(), tokenHash);
  }

  async register(name: AgentName, kind: 'agent' | 'human' | 'foreign', tokenHash?: string): Promise<AgentRecord> {
    return this.#files.locked(() => {
      const now = new Date(this.now()).toISOString();
      const known = this.#files.whole(name);
      if (known) {
        this.#files.write(name, rewritten(known.text, { lastSeen: now }));
        return { ...known.record, lastSeen: now };
      }
      const names = this.#files.names();
      if (names.includes(name)) throw refuseUnreadable(this.#files.path(name));
      refuseLikeness(name, names, this.#files.all());
      const record = newRecord(name, kind, now, tokenHash);
      this.#files.write(name, recordText(record));
      return record;
    });
  }

  async amend(name: AgentName, change: Amendment): Promise<AgentRecord> {
    return this.#files.amend(name, change);
  }

  async subscribe(name: AgentName, channel: ChannelName): Promise<void> {
    this.#change(name, (record) => withChannel(record, channel), true);
  }

  async unsubscribe(name: AgentName, channel: ChannelName): Promise<void> {
    this.#change(name, (record) => withoutChannel(record, channel), true);
  }

  async seen(name: AgentName): Promise<void> {
    const record = this.#files.read(name);
    if (!record || seenLately(record, this.now())) return;
    this.#change(name, () => ({ lastSeen: new Date(this.now()).toISOString() }));
  }

  async giveToken(name: AgentName, tokenHash: string | null): Promise<void> {
    this.#change(name, () => ({ tokenHash: tokenHash ?? undefined }));
  }

  async remove(name: AgentName): Promise<void> {
    this.#files.remove(name);
  }

  async close(): Promise<void> {}

  /** Reads, changes and writes back under the lock, so no concurrent change is lost. */
  #change(name: AgentName, change: (record: AgentRecord) => Partial<AgentRecord> | null, marked = false): void {
    this.#files.locked(() => {
      const before = this.#files.whole(name);
      if (!before) throw new Refusal('not_found', `no agent is called ${name}`);
      const changed = change(before.record);
      if (!changed) return;
      this.#files.write(name, rewritten(before.text, changed));
      if (marked) this.#files.markChange();
    });
  }
}
