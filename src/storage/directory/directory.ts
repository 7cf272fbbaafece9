import * as v from 'valibot';
import { Schema } from '../../protocol/schema.ts';
import type { Described } from '../../protocol/schema.ts';
import type { ChannelName } from '../../protocol/names.ts';
import { AgentName } from '../../protocol/names.ts';
import { Quiet } from '../../protocol/quiet.ts';

export { Quiet };

/** Our own fields of an agent's record. Records without them were made by other programs. */
export const AgentExtras = new Schema(
  () =>
    v.object({
      v: v.literal(1),
      kind: v.picklist(['agent', 'human']),
      roles: v.optional(v.array(AgentName.inner), []),
      /** The one person who is told when nobody else can decide. */
      owner: v.optional(v.boolean()),
      /** Channels (`#name`) and exchanges (the id of their first message) that were given to this agent. */
      owns: v.optional(v.array(v.string())),
      /** When it wants no disturbance: always, until a time, or every day between two times of the home's clock. */
      quiet: v.optional(Quiet.inner),
      /** Channels and exchanges that it was asked to leave: it hears of them again when it is mentioned. */
      left: v.optional(v.array(v.string())),
      /** How a person is called where people look. */
      displayName: v.optional(v.pipe(v.string(), v.maxLength(200))),
    }),
  isPlainExtras,
);
export type AgentExtras = Described<typeof AgentExtras>;

/**
 * Who is here. Fields that we do not know are kept when the record is rewritten. `tokenHash` is the SHA-256 of the token by which
 * a relay knows this agent: for comparing, never for showing or answering. spec: message#agents
 */
export const AgentRecord = new Schema(
  () =>
    v.looseObject({
      name: AgentName.inner,
      subscriptions: v.fallback(v.array(v.string()), []),
      createdAt: v.fallback(v.string(), ''),
      lastSeen: v.fallback(v.string(), ''),
      tokenHash: v.fallback(v.optional(v.string()), undefined),
      parley: v.fallback(v.optional(AgentExtras.inner), undefined),
    }),
  isPlainRecord,
);
export type AgentRecord = Described<typeof AgentRecord>;

function isPlainRecord(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const { name, subscriptions, createdAt, lastSeen, tokenHash, parley } = value as Record<string, unknown>;
  return (
    AgentName.safeParse(name).success &&
    Array.isArray(subscriptions) &&
    subscriptions.every((one) => typeof one === 'string') &&
    typeof createdAt === 'string' &&
    typeof lastSeen === 'string' &&
    (tokenHash === undefined || typeof tokenHash === 'string') &&
    (parley === undefined || isPlainExtras(parley))
  );
}

function isPlainExtras(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const { v: version, kind, roles, ...rest } = value as Record<string, unknown>;
  return (
    version === 1 &&
    (kind === 'agent' || kind === 'human') &&
    Array.isArray(roles) &&
    roles.every((role) => AgentName.safeParse(role).success) &&
    Object.keys(rest).length === 0
  );
}

/** The reader's half: who is here, and who listens to what. */
export interface Register {
  get(name: AgentName): Promise<AgentRecord | null>;
  /** Sorted by name. A record that cannot be read is left out; `unreadable` names it. */
  list(): Promise<AgentRecord[]>;
  /** Records that cannot be read, as paths. */
  unreadable(): Promise<string[]>;
  /** How many records are here. One that cannot be read counts too: it has its place on the disk. */
  count(): Promise<number>;
  /** A channel exists if and only if somebody subscribes to it. Sorted. */
  channels(): Promise<ChannelName[]>;
  subscribers(channel: ChannelName): Promise<AgentRecord[]>;
  /** Who has this role. A name is an agent or a role, never both. */
  members(role: AgentName): Promise<AgentRecord[]>;
  /** Those of these names that somebody has as a role. */
  rolesAmong(names: readonly AgentName[]): Promise<AgentName[]>;
  /** Whose token has this hash. Null if nobody's has, or if several records carry it: then nobody can say whose it is. */
  byToken(tokenHash: string): Promise<AgentName | null>;
}

/**
 * What shall be otherwise among our own fields of a record; undefined removes a field, null leaves everything as it is. It sees the
 * record and everybody's as they stand, and nobody changes any of them before it has answered: so it can refuse, by throwing, what
 * does not go with them.
 */
export type Amendment = (
  own: AgentExtras,
  everybody: () => AgentRecord[],
) => { [Field in Exclude<keyof AgentExtras, 'v' | 'kind'>]?: AgentExtras[Field] | undefined } | null;

/** Who is here. Changes of one record never undo one another, however many come at once. */
export interface Directory extends Register {
  /**
   * Makes a record, or notes that the agent is here again. A name that differs from another only by case is refused, as is
   * the name of a role. A new record is written with the hash of its token, in one act; one that is there keeps its own, also if
   * it has none: of several callers at once, the one whose hash comes back has made it.
   */
  register(name: AgentName, kind: 'agent' | 'human' | 'foreign', tokenHash?: string): Promise<AgentRecord>;
  /** From now on the token with this hash is this agent's, and no other; null: none is. */
  giveToken(name: AgentName, tokenHash: string | null): Promise<void>;
  /**
   * Changes our own fields of a record and answers the record as it is then. What is not among the changes stays as it was
   * written. An agent that another program made has no such fields and gets none: it keeps no policy, so it is refused.
   */
  amend(name: AgentName, change: Amendment): Promise<AgentRecord>;
  subscribe(name: AgentName, channel: ChannelName): Promise<void>;
  unsubscribe(name: AgentName, channel: ChannelName): Promise<void>;
  /** Notes that this agent was here. May be coarse: within a minute of the truth. */
  seen(name: AgentName): Promise<void>;
  /** Removes the record. */
  remove(name: AgentName): Promise<void>;
  close(): Promise<void>;
}
