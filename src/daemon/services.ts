import { RELAY_OPTIONS } from '../protocols/backchannel/relay-options.ts';
import { HOST_OPTIONS } from '../protocols/c2a/options.ts';
import type { Options } from '../core/command.ts';
import type { Service } from '../core/service.ts';

/** One row of the table of services. The code of a service is loaded only when the service is opened or asked for. */
export interface ServiceRow {
  name: string;
  summary: string;
  /** The service's options on the command line of `parley up`. */
  options: Options;
  load: () => Promise<Service>;
}

/** Every service that `parley up --with <name>` can open. A new service is a new row. */
export const SERVICES: readonly ServiceRow[] = [
  {
    name: 'relay',
    summary: 'mail between machines, over HTTP',
    options: RELAY_OPTIONS,
    load: async () => (await import('../protocols/backchannel/relay.ts')).relay,
  },
  {
    name: 'outbox',
    summary: 'sends what waits in your outbox as soon as its relay can be reached',
    options: {},
    load: async () => (await import('./outbox.ts')).outbox,
  },
  {
    name: 'host',
    summary: 'mail for programs that run models, and for chats, by JSON-RPC on this machine',
    options: HOST_OPTIONS,
    load: async () => (await import('../protocols/c2a/service.ts')).default,
  },
  {
    name: 'loops',
    summary: 'wakes sessions of c2c for their mail, and carries it to those that are reached so',
    options: {},
    load: async () => (await import('../protocols/c2c/loop-service.ts')).loops,
  },
  {
    name: 'control',
    summary: 'prompts for running sessions, and their answers, on ~/.ccc.sock',
    options: {},
    load: async () => (await import('./control.ts')).control,
  },
  {
    name: 'follow',
    summary: 'gives running sessions the mail that waits for them, and reads the proof',
    options: {
      'ends-when-idle': { type: 'boolean', help: 'follow: end after 30 minutes without a running session' },
    },
    load: async () => (await import('./follow.ts')).follow,
  },
];
