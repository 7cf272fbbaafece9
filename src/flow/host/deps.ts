import type { AgentName } from '../../protocol/names.ts';
import type { Workspace, Home } from '../workspace.ts';
import type { Render } from './render.ts';

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
  limits?: Partial<Limits>;
  /** How long a text of a person waits for more, where nothing in it says otherwise. spec: c2a#compose */
  composeMs?: number;
}

/** How much at once. What is over it waits or is refused with `busy`; nothing is dropped. spec: host#limits */
export interface Limits {
  /** Messages of one surface per second, how many may come at once, and how many may wait for their turn. */
  postsPerSecond: number;
  postsAtOnce: number;
  postsWaiting: number;
  /** Messages that one session may send per second, and at once. */
  sendsPerSecond: number;
  sendsAtOnce: number;
  /** What one session may have in hand and before it: the rest stays where it waits. */
  inHand: number;
}

export const LIMITS: Limits = {
  postsPerSecond: 200,
  postsAtOnce: 500,
  postsWaiting: 2000,
  sendsPerSecond: 20,
  sendsAtOnce: 100,
  inHand: 1000,
};

/** How long a copy stays in a session's hand after its host or its connection is gone. */
export const HOLD_MS = 15 * 60 * 1000;

/** Who a name is, as far as a frame says it. */
export interface Person {
  name: AgentName | string;
  kind: 'human' | 'agent' | 'system';
  displayName: string;
  isLead: boolean;
}
