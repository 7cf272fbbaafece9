import type { AgentName, ChannelName } from '../../core/names.ts';
import type { AgentRecord, Amendment, Directory } from '../../core/ports/directory.ts';
import { RecordFiles, recordFrom, seenLately } from './record-files.ts';
import type { ChangeMark, FlushedDraft } from './record-files.ts';
import {
  amended,
  holderIn,
  membersIn,
  newRecord,
  recordText,
  refuseLikeness,
  rewritten,
  rolesIn,
  sortedChannels,
  subscribersIn,
  withChannel,
  withoutChannel,
} from './rules.ts';

/** Returns the changed fields of a record; null: none. */
export type RecordChange = (record: AgentRecord) => Partial<AgentRecord> | null;

interface Writing {
  /** Caches of other processes must see it at once. */
  isMarked?: boolean;
  /** Used if the text to write is the same. */
  draft?: FlushedDraft | undefined;
}

/** The records on disk, read again for every query: right for a command that asks once. */
export class FilesDirectory implements Directory {
  protected readonly files: RecordFiles;

  constructor(
    readonly root: string,
    readonly now: () => number,
  ) {
    this.files = new RecordFiles(root);
  }

  async get(name: AgentName): Promise<AgentRecord | null> {
    return this.files.read(name);
  }

  async list(): Promise<AgentRecord[]> {
    return this.files.all().sort((a, b) => a.name.localeCompare(b.name));
  }

  async unreadable(): Promise<string[]> {
    const unread = this.files.names().filter((name) => this.files.read(name) === null);
    return unread.map((name) => this.files.path(name));
  }

  async count(): Promise<number> {
    return this.files.names().length;
  }

  async channels(): Promise<ChannelName[]> {
    return sortedChannels(this.files.all());
  }

  async subscribers(channel: ChannelName): Promise<AgentRecord[]> {
    return subscribersIn(await this.list(), channel);
  }

  async members(role: AgentName): Promise<AgentRecord[]> {
    return membersIn(await this.list(), role);
  }

  async rolesAmong(names: readonly AgentName[]): Promise<AgentName[]> {
    return rolesIn(this.files.all(), names);
  }

  async byToken(tokenHash: string): Promise<AgentName | null> {
    return holderIn(this.files.all(), tokenHash);
  }

  async register(name: AgentName, kind: 'agent' | 'human' | 'foreign', tokenHash?: string): Promise<AgentRecord> {
    return this.enter(newRecord(name, kind, new Date(this.now()).toISOString(), tokenHash));
  }

  async amend(name: AgentName, change: Amendment): Promise<AgentRecord> {
    return this.files.locked(() => {
      const { record, text } = this.files.wholeOrRefuse(name);
      const after = amended(text, record, change, () => this.files.all());
      return after === null ? record : this.#write(name, after, { isMarked: true });
    });
  }

  async subscribe(name: AgentName, channel: ChannelName): Promise<void> {
    this.change(name, (record) => withChannel(record, channel), { isMarked: true });
  }

  async unsubscribe(name: AgentName, channel: ChannelName): Promise<void> {
    this.change(name, (record) => withoutChannel(record, channel), { isMarked: true });
  }

  async seen(name: AgentName): Promise<void> {
    const record = this.files.read(name);
    if (!record || seenLately(record, this.now())) return;
    this.change(name, () => ({ lastSeen: new Date(this.now()).toISOString() }));
  }

  async giveToken(name: AgentName, tokenHash: string | null): Promise<void> {
    this.change(name, () => ({ tokenHash: tokenHash ?? undefined }));
  }

  async remove(name: AgentName): Promise<void> {
    this.files.remove(name);
    this.written(name, null);
  }

  async close(): Promise<void> {}

  /** Makes this record. If the agent has one, updates its `lastSeen` instead. */
  protected enter(record: AgentRecord, draft?: FlushedDraft): AgentRecord {
    const { name, lastSeen } = record;
    return this.files.locked(() => {
      if (this.files.isThere(name)) return this.#change(name, () => ({ lastSeen }), { draft });
      this.refuseLikeness(name);
      return this.#write(name, recordText(record), { draft });
    });
  }

  /** Refuses a new name that can be confused with another one. */
  protected refuseLikeness(name: AgentName): void {
    refuseLikeness(name, this.files.names(), this.files.all());
  }

  /** Reads, changes and writes back under the lock, so no concurrent change is lost. */
  protected change(name: AgentName, change: RecordChange, how: Writing = {}): void {
    this.files.locked(() => this.#change(name, change, how));
  }

  /** Called with each record that was written, under the lock, and with its mark if it has one; null: it was removed. */
  protected written(_name: AgentName, _record: AgentRecord | null, _mark?: ChangeMark): void {}

  #change(name: AgentName, change: RecordChange, how: Writing): AgentRecord {
    const { record, text } = this.files.wholeOrRefuse(name);
    const changed = change(record);
    return changed ? this.#write(name, rewritten(text, changed), how) : record;
  }

  #write(name: AgentName, text: string, { isMarked = false, draft }: Writing): AgentRecord {
    const record = recordFrom(name, text);
    if (!record) throw new Error(`the new record of ${name} is not a valid record`);
    this.files.write(name, text, draft);
    this.written(name, record, isMarked ? this.files.markChange() : undefined);
    return record;
  }
}
