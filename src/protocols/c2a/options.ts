import type { Env } from '../../core/env.ts';
import type { Options } from '../../core/command.ts';
import { parleyHome } from '../../platform/env.ts';
import { resolve } from 'node:path';
import { Refusal } from '../../core/refusal.ts';

/** The options of the host on the command line of `parley up --with host`. */
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

/** Where a host listens. */
export interface HostAddresses {
  socket: string;
  /** The port on 127.0.0.1 for WebSockets, if there is one. */
  ws: number | null;
  /** Where the token for WebSockets is kept. */
  tokenFile: string;
}

/** By default it is the socket in the user's home. */
export function hostAddresses(
  { socket, ws }: { socket: string | undefined; ws: string | undefined },
  env: Env,
  cwd: string,
): HostAddresses {
  const folder = `${parleyHome(env)}/host`;
  return {
    socket: socket === undefined ? `${folder}/socket` : resolve(cwd, socket),
    ws: ws === undefined ? null : portFrom(ws),
    tokenFile: `${folder}/token`,
  };
}

function portFrom(text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) < 65_536) return Number(text);
  throw new Refusal('invalid_request', `"${text.slice(0, 40)}" is not a port; write a number from 0 to 65535`);
}
