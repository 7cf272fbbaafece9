import type { ChatDeliver } from '../../protocol/host.ts';
import type { MessageId } from '../../protocol/names.ts';

/** One connection, as the engine sees it: what can be said to the other side. A wire is known by its identity. */
export interface Wire {
  /** Resolves when the other side has accepted it, or, where it never says so, when it is on its way. */
  deliver(params: ChatDeliver): Promise<void>;
  /** Says that an event is over. */
  cancel(eventId: MessageId, reason: string): void;
  /** For surfaces: something to be shown. A throw with `permanent` is final; any other may pass. */
  show(params: SurfaceShow): Promise<void>;
}

/**
 * What a surface is asked to show. The same `id` again is the same thing: a surface that has it shows nothing new. Whatever people
 * do with it there comes back under this id. spec: host#show
 */
export interface SurfaceShow {
  what: 'message' | 'edit' | 'reaction' | 'progress';
  id: string;
  idempotencyKey: string;
  conversation: { id: string; kind: 'dm' | 'channel' | 'thread'; threadId?: string };
  author: { id: string; kind: 'human' | 'agent' | 'system'; displayName: string };
  visibility: 'dm' | 'thread' | 'channel' | 'ephemeral';
  /** For a DM: whose, by the platform's id. */
  recipient?: string;
  /** The platform's ids of those who are called; nobody else's name in the text calls anybody. */
  mentions: string[];
  text?: string;
  refs?: string[];
  /** Of an edit or a reaction: which message. */
  target?: string;
  signal?: string;
  eta?: string;
}

/** Why something could not be shown, as a wire tells it. */
export interface NotShown {
  permanent?: boolean;
  retryAfterMs?: number;
}

/** "Not now", as we say it and as HTTP does: a surface that answers so is asked again. Every other "no" of a surface is final. */
const NOT_NOW = new Set([-32603, -32015, -32016, -32017, -32018, -32009, 408, 425, 429, 500, 502, 503, 504]);

/** Will it help to ask again? A connection that ended and a surface that is busy pass; a surface that says no means it. */
export function isPermanent(error: unknown): boolean {
  if (typeof error !== 'object' || error === null) return false;
  const { permanent, code } = error as NotShown & { code?: unknown };
  if (permanent !== undefined) return permanent;
  return typeof code === 'number' && !NOT_NOW.has(code);
}

/** How long the other side wants to be left alone, where it says so. */
export function retryAfter(error: unknown): number | null {
  if (typeof error !== 'object' || error === null) return null;
  const { retryAfterMs } = error as NotShown;
  return typeof retryAfterMs === 'number' && retryAfterMs >= 0 ? retryAfterMs : null;
}
