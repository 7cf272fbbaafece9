import type { Env } from './env.ts';
import type { Workspace } from './mail/workspace.ts';

export type LogFacts = Record<string, string | number | boolean>;
/** Logs one event of a service. Never pass a body or a token. Secrets in an error are masked. */
export type Log = (event: string, facts: LogFacts) => void;

/** What a service gets when it is opened. */
export interface ServiceContext {
  env: Env;
  cwd: string;
  settings: {
    bodyLimit: number;
    durability: 'normal' | 'full';
    composeMs: number;
    wakesPerHour: number;
    captureRemote: 'on' | 'off';
  };
  /** Opens the homes of the user, for a process that stays. The process closes the directories when it ends. */
  openWorkspace(): Workspace;
}

/** An open service: its address, and how to close it. */
export interface OpenService {
  name: string;
  address: string;
  /** Lines of information for the user who opened the service. */
  about: readonly string[];
  /** Lines about problems that the user should fix. */
  warnings: readonly string[];
  /** Reads files again that may have changed: certificates. */
  renew(): void;
  /** Takes no new work, finishes the work in progress, and returns. Calls `telling` with what is still to be done. */
  close(telling: (what: string) => void): Promise<void>;
}

/** How a service is opened, and how another process tests whether it runs. */
export interface Service {
  open(context: ServiceContext, values: Record<string, unknown>, log: Log): Promise<OpenService>;
  answers(address: string): Promise<boolean>;
  /** One line for each part, for a service with several parts. */
  details?(address: string, env: Env): Promise<readonly string[]>;
}
