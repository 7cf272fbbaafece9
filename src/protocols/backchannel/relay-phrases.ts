import { REFUSALS, Refusal } from '../../core/refusal.ts';
import type { RefusalCode } from '../../core/refusal.ts';

/** The original's error texts: programs compare them. spec: relay#errors */
export const UNAUTHORIZED = 'unauthorized — agent token required (get one via /v1/register)';
export const NO_ROOM_TOKEN = 'unauthorized — registration requires the room token';
export const ROOMS_RESTRICTED = 'room creation is restricted on this relay';
export const TOO_MANY_STREAMS = 'too many streams are open with this token — close one';
export const NOT_FOUND = 'not found';
export const unknownRoom = (id: string): string => `unknown room "${id}" — create one with \`bch room new\``;
export const roomFull = (most: number): string =>
  `this room has ${most} agents and takes no more — its host can remove some, or allow more with --agents`;
export const nameTaken = (name: string): string =>
  `agent name "${name}" is registered — present its token to re-register`;
export const notYours = (mine: string, other: string): string => `token is for "${mine}", not "${other}"`;

/** A refusal by the server itself, before it calls core. */
export class Declined extends Error {
  override readonly name = 'Declined';
  constructor(
    readonly status: number,
    message: string,
    readonly headers: Record<string, string> = {},
  ) {
    super(message);
  }
}

/** Where Backchannel's statuses differ from Parley's own. */
const STATUS: Partial<Record<RefusalCode, number>> = { unknown_recipient: 400 };

/** The outcomes that an error of storage may name. Callers see the outcome, without the paths of this host. The first match counts. */
const OUTCOMES = [
  'it is written down and will be stored later',
  'it may or may not be stored',
  'nothing was stored',
  'nothing was changed',
  'nothing was lost',
];

/** An error of our disk. The operator sees the path in the log; a caller sees only the outcome of its request. */
export function hostTrouble(error: unknown): Declined | null {
  if (!(error instanceof Refusal) || REFUSALS[error.code].http < 500) return null;
  const outcome = OUTCOMES.find((one) => error.message.includes(one)) ?? 'nothing was done';
  return new Declined(REFUSALS[error.code].http, `the relay is in trouble with its disk; ${outcome} — try later`);
}

/** The answer to a thrown error. Null: it is our bug, and the caller sees no details. */
export function phraseFor(error: unknown): Pick<Declined, 'status' | 'message' | 'headers'> | null {
  if (error instanceof Declined) return error;
  if (!(error instanceof Refusal)) return null;
  const status = STATUS[error.code] ?? REFUSALS[error.code].http;
  return { status, message: error.message, headers: {} };
}

export function badRequest(message: string): Declined {
  return new Declined(400, message);
}
