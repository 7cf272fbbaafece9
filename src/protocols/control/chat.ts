import type { Env } from '../../core/env.ts';
import type { SessionStore } from '../../core/ports/session-store.ts';
import type { Log } from '../../core/service.ts';
import type { SessionControl } from '../../core/sessions/control.ts';
import type { ControlFile } from './config.ts';

/** What a chat of people works with. */
export interface ChatDeps {
  control: SessionControl;
  store: SessionStore;
  config: ControlFile;
  env: Env;
  /** Writes stored lines to the history files. */
  publish: () => Promise<void>;
  now: () => number;
  log: Log;
}

/** A chat that shows sessions to people. No method waits for the chat service, so a chat that hangs delays nobody. */
export interface Chat {
  /** A line of history was stored. */
  changed(): void;
  /** A session was started again for a caller of the API. */
  continued(session: string, agent: string): void;
  close(): Promise<void>;
}

export type OpenChat = (deps: ChatDeps) => Promise<Chat>;
