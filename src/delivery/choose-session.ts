import type { ReadMailbox } from '../core/mail/shared.ts';
import type { Message } from '../core/message.ts';
import type { LiveSession } from '../core/ports/live-session.ts';

/** For this long after a message was stored in a shared mailbox, only sessions of the sender's folder are woken for it. */
const PREFERENCE_MS = 5000;
/** For this long no session is woken if the sender's folder is unknown: `parley send` records it right after it has stored. */
const UNKNOWN_MS = 250;

/** A mailbox that a session reads, and the context that its mail must match. */
export interface SessionMailbox extends ReadMailbox {
  match: string;
  /** Both only for a shared mailbox. Since when the session is idle; and how long it must leave a message to other sessions. */
  idleSince?: number | null;
  waitMs?: (message: Message) => Promise<number>;
}

/** A session that reads a shared mailbox. */
export interface Candidate {
  name: string;
  folder: string;
}

/** A message of a shared mailbox. */
export interface SharedMessage {
  from: string;
  /** When the message was stored here, Unix ms. The time that its sender gives is not used. */
  at: number;
  /** The folder in which its sender works; null if it is not known. */
  folder: string | null;
}

/**
 * How long this session must still leave a message of the shared mailbox to the other sessions, ms. 0: it may be woken for the message now.
 * Infinity: it sent the message itself. The sender's folder is a preference, not a scope: if no session works there, no session waits.
 */
export function waitMs(
  session: Candidate,
  message: SharedMessage,
  candidates: readonly Candidate[],
  now: number,
): number {
  const { from, at, folder } = message;
  if (session.name === from) return Infinity;
  if (folder === null) return left(at, UNKNOWN_MS, now);
  const isPreferred = (one: Candidate): boolean => one.name !== from && isIn(folder, one.folder);
  if (isPreferred(session) || !candidates.some(isPreferred)) return 0;
  return left(at, PREFERENCE_MS, now);
}

/** What is left of a time that began at `begun`. A clock that was set back does not make it longer. */
function left(begun: number, ms: number, now: number): number {
  return Math.min(ms, Math.max(0, begun + ms - now));
}

function isIn(folder: string, parent: string): boolean {
  return folder === parent || folder.startsWith(`${parent}/`);
}

/** Since when each session is idle, counted from the first look that found it idle. The session that is idle longest is woken first. */
export class IdleTimes {
  readonly #since = new Map<string, number>();

  /** Notes the status of a session. Returns since when it is idle; null: it is not idle. */
  note({ id, status }: Pick<LiveSession, 'id' | 'status'>, now: number): number | null {
    if (status !== 'idle') {
      this.#since.delete(id);
      return null;
    }
    const since = this.#since.get(id) ?? now;
    this.#since.set(id, since);
    return since;
  }
}
