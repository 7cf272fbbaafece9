import type { AgentName, ChannelName } from '../../protocol/names.ts';
import type { AgentRecord } from './directory.ts';
import { channelsAmong } from './rules.ts';

/** Everybody's record in memory, found by name, token, channel or role without looking at anybody else's. */
export class AddressBook {
  /** Null: there is a record, but it cannot be read. */
  readonly #records = new Map<AgentName, AgentRecord | null>();
  readonly #byToken = new NamesUnder();
  readonly #byChannel = new NamesUnder();
  readonly #byRole = new NamesUnder();
  /** Names that differ only by case stand together. */
  readonly #byLowerCase = new NamesUnder();
  #sorted: AgentName[] | undefined;

  get(name: AgentName): AgentRecord | null {
    return this.#records.get(name) ?? null;
  }

  /** Whose record is here, readable or not. */
  names(): AgentName[] {
    return [...this.#records.keys()];
  }

  /** How many these are. */
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

  /** Who has this name, whatever the case of its letters. */
  alike(name: AgentName): AgentName[] {
    return this.#byLowerCase.under(name.toLowerCase());
  }

  /** Notes a record, or that it cannot be read. What is noted never changes: who asks gets the very same object. */
  note(name: AgentName, record: AgentRecord | null): void {
    if (!this.#records.has(name)) {
      this.#sorted = undefined;
      this.#byLowerCase.add(name.toLowerCase(), name);
    }
    this.#index(name, this.get(name), record);
    if (record) Object.freeze(Object.freeze(record).subscriptions);
    this.#records.set(name, record);
  }

  drop(name: AgentName): void {
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

/** Names under keys: who listens to a channel, who has a role, whose token has a hash. */
class NamesUnder {
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

/** An empty hash is nobody's. */
function hashesOf(record: AgentRecord | null): string[] {
  return record?.tokenHash ? [record.tokenHash] : [];
}

function byName(names: Iterable<AgentName>): AgentName[] {
  return [...names].sort((a, b) => a.localeCompare(b));
}
