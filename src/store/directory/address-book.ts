import type { AgentName, ChannelName } from '../../core/names.ts';
import type { AgentRecord } from '../../core/ports/directory.ts';
import { channelsAmong } from './rules.ts';

/** All records in memory, indexed by name, token, channel and role. */
export class AddressBook {
  /** Null: there is a record, but it cannot be read. */
  readonly #records = new Map<AgentName, AgentRecord | null>();
  readonly #byToken = new NameIndex();
  readonly #byChannel = new NameIndex();
  readonly #byRole = new NameIndex();
  /** Names that differ only by case share a key. */
  readonly #byLowerCase = new NameIndex();
  #sorted: AgentName[] | undefined;

  get(name: AgentName): AgentRecord | null {
    return this.#records.get(name) ?? null;
  }

  /** The names of all records, readable or not. */
  names(): AgentName[] {
    return [...this.#records.keys()];
  }

  /** The number of records, readable or not. */
  get size(): number {
    return this.#records.size;
  }

  unreadable(): AgentName[] {
    return this.names().filter((name) => this.#records.get(name) === null);
  }

  list(): AgentRecord[] {
    this.#sorted ??= byName(this.#records.keys());
    return this.#recordsOf(this.#sorted);
  }

  channels(): ChannelName[] {
    return channelsAmong(this.#byChannel.keys());
  }

  subscribers(channel: ChannelName): AgentRecord[] {
    return this.#recordsOf(this.#byChannel.under(channel));
  }

  members(role: AgentName): AgentRecord[] {
    return this.#recordsOf(this.#byRole.under(role));
  }

  rolesAmong(names: readonly AgentName[]): AgentName[] {
    return names.filter((name) => this.#byRole.has(name));
  }

  byToken(tokenHash: string): AgentName | null {
    const holders = this.#byToken.under(tokenHash);
    return holders.length === 1 && holders[0] ? holders[0] : null;
  }

  /** The names that equal this one when case is ignored. */
  alike(name: AgentName): AgentName[] {
    return this.#byLowerCase.under(name.toLowerCase());
  }

  /** Adds or replaces a record; null: it cannot be read. Records are frozen, so every caller gets the same object. */
  set(name: AgentName, record: AgentRecord | null): void {
    if (!this.#records.has(name)) {
      this.#sorted = undefined;
      this.#byLowerCase.add(name.toLowerCase(), name);
    }
    this.#index(name, this.get(name), record);
    if (record) Object.freeze(Object.freeze(record).subscriptions);
    this.#records.set(name, record);
  }

  delete(name: AgentName): void {
    if (!this.#records.has(name)) return;
    this.#sorted = undefined;
    this.#byLowerCase.remove(name.toLowerCase(), name);
    this.#index(name, this.get(name), null);
    this.#records.delete(name);
  }

  #index(name: AgentName, before: AgentRecord | null, after: AgentRecord | null): void {
    this.#byToken.move(name, hashesOf(before), hashesOf(after));
    this.#byChannel.move(name, before?.subscriptions ?? [], after?.subscriptions ?? []);
    this.#byRole.move(name, before?.parley?.roles ?? [], after?.parley?.roles ?? []);
  }

  #recordsOf(names: AgentName[]): AgentRecord[] {
    return names.map((name) => this.get(name)).filter((record) => record !== null);
  }
}

/** An index from a key (a channel, a role, a token hash) to names. */
class NameIndex {
  readonly #names = new Map<string, Set<AgentName>>();
  /** Sorting 10,000 names for every message to a channel would cost more than the message. */
  readonly #sorted = new Map<string, AgentName[]>();

  keys(): string[] {
    return [...this.#names.keys()];
  }

  has(key: string): boolean {
    return this.#names.has(key);
  }

  /** Sorted. */
  under(key: string): AgentName[] {
    const known = this.#sorted.get(key);
    if (known) return known;
    const names = this.#names.get(key);
    if (!names) return [];
    const sorted = byName(names);
    this.#sorted.set(key, sorted);
    return sorted;
  }

  move(name: AgentName, before: readonly string[], after: readonly string[]): void {
    if (before === after) return;
    for (const key of before) if (!after.includes(key)) this.remove(key, name);
    for (const key of after) if (!before.includes(key)) this.add(key, name);
  }

  add(key: string, name: AgentName): void {
    const names = this.#names.get(key) ?? new Set();
    this.#names.set(key, names.add(name));
    this.#sorted.delete(key);
  }

  remove(key: string, name: AgentName): void {
    const names = this.#names.get(key);
    names?.delete(name);
    if (names?.size === 0) this.#names.delete(key);
    this.#sorted.delete(key);
  }
}

/** An empty hash belongs to no agent. */
function hashesOf(record: AgentRecord | null): string[] {
  return record?.tokenHash ? [record.tokenHash] : [];
}

function byName(names: Iterable<AgentName>): AgentName[] {
  return [...names].sort((a, b) => a.localeCompare(b));
}
