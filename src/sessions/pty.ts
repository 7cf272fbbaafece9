import { readlinkSync } from 'node:fs';
import { Refusal } from '../protocol/refusal.ts';
import { pasteable } from './pasteable.ts';
import { ScreenModel } from './screen-model.ts';
import type { Screen, Terminal } from './terminal.ts';

const BEGIN = '\u001b[200~';
const END = '\u001b[201~';

export interface PtyOptions {
  cwd: string;
  env: Record<string, string | undefined>;
  width?: number;
  height?: number;
  /** Everything that the program writes, for a terminal in which somebody looks on. That one then answers its questions. */
  shown?: (bytes: Uint8Array) => void;
}

/** A terminal that we own, with a program in it. */
export class OwnPty implements Terminal {
  readonly name: string;
  readonly tty: string | null;
  readonly #model: ScreenModel;
  readonly #child: Bun.Subprocess;
  readonly #decoder = new TextDecoder();

  constructor(command: readonly string[], options: PtyOptions) {
    const { width = 120, height = 40, shown, cwd, env } = options;
    this.#model = new ScreenModel(width, height, shown ? undefined : (text) => void this.#child.terminal?.write(text));
    this.#child = Bun.spawn([...command], {
      cwd,
      env: { TERM: 'xterm-256color', ...env },
      terminal: {
        cols: width,
        rows: height,
        data: (_terminal, bytes) => {
          this.#model.write(this.#decoder.decode(bytes, { stream: true }));
          shown?.(bytes);
        },
      },
    });
    this.name = `pty ${this.#child.pid}`;
    this.tty = deviceOf(this.#child.pid);
  }

  get pid(): number {
    return this.#child.pid;
  }

  /** The program's exit code, when it has ended. */
  get exited(): Promise<number> {
    return this.#child.exited;
  }

  async screen(): Promise<Screen | null> {
    return this.#isGone ? null : this.#model.screen();
  }

  async paste(text: string): Promise<void> {
    pasteable(text);
    if (!this.#model.bracketed && text.includes('\n'))
      throw new Refusal(
        'busy',
        `${this.name}: its program takes no bracketed paste, and each line would be sent alone`,
      );
    this.type(this.#model.bracketed ? `${BEGIN}${text}${END}` : text);
  }

  async enter(): Promise<void> {
    this.type('\r');
  }

  async erase(): Promise<void> {
    this.type('\u0015');
  }

  /** Keys as they are, for somebody who types himself. */
  type(keys: string | Uint8Array<ArrayBuffer>): void {
    if (this.#isGone) throw new Refusal('unreachable', `${this.name}: the program in it has ended`);
    this.#child.terminal?.write(keys);
  }

  /** Ends the program: it was started for this terminal. */
  async close(): Promise<void> {
    if (!this.#isGone) this.#child.kill('SIGHUP');
    const late = setTimeout(() => this.#child.kill('SIGKILL'), 3000);
    await this.#child.exited;
    clearTimeout(late);
    this.#child.terminal?.close();
  }

  get #isGone(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }
}

function deviceOf(pid: number): string | null {
  try {
    const path = readlinkSync(`/proc/${pid}/fd/0`);
    return path.startsWith('/dev/') ? path : null;
  } catch {
    return null;
  }
}
