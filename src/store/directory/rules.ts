import type { AgentName } from '../../core/names.ts';
import { ChannelName } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import { HOST_NAME } from '../../core/signal.ts';
import type { AgentRecord, Amendment } from '../../core/ports/directory.ts';

/** A new record. A `foreign` one has none of our fields: its agent has no attention policy. */
export function newRecord(
  name: AgentName,
  kind: 'agent' | 'human' | 'foreign',
  now: string,
  tokenHash?: string,
): AgentRecord {
  return {
    name,
    subscriptions: [],
    createdAt: now,
    lastSeen: now,
    ...(tokenHash !== undefined && { tokenHash }),
    ...(kind !== 'foreign' && { parley: { v: 1 as const, kind, roles: [] } }),
  };
}

/** The text with these fields changed. Everything else stays as written, unknown fields included. */
export function rewritten(text: string, change: Partial<AgentRecord>): string {
  return recordText({ ...JSON.parse(text), ...change });
}

/** The text with our own fields changed; null if nothing changes. Unknown fields among them are kept. */
export function amended(
  text: string,
  { name, parley }: AgentRecord,
  change: Amendment,
  all: () => AgentRecord[],
): string | null {
  if (!parley)
    throw new Refusal(
      'not_yours',
      `@${name} was made by another program, so it has no roles and no policy here; nothing was changed`,
    );
  const changed = change(parley, all);
  if (!changed) return null;
  const written = JSON.parse(text) as { parley: object };
  return JSON.stringify({ ...written, parley: { ...written.parley, ...changed } }, null, 2);
}

/** The text of a record, formatted as other Backchannel programs write it. */
export function recordText(record: AgentRecord): string {
  return JSON.stringify(record, null, 2);
}

/** Refuses a new name that can be confused with another one. Names that differ only by case would share a mailbox on some file systems. */
export function refuseLikeness(name: AgentName, taken: AgentName[], records: AgentRecord[]): void {
  if (name.toLowerCase() === HOST_NAME)
    throw new Refusal('name_taken', `"${HOST_NAME}" is reserved for Parley itself; pick another name`);
  const alike = taken.find((other) => other !== name && other.toLowerCase() === name.toLowerCase());
  if (alike) throw new Refusal('name_taken', `"${name}" differs from "${alike}" only by case; pick another name`);
  const holder = records.find((record) => record.parley?.roles.includes(name));
  if (!holder) return;
  throw new Refusal('name_taken', `"${name}" is a role of ${holder.name}; a name is an agent or a role, never both`);
}

/** An unreadable record may still be repaired, so it is never overwritten. */
export function refuseUnreadable(record: string): Refusal {
  return new Refusal('storage_failed', `${record} cannot be read; correct or remove it, then run this again`);
}

/** The change that a subscription makes; null: none. */
export function withChannel({ subscriptions }: AgentRecord, channel: ChannelName): Partial<AgentRecord> | null {
  return subscriptions.includes(channel) ? null : { subscriptions: [...subscriptions, channel] };
}

export function withoutChannel({ subscriptions }: AgentRecord, channel: ChannelName): Partial<AgentRecord> | null {
  return subscriptions.includes(channel) ? { subscriptions: subscriptions.filter((other) => other !== channel) } : null;
}

export function subscribersIn(records: AgentRecord[], channel: ChannelName): AgentRecord[] {
  return records.filter((record) => record.subscriptions.includes(channel));
}

export function membersIn(records: AgentRecord[], role: AgentName): AgentRecord[] {
  return records.filter((record) => record.parley?.roles.includes(role));
}

export function rolesIn(records: AgentRecord[], names: readonly AgentName[]): AgentName[] {
  const roles = new Set(records.flatMap(({ parley }) => parley?.roles ?? []));
  return names.filter((name) => roles.has(name));
}

/** The only agent with this hash. An empty hash belongs to no agent. */
export function holderIn(records: AgentRecord[], tokenHash: string): AgentName | null {
  if (tokenHash === '') return null;
  const [holder, ...others] = records.filter((record) => record.tokenHash === tokenHash);
  return holder && others.length === 0 ? holder.name : null;
}

export function sortedChannels(records: AgentRecord[]): ChannelName[] {
  return channelsAmong(records.flatMap((record) => record.subscriptions));
}

/** Leaves out names that are not valid channels: other programs subscribe to anything. */
export function channelsAmong(names: string[]): ChannelName[] {
  return [...new Set(names)].filter((name): name is ChannelName => ChannelName.safeParse(name).success).sort();
}
