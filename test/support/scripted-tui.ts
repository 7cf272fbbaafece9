// Starts and controls the scripted agent of scripted-tui.child.ts.
import { existsSync, readFileSync, rmSync } from 'node:fs';
import type { Composer, ReadComposer, Screen, Terminal } from '../../src/sessions/terminal.ts';
import { temporaryHome } from './home.ts';
import { within } from './within.ts';

const CHILD = new URL('./scripted-tui.child.ts', import.meta.url).pathname;
const DEADLINE = 20_000;

interface Noted {
  prompt?: string;
  /** The number of bracketed pastes and of single keys in the prompt. */
  pastes?: number;
  keys?: number;
  approved?: boolean;
  state?: string;
}

export class ScriptedTui {
  readonly folder = temporaryHome();
  readonly command: string[];

  constructor(...more: string[]) {
    this.command = [process.execPath, CHILD, this.folder, ...more];
  }

  get sign(): string {
    return `${this.folder}/sign`;
  }

  get pid(): number {
    return Number(readFileSync(`${this.folder}/pid`, 'utf8'));
  }

  /** Waits until the agent takes input. */
  async ready(): Promise<void> {
    await within(DEADLINE, async () => existsSync(this.sign));
  }

  /** The lines of its log. */
  noted(): Noted[] {
    if (!existsSync(`${this.folder}/log`)) return [];
    const lines = readFileSync(`${this.folder}/log`, 'utf8').split('\n').slice(0, -1);
    return lines.map((line) => JSON.parse(line) as Noted);
  }

  prompts(): string[] {
    return this.noted().flatMap(({ prompt }) => prompt ?? []);
  }

  async prompted(times = 1): Promise<string[]> {
    await within(DEADLINE, async () => this.prompts().length >= times);
    return this.prompts();
  }

  /** Sends an order and waits until it is carried out. */
  async order(words: string): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const socket = await Bun.connect({
      unix: `${this.folder}/orders`,
      socket: { data: () => resolve(), close: () => resolve() },
    });
    socket.write(`${words}\n`);
    await promise;
    socket.end();
  }

  /** Call after the agent was killed: removes its files, so that they are not taken for those of the next one. */
  forget(): void {
    for (const name of ['sign', 'orders', 'pid']) rmSync(`${this.folder}/${name}`, { force: true });
  }
}

/** Reads the composer from the screen of the scripted agent. */
export function scriptedComposer({ lines, bright }: Screen): Composer {
  if (lines.some((line) => line.startsWith('Run this command?'))) return 'dialog';
  if (lines.some((line) => line.startsWith('Working…'))) return 'busy';
  const row = lines.findLastIndex((line) => line.startsWith('>'));
  if (row < 0) return 'unknown';
  return bright[row] === '>' ? 'empty' : 'draft';
}

/** True if its composer contains this text. It draws a long text as its length. */
export function scriptedHolds({ lines }: Screen, text: string): boolean {
  const shown = lines
    .findLast((line) => line.startsWith('>'))
    ?.slice(2)
    .trimEnd();
  return shown === text || shown === `[pasted ${text.length}]`;
}

/** The composer on a terminal's screen; null if the terminal is gone. */
export async function shownBy(terminal: Terminal, composer: ReadComposer = scriptedComposer): Promise<Composer | null> {
  const screen = await terminal.screen();
  return screen && composer(screen);
}
