import type { Duty } from '../../protocol/duty.ts';
import type { AgentName, MessageId } from '../../protocol/names.ts';
import { Evidence } from '../../protocol/receipt.ts';
import type { Disposition } from '../../protocol/receipt.ts';
import type { EventClaim, SessionRecord } from './duties.ts';

/** A row of `duties`. What never changes comes first. */
export interface DutyRow {
  id: string;
  mailbox: string;
  sender: string;
  kind: string;
  at: number;
  every: number;
  state: string;
  due: number | null;
  returns: number;
  tier: number;
  extended: number;
  note: string | null;
  ended_as: string | null;
  ended_at: number | null;
  ended_by: string | null;
}

/** In the order of the columns. */
export function fixedIn({ id, mailbox, from, kind, at, every }: Duty) {
  return [id, mailbox, from, kind, at, every] as const;
}

export function changingIn({ state, due, returns, tier, extended, note, ended }: Duty) {
  const end = ended ? ([ended.as, ended.at, JSON.stringify(ended.by)] as const) : ([null, null, null] as const);
  return [state, due, returns, tier, extended ? 1 : 0, note, ...end] as const;
}

export function dutyFrom(row: DutyRow): Duty {
  return {
    id: row.id as MessageId,
    mailbox: row.mailbox as AgentName,
    from: row.sender,
    kind: row.kind as Duty['kind'],
    at: row.at,
    every: row.every,
    state: row.state as Duty['state'],
    due: row.due,
    returns: row.returns,
    tier: row.tier as Duty['tier'],
    extended: row.extended === 1,
    note: row.note,
    ended: endFrom(row),
  };
}

function endFrom({ ended_as, ended_at, ended_by }: DutyRow): Duty['ended'] {
  if (ended_as === null) return null;
  return { as: ended_as as Disposition, at: ended_at ?? 0, by: Evidence.parse(JSON.parse(ended_by ?? '{}')) };
}

export interface ClaimRow {
  key: string;
  holder: string;
  until: number;
  reserved: number;
}

export function claimFrom({ key, holder, until, reserved }: ClaimRow): EventClaim {
  return { key: key as MessageId, holder: holder as AgentName, until, reserved: reserved === 1 };
}

/** The four lists of names are JSON. */
export interface SessionRow {
  id: string;
  token_hash: string;
  identities: string;
  roles: string;
  streams: string;
  threads: string;
  seen: number;
}

export function sessionFrom(row: SessionRow): SessionRecord {
  return {
    id: row.id,
    tokenHash: row.token_hash,
    identities: JSON.parse(row.identities) as AgentName[],
    roles: JSON.parse(row.roles) as AgentName[],
    streams: JSON.parse(row.streams) as string[],
    threads: JSON.parse(row.threads) as MessageId[],
    seen: row.seen,
  };
}
