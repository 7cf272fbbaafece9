import { resolve } from 'node:path';
import { parleyHome } from '../../platform/env.ts';
import type { Env } from '../../platform/env.ts';
import { Refusal } from '../../protocol/refusal.ts';

/** Where a host should listen. */
export interface HostOrder {
  socket: string;
  ws: number | null;
  /** Where the token for WebSockets is kept. */
  tokenFile: string;
}

/** With nothing said it is the socket in the user's home. */
export function hostOrder(
  { socket, ws }: { socket: string | undefined; ws: string | undefined },
  env: Env,
  cwd: string,
): HostOrder {
  const folder = `${parleyHome(env)}/host`;
  const order = { ws: ws === undefined ? null : portFrom(ws), tokenFile: `${folder}/token` };
  if (socket !== undefined) return { ...order, socket: resolve(cwd, socket) };
  return { ...order, socket: `${folder}/socket` };
}

function portFrom(text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) < 65_536) return Number(text);
  throw new Refusal('invalid_request', `"${text.slice(0, 40)}" is no port; write a number from 0 to 65535`);
}
