import { readFileSync } from 'node:fs';

/** As /proc/net/tcp writes it. */
const LISTEN = '0A';
/** 127.0.0.1, and every address of this machine. */
const ADDRESSES = ['0100007F', '00000000'];

interface LoopbackCall {
  /** The program that should listen there, by its name. */
  program: string;
  port: number;
  path: string;
  method: string;
  /** How it knows us. */
  authorization: string;
  body?: object | undefined;
  ms: number;
  signal?: AbortSignal | undefined;
  /** The user whose program it must be. */
  uid: number | undefined;
}

/** The server cannot be reached, or is not the one that is meant: it was given nothing. */
export class NoServer extends Error {
  override readonly name = 'NoServer';
}

/**
 * One call to a server of this user on loopback. It goes nowhere else, not by a proxy of the environment and not where the server redirects it:
 * that one would get the secret or the text.
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

/** The user whose program listens on this port of loopback; null if nobody does, undefined where the system does not tell. */
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
