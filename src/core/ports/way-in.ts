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

/** One message in the words in which a model should see it. */
export interface Parcel {
  id: MessageId;
  text: string;
  /** It asks something: where the client can, it begins a turn of its own, so that the answer is known. */
  ownTurn?: boolean;
  /** Its body, as it is in the text, if that is one short line: for a client whose window shows only the first line of a text. */
  shortBody?: string | undefined;
  /** Who wrote it, for a client that shows that beside the text. */
  from?: string;
}

/**
 * What came of handing something to a client.
 * `taken`: the client itself says so, and the evidence is what it said.
 * `offered`: it was handed over and nothing proves that anybody took it: it is not handed over again by this way.
 * `left`: nothing was given to the client, not even half of it; it waits where it was. `retry`: it may go better later. `isDeclined`: the
 * user of the client looked at it and does not want it.
 */
export type Attempt =
  | { outcome: 'taken'; step: 'accepted' | 'shown'; evidence: Evidence }
  | { outcome: 'offered'; evidence: Evidence }
  | { outcome: 'left'; because: string; retry: boolean; isDeclined?: true };

/** One way to put mail before the model of one session. A client's list of them, best first, is in clients/. */
export interface Way {
  readonly name: WayName;
  /** Hands these over, all or none. Nothing is left half done when `signal` says stop: then it answers `left`. */
  attempt(parcels: readonly Parcel[], signal: AbortSignal): Promise<Attempt>;
  /** Asks the model again with what its conversation has, where the client can do that without a text. */
  nudge?(signal: AbortSignal): Promise<Attempt>;
}
