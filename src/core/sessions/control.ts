import type { SessionDriver, SessionState, SessionTarget } from '../ports/session.ts';
import type { SessionMessage, SessionStore, StoredPrompt } from '../ports/session-store.ts';

/** What the control of sessions works with. */
export interface ControlDeps {
  store: SessionStore;
  /** Every session that is configured, read again at each call: other processes change it. */
  targets(): Promise<SessionTarget[]>;
  driver(target: SessionTarget): SessionDriver;
  /** Makes what was stored visible to those who read files. Awaited before any answer. */
  publish(): Promise<void>;
  /** A turn that a person began at the keyboard becomes history, too. */
  recordsTerminal(): Promise<boolean>;
  now(): number;
  log(event: string, facts: Record<string, string | number | boolean>): void;
}

/** A prompt of somebody, for a session. */
export interface PromptRequest {
  session: string;
  text: string;
  from: 'human' | 'api';
  agent?: string;
  username?: string;
  raw?: boolean;
  /** ms; null: it waits as long as it must. */
  deadline: number | null;
  /** Fields of its line in the history: a voice message, a photo. */
  fields?: Partial<SessionMessage>;
}

export type Started = 'resumed' | 'fresh';

/** How an ask or a send ends. `not_started`: the client could not be started. `withdrawn`: it was never typed. */
export type PromptEnd =
  | { outcome: 'answered'; reply: SessionMessage; started?: Started }
  | { outcome: 'timeout' }
  | { outcome: 'withdrawn' }
  | { outcome: 'not_started'; because: string }
  | { outcome: 'failed'; because: string }
  | { outcome: 'interrupted' }
  | { outcome: 'stopped' };

/** How far a prompt is when `send` returns. */
export type Sent =
  | { outcome: 'sent'; id: number; status: 'queued' | 'submitted'; because?: string; started?: Started }
  | Extract<PromptEnd, { outcome: 'not_started' | 'failed' }>;

/** The sessions of this user: what control, chats and commands do with them. Unknown names throw a Refusal `not_found`. */
export interface SessionControl {
  /** Every configured session and its state; one that does not answer within 2 s is `stopped`. */
  sessions(): Promise<(SessionTarget & { state: SessionState })[]>;
  /** Sends and waits for the answer to this very prompt. */
  ask(request: PromptRequest): Promise<PromptEnd>;
  /** Stores a prompt, starts the session if it must, and returns. */
  send(request: PromptRequest): Promise<Sent>;
  /** Ends the client and starts it again with its conversation. Calls at the same time share one start. */
  restart(session: string): Promise<{ started: Started }>;
  stop(session: string): Promise<void>;
  screen(session: string, lines: number): Promise<string>;
  queue(session?: string): Promise<StoredPrompt[]>;
  /** Takes back a prompt that was not typed yet. False: too late. */
  cancel(id: number): Promise<boolean>;
  /** Calls at once with the state of each session, and then at each change. `sessions` empty: all, also those made later. Returns how to stop. */
  watch(sessions: readonly string[], changed: (session: string, state: SessionState | null) => void): () => void;
  /** Waiting asks fail; prompts that were typed are followed again at the next start. */
  close(): Promise<void>;
}
