import * as z from 'zod/mini';
import { AgentName, ChannelName } from '../../protocol/names.ts';

/** Our own fields of an agent's record. Records without them were made by other programs. */
export const AgentExtras = z.object({
  v: z.literal(1),
  kind: z.enum(['agent', 'human']),
  roles: z._default(z.array(AgentName), []),
});

/** Who is here. Fields that we do not know are kept when the record is rewritten. spec: message#agents */
export const AgentRecord = z.looseObject({
  name: AgentName,
  subscriptions: z.catch(z.array(z.string()), []),
  createdAt: z.catch(z.string(), ''),
  lastSeen: z.catch(z.string(), ''),
  parley: z.catch(z.optional(AgentExtras), undefined),
});
export type AgentRecord = z.infer<typeof AgentRecord>;

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
