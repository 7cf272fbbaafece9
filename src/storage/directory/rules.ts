import type { AgentName } from '../../protocol/names.ts';
import { ChannelName } from '../../protocol/names.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { HOST_NAME } from '../../protocol/signal.ts';
import type { AgentRecord, Amendment } from './directory.ts';

/** A new record. One that a Backchannel dialect makes carries nothing of ours: its agent keeps no attention policy. */
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

/** The text with these fields changed. Everything else stays as it was written, also what we could not understand. */
export function rewritten(text: string, change: Partial<AgentRecord>): string {
  return recordText({ ...JSON.parse(text), ...change });
}

/** The text with our own fields amended; null if they stay as they are. Among them too, what we do not know is kept. */
export function amended(
  text: string,
  { name, parley }: AgentRecord,
  change: Amendment,
  everybody: () => AgentRecord[],
): string | null {
  if (!parley)
    throw new Refusal(
      'not_yours',
      `@${name} was made by another program, which keeps no roles and no policy; nothing was changed`,
    );
  const changed = change(parley, everybody);
  if (!changed) return null;
  const written = JSON.parse(text) as { parley: object };
  return JSON.stringify({ ...written, parley: { ...written.parley, ...changed } }, null, 2);
}

/** As other Backchannel programs write it. */
export function recordText(record: AgentRecord): string {
  return JSON.stringify(record, null, 2);
}

/** Some file systems fold case, and people do too: two names that differ only by case would share or confuse mailboxes. */
export function refuseLikeness(name: AgentName, taken: AgentName[], records: AgentRecord[]): void {
  if (name.toLowerCase() === HOST_NAME)
    throw new Refusal('name_taken', `under "${HOST_NAME}" Parley itself writes; pick another name`);
  const alike = taken.find((other) => other !== name && other.toLowerCase() === name.toLowerCase());
  if (alike) throw new Refusal('name_taken', `"${name}" differs from "${alike}" only by case; pick another name`);
  const holder = records.find((record) => record.parley?.roles.includes(name));
  if (!holder) return;
  throw new Refusal('name_taken', `"${name}" is a role of ${holder.name}; a name is an agent or a role, never both`);
}

/** A record that somebody may still mend is never written over. */
export function refuseUnreadable(record: string): Refusal {
  return new Refusal('storage_failed', `${record} cannot be read; mend or remove it, then run this again`);
}

/** What subscribing changes about a record; null: nothing. */
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

/** The only one whose record carries this hash. An empty hash is nobody's. */
export function holderIn(records: AgentRecord[], tokenHash: string): AgentName | null {
  if (tokenHash === '') return null;
  const [holder, ...others] = records.filter((record) => record.tokenHash === tokenHash);
  return holder && others.length === 0 ? holder.name : null;
}

export function sortedChannels(records: AgentRecord[]): ChannelName[] {
  return channelsAmong(records.flatMap((record) => record.subscriptions));
}

/** Other programs subscribe to anything; what we would not allow as a name is left out. */
export function channelsAmong(names: string[]): ChannelName[] {
  return [...new Set(names)].filter((name): name is ChannelName => ChannelName.safeParse(name).success).sort();
}
