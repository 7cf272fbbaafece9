import { readFileSync, statSync } from 'node:fs';
import { rename, writeFile } from 'node:fs/promises';
import { hasRunSince } from './process.ts';
import type { ClientState, Sign, Signs } from './sign.ts';

const STATES: readonly string[] = ['idle', 'busy', 'dialog', 'starting', 'unknown'] satisfies ClientState[];
/** A clock that runs ahead of the file system's by more than this is not believed. */
const AHEAD = 2000;

/**
 * The sign that a client's hooks leave in a small file: `<state> <epoch seconds> [<pid of the client>]`. spec: c2c#signs
 *
 * It is fresh as long as nothing newer was said: each hook replaces the file, so the last state stands until the client's next
 * event. An idle client that ends says `SessionEnd`, and its file goes. One that was killed says nothing: then the file names a
 * process that is gone (if it names one), and the screen shows no composer. A file that cannot be read as such is no sign.
 */
export class SignFile implements Signs {
  constructor(readonly path: string) {}

  async latest(): Promise<Sign | null> {
    const read = readBoth(this.path);
    if (!read) return null;
    const [state = '', seconds = '', pid = ''] = read.text.trim().split(/\s+/);
    if (!STATES.includes(state) || !/^\d{1,12}$/.test(seconds)) return null;
    const at = Math.min(read.writtenAt, Number(seconds) * 1000 + 999 + AHEAD);
    const sign: Sign = { state: state as ClientState, at, source: 'hook', detail: state };
    if (!/^\d{1,10}$/.test(pid)) return sign;
    return hasRunSince(Number(pid), at) ? { ...sign, pid: Number(pid) } : null;
  }
}

/** Leaves a sign whole or not at all. */
export async function writeSign(path: string, state: ClientState, at: number, pid?: number): Promise<void> {
  const temporary = `${path}.${process.pid}`;
  await writeFile(temporary, `${state} ${Math.floor(at / 1000)}${pid ? ` ${pid}` : ''}\n`, { mode: 0o600 });
  await rename(temporary, path);
}

/** A few bytes, read at once: on a busy machine, waiting for them costs more than reading them. */
function readBoth(path: string): { text: string; writtenAt: number } | null {
  try {
    return { text: readFileSync(path, 'utf8'), writtenAt: statSync(path).mtimeMs };
  } catch {
    return null;
  }
}
