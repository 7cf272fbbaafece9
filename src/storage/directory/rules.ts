import { ChannelName } from '../../protocol/names.ts';
import type { AgentName } from '../../protocol/names.ts';
import { Refusal } from '../../protocol/refusal.ts';
import type { AgentRecord } from './directory.ts';

/** A new record. One that a Backchannel dialect makes carries nothing of ours: its agent keeps no attention policy. */
export function newRecord(name: AgentName, kind: 'agent' | 'human' | 'foreign', now: string): AgentRecord {
  return {
    name,
    subscriptions: [],
    createdAt: now,
    lastSeen: now,
    ...(kind !== 'foreign' && { parley: { v: 1 as const, kind, roles: [] } }),
  };
}

/** Some file systems fold case, and people do too: two names that differ only by case would share or confuse mailboxes. */
export function refuseLikeness(name: AgentName, records: AgentRecord[]): void {
  for (const record of records) {
    if (record.name !== name && record.name.toLowerCase() === name.toLowerCase()) {
      throw new Refusal('name_taken', `"${name}" differs from "${record.name}" only by case; pick another name`);
    }
    if (record.parley?.roles.includes(name)) {
      throw new Refusal('name_taken', `"${name}" is a role of ${record.name}; a name is an agent or a role, never both`);
    }
  }
}

export function sortedChannels(records: AgentRecord[]): ChannelName[] {
  const names = new Set(records.flatMap((record) => record.subscriptions));
  return [...names].filter((name): name is ChannelName => ChannelName.safeParse(name).success).sort();
}
