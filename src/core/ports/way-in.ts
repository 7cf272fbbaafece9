import type { MessageId } from '../names.ts';
import type { Evidence } from '../receipt.ts';

/** The ways in. spec: delivery#ways */
export const WAYS = [
  'socket',
  'rpc',
  'queue',
  'channel',
  'hook',
  'terminal',
  'transcript',
  'poll',
  'wake',
  'wire',
  'plugin',
] as const;
export type WayName = (typeof WAYS)[number];

/** One message, as the text that a model should see. */
export interface Parcel {
  id: MessageId;
  text: string;
  /** The message asks something. If the client can, it begins a separate turn with it, so that the answer is known. */
  ownTurn?: boolean;
  /** The body as it is in the text, if it is one short line: for a client whose window shows only the first line of a text. */
  shortBody?: string | undefined;
  /** The author, for a client that shows it beside the text. */
  from?: string;
}

/**
 * The result of one try to hand messages to a client.
 * `taken`: the client itself confirms it; the evidence is the client's own.
 * `offered`: the messages were handed over, but nothing proves that they arrived. This way does not hand them over again.
 * `left`: the client got nothing, not even a part. The messages wait where they were. `retry`: a later try may succeed. `isDeclined`: the
 * user of the client saw the messages and does not want them.
 */
export type Attempt =
  | { outcome: 'taken'; step: 'accepted' | 'shown'; evidence: Evidence }
  | { outcome: 'offered'; evidence: Evidence }
  | { outcome: 'left'; because: string; retry: boolean; isDeclined?: true };

/** One way to put mail before the model of one session. A client's list of them, best first, is in clients/. */
export interface Way {
  readonly name: WayName;
  /** Hands these messages over, all or none. If `signal` aborts, nothing is left half done, and the result is `left`. */
  attempt(parcels: readonly Parcel[], signal: AbortSignal): Promise<Attempt>;
  /** Makes the model continue with its conversation, for a client that can do that without a text. */
  nudge?(signal: AbortSignal): Promise<Attempt>;
}
