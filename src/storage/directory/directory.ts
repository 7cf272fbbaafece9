import * as v from 'valibot';
import { Schema } from '../../protocol/schema.ts';
import type { Described } from '../../protocol/schema.ts';
import type { ChannelName } from '../../protocol/names.ts';
import { AgentName } from '../../protocol/names.ts';

/** Our own fields of an agent's record. Records without them were made by other programs. */
export const AgentExtras = new Schema(() =>
  v.object({
    v: v.literal(1),
    kind: v.picklist(['agent', 'human']),
    roles: v.optional(v.array(AgentName.inner), []),
  }),
);

/** Who is here. Fields that we do not know are kept when the record is rewritten. spec: message#agents */
export const AgentRecord = new Schema(() =>
  v.looseObject({
    name: AgentName.inner,
    subscriptions: v.fallback(v.array(v.string()), []),
    createdAt: v.fallback(v.string(), ''),
    lastSeen: v.fallback(v.string(), ''),
    parley: v.fallback(v.optional(AgentExtras.inner), undefined),
  }),
);
export type AgentRecord = Described<typeof AgentRecord>;

/** The reader's half: who is here, and who listens to what. */
export interface Register {
  get(name: AgentName): Promise<AgentRecord | null>;
  /** Sorted by name. A record that cannot be read is left out; `unreadable` names it. */
  list(): Promise<AgentRecord[]>;
  /** Records that cannot be read, as paths. */
  unreadable(): Promise<string[]>;
  /** A channel exists if and only if somebody subscribes to it. Sorted. */
  channels(): Promise<ChannelName[]>;
  subscribers(channel: ChannelName): Promise<AgentName[]>;
  /** Who has this role. A name is an agent or a role, never both. */
  members(role: AgentName): Promise<AgentName[]>;
}

/** Who is here. Changes of one record never undo one another, however many come at once. */
export interface Directory extends Register {
  /**
   * Makes a record, or notes that the agent is here again. A name that differs from another only by case is refused, as is
   * the name of a role.
   */
  register(name: AgentName, kind: 'agent' | 'human' | 'foreign'): Promise<AgentRecord>;
  subscribe(name: AgentName, channel: ChannelName): Promise<void>;
  unsubscribe(name: AgentName, channel: ChannelName): Promise<void>;
  /** Notes that this agent was here. May be coarse: within a minute of the truth. */
  seen(name: AgentName): Promise<void>;
  /** Removes the record. */
  remove(name: AgentName): Promise<void>;
  close(): Promise<void>;
}
