import * as v from 'valibot';
import { Schema } from '../schema.ts';
import type { Described } from '../schema.ts';
import type { ChannelName } from '../names.ts';
import { AgentName } from '../names.ts';
import { Quiet } from '../attention/quiet-hours.ts';

/** Our own fields of an agent's record. Records without them were made by other programs. */
export const AgentExtras = new Schema(() =>
  v.object({
    v: v.literal(1),
    kind: v.picklist(['agent', 'human']),
    roles: v.optional(v.array(AgentName.inner), []),
    /** The one person who decides when no agent can. */
    owner: v.optional(v.boolean()),
    /** Channels (`#name`) and exchanges (the id of their first message) that are assigned to this agent. */
    owns: v.optional(v.array(v.string())),
    /** The quiet time: always, until a time, or every day between two times of the home's clock. */
    quiet: v.optional(Quiet.inner),
    /** The final texts of its model are not sent as captured answers. */
    capture: v.optional(v.literal('off')),
    /** Channels and exchanges that it was asked to leave: it gets their messages again when it is mentioned. */
    left: v.optional(v.array(v.string())),
    /** A person's name for display. */
    displayName: v.optional(v.pipe(v.string(), v.maxLength(200))),
    /** For the mailbox of a surface: its workspace, and whether two of its conversations use the same message ids. */
    surface: v.optional(
      v.object({ platform: v.string(), workspaceId: v.string(), repeatsIds: v.optional(v.literal(true)) }),
    ),
    /** Channels to which the agent was subscribed because its session was bound with them. */
    joined: v.optional(v.array(v.string())),
    /** For a person at a surface: the platform's id of their DM with each agent. */
    dms: v.optional(v.record(v.string(), v.string())),
  }),
);
export type AgentExtras = Described<typeof AgentExtras>;

/**
 * One agent. Unknown fields are kept when the record is rewritten. `tokenHash` is the SHA-256 of the token by which a relay knows this
 * agent: compare it, never show or return it. spec: message#agents
 */
export const AgentRecord = new Schema(() =>
  v.looseObject({
    name: AgentName.inner,
    subscriptions: v.fallback(v.array(v.string()), []),
    createdAt: v.fallback(v.string(), ''),
    lastSeen: v.fallback(v.string(), ''),
    tokenHash: v.fallback(v.optional(v.string()), undefined),
    parley: v.fallback(v.optional(AgentExtras.inner), undefined),
  }),
);
export type AgentRecord = Described<typeof AgentRecord>;

/** The read half: agents, channels, roles, tokens. */
interface DirectoryReader {
  get(name: AgentName): Promise<AgentRecord | null>;
  /** Sorted by name. A record that cannot be read is left out; `unreadable` names it. */
  list(): Promise<AgentRecord[]>;
  /** Records that cannot be read, as paths. */
  unreadable(): Promise<string[]>;
  /** The number of records. An unreadable one counts too: it takes space on the disk. */
  count(): Promise<number>;
  /** A channel exists if and only if it has a subscriber. Sorted. */
  channels(): Promise<ChannelName[]>;
  subscribers(channel: ChannelName): Promise<AgentRecord[]>;
  /** The agents with this role. A name is an agent or a role, never both. */
  members(role: AgentName): Promise<AgentRecord[]>;
  /** Those of these names that are a role of any agent. */
  rolesAmong(names: readonly AgentName[]): Promise<AgentName[]>;
  /** The agent whose token has this hash. Null if there is none, or if several records have it. */
  byToken(tokenHash: string): Promise<AgentName | null>;
}

/**
 * A change of our own fields of a record: undefined removes a field, null changes nothing. It gets the record and all other records under
 * the lock, so it can refuse, by throwing, what does not fit them.
 */
export type Amendment = (
  own: AgentExtras,
  all: () => AgentRecord[],
) => { [Field in Exclude<keyof AgentExtras, 'v' | 'kind'>]?: AgentExtras[Field] | undefined } | null;

/** The agents of a home. Concurrent changes of one record never undo one another. */
export interface Directory extends DirectoryReader {
  /**
   * Makes a record, or updates `lastSeen` of an existing one. Refuses a name that differs from another only by case, and the name of a
   * role. A new record is written together with the hash of its token. An existing record keeps its hash, or has none: of several
   * concurrent callers, the one whose hash is returned made the record.
   */
  register(name: AgentName, kind: 'agent' | 'human' | 'foreign', tokenHash?: string): Promise<AgentRecord>;
  /** Replaces the hash of this agent's token; null: it has none. */
  giveToken(name: AgentName, tokenHash: string | null): Promise<void>;
  /**
   * Changes our own fields of a record and returns the new record. All other fields stay as written. A record that another program made
   * has no such fields and gets none, so the change is refused.
   */
  amend(name: AgentName, change: Amendment): Promise<AgentRecord>;
  subscribe(name: AgentName, channel: ChannelName): Promise<void>;
  unsubscribe(name: AgentName, channel: ChannelName): Promise<void>;
  /** Updates `lastSeen`, at most once a minute. */
  seen(name: AgentName): Promise<void>;
  /** Removes the record. */
  remove(name: AgentName): Promise<void>;
  close(): Promise<void>;
}
