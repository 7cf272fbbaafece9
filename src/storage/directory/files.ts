import { constants, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import type { ChannelName } from '../../protocol/names.ts';
import { AgentName } from '../../protocol/names.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { explained, isMissing } from '../disk.ts';
import { locked } from '../libc.ts';
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

/** One JSON file per agent, `agents/<name>.json`, shared with other Backchannel programs. */
export class FilesDirectory implements Directory {
  readonly #folder: string;

  constructor(
    readonly root: string,
    readonly now: () => number,
  ) {
    this.#folder = `${root}/agents`;
  }

  async get(name: AgentName): Promise<AgentRecord | null> {
    return this.#read(name);
  }

  async list(): Promise<AgentRecord[]> {
    return this.#all().sort((a, b) => a.name.localeCompare(b.name));
  }

  async unreadable(): Promise<string[]> {
    return this.#names()
      .filter((name) => this.#read(name) === null)
      .map((name) => this.#path(name));
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
    return this.#locked(() => {
      const now = new Date(this.now()).toISOString();
      const known = this.#read(name);
      if (known) {
        this.#rewrite(name, { lastSeen: now });
        return { ...known, lastSeen: now };
      }
      const names = this.#names();
      if (names.includes(name)) {
        const path = this.#path(name);
        throw new Refusal('storage_failed', `${path} cannot be read; mend or remove it, then run this again`);
      }
      refuseLikeness(name, names, this.#all());
      const record = newRecord(name, kind, now);
      this.#write(name, recordText(record));
      return record;
    });
  }

  async subscribe(name: AgentName, channel: ChannelName): Promise<void> {
    this.#change(name, ({ subscriptions }) =>
      subscriptions.includes(channel) ? null : { subscriptions: [...subscriptions, channel] },
    );
  }

  async unsubscribe(name: AgentName, channel: ChannelName): Promise<void> {
    this.#change(name, ({ subscriptions }) =>
      subscriptions.includes(channel) ? { subscriptions: subscriptions.filter((other) => other !== channel) } : null,
    );
  }

  async seen(name: AgentName): Promise<void> {
    const record = this.#read(name);
    if (!record || seenLately(record, this.now())) return;
    this.#change(name, () => ({ lastSeen: new Date(this.now()).toISOString() }));
  }

  async remove(name: AgentName): Promise<void> {
    this.#locked(() => rmSync(this.#path(name), { force: true }));
  }

  async close(): Promise<void> {}

  /** Read, change and write back under the lock: of many changes at once none is lost. */
  #change(name: AgentName, change: (record: AgentRecord) => Partial<AgentRecord> | null): void {
    this.#locked(() => {
      const record = this.#read(name);
      if (!record) throw new Refusal('not_found', `no agent is called ${name}`);
      const changed = change(record);
      if (changed) this.#rewrite(name, changed);
    });
  }

  #locked<T>(act: () => T): T {
    try {
      mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
      return locked(`${this.root}/agents.lock`, act);
    } catch (error) {
      throw explained(error, this.root, 'nothing was changed');
    }
  }

  #path(name: AgentName): string {
    return `${this.#folder}/${name}.json`;
  }

  #names(): AgentName[] {
    try {
      return readdirSync(this.#folder)
        .filter((file) => file.endsWith('.json'))
        .map((file) => AgentName.safeParse(file.slice(0, -5)))
        .flatMap((name) => (name.success ? [name.data] : []));
    } catch (error) {
      if (isMissing(error)) return [];
      throw explained(error, this.#folder, 'nobody can be looked up');
    }
  }

  #all(): AgentRecord[] {
    return this.#names()
      .map((name) => this.#read(name))
      .filter((record) => record !== null);
  }

  #read(name: AgentName): AgentRecord | null {
    try {
      return recordFrom(name, this.#text(name));
    } catch {
      return null;
    }
  }

  #text(name: AgentName): string {
    // Another program may have left a pipe here: wait for nothing.
    const flag = constants.O_RDONLY | constants.O_NONBLOCK;
    return readFileSync(this.#path(name), { encoding: 'utf8', flag: flag as unknown as string });
  }

  #rewrite(name: AgentName, change: Partial<AgentRecord>): void {
    this.#write(name, rewritten(this.#text(name), change));
  }

  #write(name: AgentName, text: string): void {
    const draft = `${this.#folder}/.${name}.${process.pid}`;
    try {
      writeFileSync(draft, text, { mode: 0o600, flush: true });
      renameSync(draft, this.#path(name));
    } catch (error) {
      rmSync(draft, { force: true });
      throw error;
    }
  }
}
