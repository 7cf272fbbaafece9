import { receipt } from '../../core/receipt.ts';
import type { AgentName, MessageId } from '../../core/names.ts';
import type { Workspace, Home } from '../../core/mail/workspace.ts';
import type { Copy } from '../../core/ports/journal.ts';
import type { BackgroundTasks } from './tasks.ts';
import type { Item } from './item.ts';
import type { ChatPeople } from './frames.ts';
import type { ProgressLine, Digest, Window } from './prompt.ts';
import type { HostSession } from './session.ts';
import type { Surface } from './surface.ts';
import type { ChatDeliver, Knock } from './shapes.ts';

export interface Timer {
  cancel(): void;
}

/** The dependencies of the host. Time, tokens and texts for models come in from outside. */
export interface HostDeps {
  workspace: Workspace;
  home: Home;
  now: () => number;
  after: (ms: number, run: () => void) => Timer;
  newToken: () => string;
  hash: (token: string) => string;
  /** Logs small facts, never a body. */
  log: (event: string, facts: Record<string, string | number | boolean>) => void;
  render: Render;
  limits?: Partial<HostLimits>;
  /** How long a person's text is held in case more follows, unless its end says otherwise. spec: c2a#compose */
  composeMs?: number;
}

/** Limits of the host. Anything over a limit waits or is refused with `busy`; nothing is dropped. spec: host#limits */
export interface HostLimits {
  /** Messages of one surface: per second, at once, and waiting for their turn. */
  postsPerSecond: number;
  postsAtOnce: number;
  postsWaiting: number;
  /** Messages that one session sends: per second, and at once. */
  sendsPerSecond: number;
  sendsAtOnce: number;
  /** The most copies that one session holds and queues. The rest stays in the mailboxes. */
  inHand: number;
}

export const LIMITS: HostLimits = {
  postsPerSecond: 200,
  postsAtOnce: 500,
  postsWaiting: 2000,
  sendsPerSecond: 20,
  sendsAtOnce: 100,
  inHand: 1000,
};

/** How long a copy stays held by a session after its host or its connection is gone. */
export const HOLD_MS = 15 * 60 * 1000;

/** Who a name is, for a frame. */
export interface Person {
  name: AgentName | string;
  kind: 'human' | 'agent' | 'system';
  displayName: string;
  isLead: boolean;
}

/** What the parts of the host share. */
export interface HostContext {
  deps: HostDeps;
  limits: HostLimits;
  tasks: BackgroundTasks;
  people: ChatPeople;
  /** Since when the author of this item has been typing in its conversation, if a surface reports that. */
  typingSince: (item: Item) => number | null;
  /** The progress, reported since `since`, of other sessions that share a channel with this one. */
  progressAround: (session: HostSession, since: number) => Promise<ProgressLine[]>;
  /** The surface at which this agent is a person or bot, if it is connected. */
  surfaceOf: (name: string) => Surface | undefined;
  /** Mail was stored: the readers of these copies should look; without `copies`, every reader. */
  stored: (copies?: readonly Copy[]) => void;
}

/** Records one step of a copy, at this moment. */
export async function recordStep(
  { deps }: HostContext,
  mailbox: Item['who']['name'],
  id: MessageId,
  step: 'offered' | 'accepted' | 'shown' | 'knocked' | 'cancelled' | 'released',
  evidence: Record<string, string | number | boolean>,
): Promise<void> {
  await deps.home.journal.record(mailbox, id, receipt(step, deps.now(), { way: 'host', ...evidence }));
}

/** One connection, as the engine sees it: what it can send to the other side. The engine compares peers by object identity. */
export interface HostPeer {
  /** Resolves when the other side has accepted the event or, if it never acknowledges, when the event was sent. */
  deliver(params: ChatDeliver): Promise<void>;
  /** Tells the other side that an event is over. */
  cancel(eventId: MessageId, reason: string): void;
  /** Asks a surface to show something. An error with `permanent` is final; after any other the host tries again. */
  show(params: SurfaceShow): Promise<void>;
}

/**
 * What a surface is asked to show. A surface that has shown this `id` shows nothing new. Replies, edits and reactions of people to it
 * come back under this id. spec: host#show
 */
export interface SurfaceShow {
  what: 'message' | 'edit' | 'reaction' | 'progress';
  id: string;
  idempotencyKey: string;
  conversation: { id: string; kind: 'dm' | 'channel' | 'thread'; threadId?: string };
  author: { id: string; kind: 'human' | 'agent' | 'system'; displayName: string };
  visibility: 'dm' | 'thread' | 'channel' | 'ephemeral';
  /** For a DM: the person's id at the platform. */
  recipient?: string;
  /** The platform's ids of the people who are mentioned. Other names in the text mention nobody. */
  mentions: string[];
  text?: string;
  refs?: string[];
  /** For an edit or a reaction: its message. */
  target?: string;
  signal?: string;
  eta?: string;
}

/** How an error of `show` says whether and when to try again. */
export interface NotShown {
  permanent?: boolean;
  retryAfterMs?: number;
}

/** Codes that mean "not now", ours and those of HTTP: the host tries again. Every other error code of a surface is final. */
const NOT_NOW = new Set([-32603, -32015, -32016, -32017, -32018, -32009, 408, 425, 429, 500, 502, 503, 504]);

/** Is it useless to try again? A closed connection and a busy surface are not permanent; any other error of a surface is. */
export function isPermanent(error: unknown): boolean {
  if (typeof error !== 'object' || error === null) return false;
  const { permanent, code } = error as NotShown & { code?: unknown };
  if (permanent !== undefined) return permanent;
  return typeof code === 'number' && !NOT_NOW.has(code);
}

/** How long the other side asks us to wait, or null. */
export function retryAfter(error: unknown): number | null {
  if (typeof error !== 'object' || error === null) return null;
  const { retryAfterMs } = error as NotShown;
  return typeof retryAfterMs === 'number' && retryAfterMs >= 0 ? retryAfterMs : null;
}

/** Makes the text that a model sees. Its input is masked already; it must keep a body from forging a header. */
export interface Render {
  event(event: ChatDeliver, window?: Window, progress?: readonly ProgressLine[]): string;
  knock(eventId: string, knock: Knock): string;
  rules(): string;
  digest(digest: Digest): string;
}
