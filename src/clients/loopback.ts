import { readFileSync } from 'node:fs';

/** As /proc/net/tcp writes it. */
const LISTEN = '0A';
/** 127.0.0.1, and every address of this machine. */
const ADDRESSES = ['0100007F', '00000000'];

/** The user whose program listens on this port of loopback; null if nobody does, undefined where the system does not tell. */
export function listenerOn(port: number): number | null | undefined {
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
