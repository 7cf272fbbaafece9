import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { readInstanceName } from '../protocol/statefile.ts';
import { StateStream } from './state-stream.ts';
import type { Trouble } from './state-stream.ts';

/** While states come fast the file is written this often; the last state is never later on disk than this. */
const PAUSE_MS = 20;
const RETRY_MS = 1000;

/** Where the state of an OpenCode stands: with its instance, or in the one place for those that have no name. spec: statefile#place */
export function statefilePath(env: Record<string, string | undefined>, instance = env['C2C_INSTANCE_NAME']): string {
  const share = `${env['HOME'] ?? ''}/.local/share/c2c`;
  if (!instance) return `${share}/oc-plugin-state.json`;
  return `${env['C2C_INSTANCES_DIR'] || `${share}/instances`}/${readInstanceName(instance)}/oc-plugin-state.json`;
}

/** The file as it stands; null if there is none. */
export function readStatefile(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ENOTDIR')) return null;
    throw error;
  }
}

/**
 * Keeps the statefile as the stream says, until the stream ends. A reader always finds a whole state: the file is written beside
 * its place and renamed into it. Of states that come within {@link PAUSE_MS} only the last is written. spec: statefile#file
 */
export class StatefileWriter {
  readonly #stream: StateStream;
  #written = 0;
  #pause: Timer | null = null;

  constructor(
    readonly path: string,
    readonly trouble: (kind: Trouble) => void,
  ) {
    this.#stream = new StateStream(() => this.#soon(), trouble, Date.now);
  }

  take(bytes: Uint8Array): void {
    this.#stream.take(bytes);
  }

  /** Writes what is not written yet. True if the file now says what the stream said, or if the stream said nothing. */
  end(): boolean {
    this.#stream.end();
    if (this.#pause !== null) clearTimeout(this.#pause);
    return this.#isWritten || this.#write();
  }

  get #isWritten(): boolean {
    return this.#written === this.#stream.version;
  }

  /** At once after a quiet moment; otherwise when the pause is over. */
  #soon(): void {
    if (this.#pause !== null || this.#isWritten) return;
    const pause = this.#write() ? PAUSE_MS : RETRY_MS;
    this.#pause = setTimeout(() => {
      this.#pause = null;
      this.#soon();
    }, pause);
  }

  #write(): boolean {
    // Two writers may share the place: each has a draft of its own.
    const draft = `${this.path}.tmp.${process.pid}`;
    try {
      // Each time: whoever clears away an instance does not stop its OpenCode.
      mkdirSync(this.path.slice(0, this.path.lastIndexOf('/')), { recursive: true, mode: 0o700 });
      writeFileSync(draft, this.#stream.text, { mode: 0o600 });
      renameSync(draft, this.path);
    } catch {
      this.trouble('unwritable');
      return false;
    }
    this.#written = this.#stream.version;
    return true;
  }
}
