import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { AgentName, ChannelName } from '../../protocol/names.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { locked } from '../flock.ts';
import type { AgentRecord, Directory } from './directory.ts';
import { AgentRecord as Record } from './directory.ts';
import { newRecord, refuseLikeness, sortedChannels } from './rules.ts';

/** `lastSeen` is rewritten at most this often: a send should not cost a second file. */
const SEEN_MS = 60_000;

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
    return this.#names()
      .map((name) => this.#read(name))
      .filter((record) => record !== null)
      .sort((a, b) => a.name.localeCompare(b.name));
  }

  async unreadable(): Promise<string[]> {
    return this.#names()
      .filter((name) => this.#read(name) === null)
      .map((name) => this.#path(name));
  }

  async channels(): Promise<ChannelName[]> {
    return sortedChannels(await this.list());
  }

  async subscribers(channel: ChannelName): Promise<AgentName[]> {
    return (await this.list()).filter((record) => record.subscriptions.includes(channel)).map((record) => record.name);
  }

  async members(role: AgentName): Promise<AgentName[]> {
    return (await this.list()).filter((record) => record.parley?.roles.includes(role)).map((record) => record.name);
  }

  async register(name: AgentName, kind: 'agent' | 'human' | 'foreign'): Promise<AgentRecord> {
    return this.#locked(() => {
      const now = new Date(this.now()).toISOString();
      const known = this.#read(name);
      if (!known && this.#names().includes(name)) {
        throw new Refusal('storage_failed', `${this.#path(name)} cannot be read; mend or remove it, then run this again`);
      }
      if (!known) refuseLikeness(name, this.#all());
      const record = known ? { ...known, lastSeen: now } : newRecord(name, kind, now);
      this.#write(record);
      return record;
    });
  }

  async subscribe(name: AgentName, channel: ChannelName): Promise<void> {
    this.#change(name, (record) => {
      if (!record.subscriptions.includes(channel)) record.subscriptions.push(channel);
    });
  }

  async unsubscribe(name: AgentName, channel: ChannelName): Promise<void> {
    this.#change(name, (record) => {
      record.subscriptions = record.subscriptions.filter((other) => other !== channel);
    });
  }

  async seen(name: AgentName): Promise<void> {
    const record = this.#read(name);
    if (!record || this.now() - (Date.parse(record.lastSeen) || 0) < SEEN_MS) return;
    this.#change(name, (fresh) => {
      fresh.lastSeen = new Date(this.now()).toISOString();
    });
  }

  async remove(name: AgentName): Promise<void> {
    rmSync(this.#path(name), { force: true });
  }

  async close(): Promise<void> {}

  /** Read, change and write back under the lock: of many changes at once none is lost. Unknown fields survive. */
  #change(name: AgentName, change: (record: AgentRecord) => void): void {
    this.#locked(() => {
      const record = this.#read(name);
      if (!record) throw new Refusal('not_found', `no agent is called ${name}`);
      change(record);
      this.#write(record);
    });
  }

  #locked<T>(act: () => T): T {
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
    return locked(`${this.root}/agents.lock`, act);
  }

  #path(name: string): string {
    return `${this.#folder}/${name}.json`;
  }

  #names(): AgentName[] {
    try {
      return readdirSync(this.#folder)
        .filter((file) => file.endsWith('.json'))
        .map((file) => AgentName.safeParse(file.slice(0, -5)))
        .flatMap((name) => (name.success ? [name.data] : []));
    } catch {
      return [];
    }
  }

  #all(): AgentRecord[] {
    return this.#names()
      .map((name) => this.#read(name))
      .filter((record) => record !== null);
  }

  /** A record must be readable and must be its own file's: one bad record never hides the others. */
  #read(name: AgentName): AgentRecord | null {
    try {
      const record = Record.safeParse(JSON.parse(readFileSync(this.#path(name), 'utf8')));
      return record.success && record.data.name === name ? record.data : null;
    } catch {
      return null;
    }
  }

  #write(record: AgentRecord): void {
    const draft = `${this.#folder}/.${record.name}.${process.pid}`;
    writeFileSync(draft, JSON.stringify(record, null, 2), { mode: 0o600, flush: true });
    renameSync(draft, this.#path(record.name));
  }
}
