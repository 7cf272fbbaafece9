import type { MessageId } from '../names.ts';
import type { Evidence } from '../receipt.ts';
import type { SessionStatus } from './session.ts';
import type { Parcel, Way } from './way-in.ts';

/** One running session of a client, as the client's own records show it. */
export interface LiveSession {
  /** The client, by the name of clients/clients.ts. */
  client: string;
  /** The client's own id of the session. */
  id: string;
  /** Where it works, absolute. */
  folder: string;
  /** The process of its window, if it has one. `start` tells it from a later process with the same number. */
  pid?: number;
  start?: string;
  status: SessionStatus;
  /** What it waits for, in the client's words. */
  waitingFor?: string;
  /** The compaction after which the client waits for `showAgain`, in the client's words. */
  compaction?: string;
  /** The client does not say whether a window still shows it. */
  isUncertain?: true;
  /** When its mail comes where no way is open now: `at the end of its turn`. Without it: with its next prompt. */
  mailComes?: string;
  /** Its model has none of Parley's tools. */
  hasNoTools?: true;
}

/**
 * What a client's record says about one message that was handed to one of its sessions.
 * `shown`: it was in a request to the model. `accepted`: the client has it and will show it. `trouble`: it
 * asked its model with it and got no answer, in the client's words. `needsTurn`: the conversation has it, and the model is not asked with it
 * until another turn begins, because the request failed, or the client was started again. Not where its user stopped the model.
 * `none`: the record does not have it. `isOver`: the client cannot have it any more, so it may be handed over again.
 * `declined`: the user of the client does not want it.
 * What a reader does not understand is `none` with `isOver` false.
 */
export type RecordedProof =
  | ShownProof
  | { step: 'accepted'; evidence: Evidence; trouble?: string; needsTurn?: true }
  | { step: 'declined'; because: string }
  | { step: 'none'; isOver: boolean };

export interface ShownProof {
  step: 'shown';
  evidence: Evidence;
  turn?: MessageTurn;
}

/** The turn that a message began, and that nothing else joined. Absent where the message joined a turn, or shared one. */
export interface MessageTurn {
  id: string;
  /** Its end, once the record has it. `text` is the final text of the model. */
  end?: { how: 'done' | 'interrupted' | 'failed'; text: string };
}

/** The running sessions of one client. */
export interface LiveSessions {
  /** Those that run now. Cheap: starts no process. */
  list(): Promise<LiveSession[]>;
  /** Calls back when the list or a record may have changed. Returns how to stop. */
  watch(changed: () => void): () => void;
  /**
   * The ways that reach this session now, the best first. Each hands over one line or request per parcel, with the parcel's id, and
   * waits until the record proves `shown`, or until it is known that nothing went in. One that types does so only in a terminal that we
   * hold.
   */
  ways(session: LiveSession): readonly Way[];
  /**
   * What the record says about this message. `session` has the pid and start of the process that it was handed to, where they are known: if
   * that process has ended, what it had not shown is over, also if another process has the session now. `since`: it was not handed over
   * before this time (Unix ms).
   */
  proof(session: LiveSession, id: MessageId, since: number): Promise<RecordedProof>;
  /**
   * Puts these before the model again with its next request, without a turn of their own: a compaction may have taken them out of its context.
   * For a client that runs no hook after a compaction.
   */
  showAgain?(session: LiveSession, parcels: readonly Parcel[]): Promise<void>;
  close(): Promise<void>;
}
