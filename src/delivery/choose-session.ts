import type { ReadMailbox } from '../core/mail/shared.ts';
import type { Message } from '../core/message.ts';
import type { LiveSession } from '../core/ports/live-session.ts';

/** In this time after it was stored only a session of its sender's folder is woken for a message of a shared mailbox. */
const PREFERENCE_MS = 5000;
/** A sender that is no session says where it is right after it has sent: in this time nobody is woken. */
const UNKNOWN_MS = 250;

/** A mailbox that a session reads, and the context that its mail must match. */
export interface SessionMailbox extends ReadMailbox {
  match: string;
  /** Of a shared mailbox: since when the session is idle, and how long it must leave a message to the others, ms. */
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
  /** When it was stored here, Unix ms. What its sender says about the time is not believed. */
  at: number;
  /** Where its sender works; null if nobody said so. */
  folder: string | null;
}

/**
 * How long this session must still leave a message of the shared mailbox to the others, ms; 0: it may be woken for it now. The sender's
 * folder is a preference, not a scope: where no session works there, nobody waits for one.
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

/** How much of a time is left that began then. A clock that was set back makes it no longer. */
function left(begun: number, ms: number, now: number): number {
  return Math.min(ms, Math.max(0, begun + ms - now));
}

function isIn(folder: string, parent: string): boolean {
  return folder === parent || folder.startsWith(`${parent}/`);
}

/** Since when each session is idle, as far as somebody looked. The one that is idle longest is woken first. */
export class IdleTimes {
  readonly #since = new Map<string, number>();

  /** Notes the state of a session, and returns since when it is idle; null: it is not. */
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
