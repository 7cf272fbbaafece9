import { readFileSync } from 'node:fs';

/** The state LISTEN in /proc/net/tcp. */
const LISTEN = '0A';
/** 127.0.0.1 and 0.0.0.0 in /proc/net/tcp. */
const ADDRESSES = ['0100007F', '00000000'];

interface LoopbackCall {
  /** The name of the program that should listen there, for errors. */
  program: string;
  port: number;
  path: string;
  method: string;
  /** The Authorization header. */
  authorization: string;
  body?: object | undefined;
  ms: number;
  signal?: AbortSignal | undefined;
  /** The listener must be a process of this user. */
  uid: number | undefined;
}

/** Nothing listens there, or the listener is another user's. The server got nothing from us. */
export class NoServer extends Error {
  override readonly name = 'NoServer';
}

/**
 * One HTTP call to a server of this user on loopback. It ignores proxy settings and follows no redirect: another host would get the secret
 * or the text.
 */
export async function callLoopback(call: LoopbackCall): Promise<Response> {
  const { program, port, path, method, body, ms, signal, uid, authorization } = call;
  const owner = listenerOn(port);
  if (owner !== undefined && owner !== uid)
    throw new NoServer(owner === null ? `${program} does not listen there` : 'another user listens there');
  const limit = AbortSignal.timeout(ms);
  try {
    return await fetch(`http://127.0.0.1:${port}${path}`, {
      method,
      headers: { authorization, 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
      signal: signal ? AbortSignal.any([signal, limit]) : limit,
      proxy: false,
      redirect: 'manual',
    });
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : '';
    if (code === 'ConnectionRefused' || code === 'ECONNREFUSED') throw new NoServer(`${program} does not listen there`);
    throw new Error(limit.aborted ? `${program} did not answer within ${ms / 1000} s` : String(error), {
      cause: error,
    });
  }
}

/** The user whose process listens on this loopback port; null if none listens, undefined if the system has no /proc/net/tcp. */
function listenerOn(port: number): number | null | undefined {
  const lines = socketLines();
  if (lines === null) return undefined;
  const digits = port.toString(16).toUpperCase().padStart(4, '0');
  for (const line of lines) {
    const [, local, , state, , , , uid] = line.trim().split(/\s+/);
    if (state === LISTEN && ADDRESSES.some((address) => local === `${address}:${digits}`)) return Number(uid);
  }
  return null;
}

function socketLines(): string[] | null {
  try {
    return readFileSync('/proc/net/tcp', 'utf8').split('\n');
  } catch {
    return null;
  }
}
