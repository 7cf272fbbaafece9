import type { Env } from './env.ts';
import type { Workspace } from './mail/workspace.ts';

export type LogFacts = Record<string, string | number | boolean>;
/** Notes one event of a program that serves. Never a body, never a token; a secret that came along in an error is masked. */
export type Log = (event: string, facts: LogFacts) => void;

/** What a service is opened with. */
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
  /** The homes of the user, for a process that stays. It closes the directories at its end. */
  openWorkspace(): Workspace;
}

/** A service that is open: where it is reached, and how it ends. */
export interface OpenService {
  name: string;
  address: string;
  /** What the one who opened it should know, a line each. */
  about: readonly string[];
  /** What they should mend, a line each. */
  warnings: readonly string[];
  /** Reads again what may have changed on disk: certificates. */
  renew(): void;
  /** Takes nothing new, finishes what it has, and returns. `telling` hears what is still to be done. */
  close(telling: (what: string) => void): Promise<void>;
}

/** How a service is opened, and how another process finds out whether it is. */
export interface Service {
  open(context: ServiceContext, values: Record<string, unknown>, log: Log): Promise<OpenService>;
  answers(address: string): Promise<boolean>;
  /** What runs in it, a line each, for a service that runs several things. */
  details?(address: string, env: Env): Promise<readonly string[]>;
}
