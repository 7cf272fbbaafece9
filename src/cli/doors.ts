import type { Options } from './command.ts';
import type { Context } from './context.ts';
import { HOST_OPTIONS } from './host/options.ts';
import { RELAY_OPTIONS } from './relay/options.ts';
import type { Log } from './serving-log.ts';
import type { Env } from './env.ts';

/** A door that stands open: where it is reached, and how it ends. */
export interface OpenDoor {
  name: string;
  address: string;
  /** What whoever opened it should know, a line each. */
  about: readonly string[];
  /** What they should mend, a line each. */
  warnings: readonly string[];
  /** Reads anew what may have changed on disk while it was open: certificates. */
  renew(): void;
  /** Takes nothing new, finishes what it has, and returns. `telling` hears what is still to be done. */
  close(telling: (what: string) => void): Promise<void>;
}

/** How a door is opened, and how somebody outside finds out whether it is. */
export interface Door {
  open(context: Context, values: Record<string, unknown>, log: Log): Promise<OpenDoor>;
  answers(address: string): Promise<boolean>;
  /** What runs behind it, a line each, for a door behind which several things run. */
  details?(address: string, env: Env): Promise<readonly string[]>;
}

/** One row of the table of doors. What is behind it is read only when the door is opened or asked for. */
export interface DoorRow {
  name: string;
  summary: string;
  /** Its options on the command line of `parley up`. */
  options: Options;
  load: () => Promise<{ default: Door }>;
}

/** Every door that `parley up --with <door>` can open. A further one is a further row. */
export const DOORS: readonly DoorRow[] = [
  {
    name: 'relay',
    summary: 'mail between machines, over HTTP',
    options: RELAY_OPTIONS,
    load: () => import('./relay/door.ts'),
  },
  {
    name: 'outbox',
    summary: 'sends what waits in your outbox as soon as its relay can be reached',
    options: {},
    load: () => import('./outbox-door.ts'),
  },
  {
    name: 'host',
    summary: 'mail for programs that run models, and for chats, by JSON-RPC on this machine',
    options: HOST_OPTIONS,
    load: () => import('./host/door.ts'),
  },
  {
    name: 'loops',
    summary: 'wakes sessions of c2c for their mail, and carries it to those that are reached so',
    options: {},
    load: () => import('./loops/door.ts'),
  },
];
