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

/** What the host works with. Time, tokens and words come in from outside. */
export interface HostDeps {
  workspace: Workspace;
  home: Home;
  now: () => number;
  after: (ms: number, run: () => void) => Timer;
  newToken: () => string;
  hash: (token: string) => string;
  /** Small facts, never a body. */
  log: (event: string, facts: Record<string, string | number | boolean>) => void;
  render: Render;
  limits?: Partial<HostLimits>;
  /** How long a text of a person waits for more, where nothing in it says otherwise. spec: c2a#compose */
  composeMs?: number;
}

/** How much at once. What is over it waits or is refused with `busy`; nothing is dropped. spec: host#limits */
export interface HostLimits {
  /** Messages of one surface per second, how many may come at once, and how many may wait for their turn. */
  postsPerSecond: number;
  postsAtOnce: number;
  postsWaiting: number;
  /** Messages that one session may send per second, and at once. */
  sendsPerSecond: number;
  sendsAtOnce: number;
  /** How much one session may hold and have queued: the rest stays where it waits. */
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

/** Who a name is, as far as a frame says it. */
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
  /** Since when the author of this item types where it was said, as far as a surface tells. */
  typingSince: (item: Item) => number | null;
  /** How far the work is that others do where this session listens, as told since then. */
  progressAround: (session: HostSession, since: number) => Promise<ProgressLine[]>;
  /** The surface at which this agent is a person or bot, if it is connected. */
  surfaceOf: (name: string) => Surface | undefined;
  /** Something was stored: anyone who has a copy should look; without copies, everybody. */
  stored: (copies?: readonly Copy[]) => void;
}

/** One thing that happened to a copy, at this moment. */
export async function noted(
  { deps }: HostContext,
  mailbox: Item['who']['name'],
  id: MessageId,
  step: 'offered' | 'accepted' | 'shown' | 'knocked' | 'cancelled' | 'released',
  evidence: Record<string, string | number | boolean>,
): Promise<void> {
  await deps.home.journal.record(mailbox, id, receipt(step, deps.now(), { way: 'host', ...evidence }));
}

/** One connection, as the engine sees it: what can be said to the other side. A wire is known by its identity. */
export interface HostPeer {
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

/** Makes the words that a model sees. The texts it is given are masked; that no body can forge a header is its work. */
export interface Render {
  event(event: ChatDeliver, window?: Window, progress?: readonly ProgressLine[]): string;
  knock(eventId: string, knock: Knock): string;
  rules(): string;
  digest(digest: Digest): string;
}
