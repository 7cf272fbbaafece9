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
  /** The absolute path of the folder in which it works. */
  folder: string;
  /** The process of its window, if it has one. `start` distinguishes it from a later process with the same pid. */
  pid?: number;
  start?: string;
  status: SessionStatus;
  /** What the session waits for, in the client's words. */
  waitingFor?: string;
  /** The compaction after which the client waits for `showAgain`, in the client's words. */
  compaction?: string;
  /** The client does not say whether a window still shows the session. */
  isUncertain?: true;
  /** When mail reaches the session if no way is open now, such as `at the end of its turn`. Absent: with its next prompt. */
  mailComes?: string;
  /** The model of the session has none of Parley's tools. */
  hasNoTools?: true;
}

/**
 * What a client's record says about one message that was handed to one of its sessions.
 * `shown`: the message was in a request to the model. `accepted`: the client has the message and will show it. `trouble`: the client's request
 * to its model with the message failed, in the client's words. `needsTurn`: the conversation has the message, but the model sees it only when
 * another turn begins, because the request failed or the client was started again; not set if the user stopped the model.
 * `none`: the record does not have the message. `isOver`: the client cannot have it any more, so it may be handed over again.
 * `declined`: the user of the client does not want the message.
 * An entry that the reader does not understand is `none` with `isOver` false.
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

/** The turn that a message began alone. Absent if the message joined a turn or shares one. */
export interface MessageTurn {
  id: string;
  /** Its end, once the record has it. `text` is the final text of the model. */
  end?: { how: 'done' | 'interrupted' | 'failed'; text: string };
}

/** The running sessions of one client. */
export interface LiveSessions {
  /** The sessions that run now. Cheap: starts no process. */
  list(): Promise<LiveSession[]>;
  /** Calls `changed` when the list or a record may have changed. Returns a function that stops the calls. */
  watch(changed: () => void): () => void;
  /**
   * The ways that reach this session now, the best first. Each hands over one line or request per parcel, with the parcel's id, and
   * waits until the record proves `shown`, or until it is certain that nothing was handed over. A way that types does so only in a terminal that
   * Parley holds.
   */
  ways(session: LiveSession): readonly Way[];
  /**
   * What the record says about this message. `session` has the pid and start of the process that got the message, if they are known: if that
   * process has ended without showing the message, the message is over, also if another process has the session now. `since`: the message
   * was not handed over before this time (Unix ms).
   */
  proof(session: LiveSession, id: MessageId, since: number): Promise<RecordedProof>;
  /**
   * Shows these messages to the model again with its next request, without starting a turn: a compaction may have removed them from its
   * context. For a client that runs no hook after a compaction.
   */
  showAgain?(session: LiveSession, parcels: readonly Parcel[]): Promise<void>;
  close(): Promise<void>;
}
