import type { Options } from '../../core/command.ts';

/** What can be said about the host on the command line of `parley up --with host`. */
export const HOST_OPTIONS = {
  'host-socket': {
    type: 'string',
    value: 'path',
    help: 'the host listens on this Unix socket (default: in your home)',
  },
  'host-ws': {
    type: 'string',
    value: 'port',
    help: 'the host also takes WebSockets on this port of 127.0.0.1 (0: any)',
  },
} as const satisfies Options;
