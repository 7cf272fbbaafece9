// A plain line reader: no raw mode, no brackets, a prompt and a line at a time. It appends each line that it got to a file.
import { existsSync, readFileSync } from 'node:fs';
import type { Composer, Screen } from '../../src/sessions/terminal.ts';
import { temporaryHome } from './home.ts';
import { within } from './within.ts';

export class LineReader {
  readonly file = `${temporaryHome()}/lines`;
  readonly command: string[];

  constructor() {
    const script = `while printf 'say> '; IFS= read -r line; do printf '%s\\n' "$line" >> '${this.file}'; done`;
    this.command = ['sh', '-c', script];
  }

  lines(): string[] {
    return existsSync(this.file) ? readFileSync(this.file, 'utf8').split('\n').slice(0, -1) : [];
  }

  async got(count = 1): Promise<string[]> {
    await within(20_000, async () => this.lines().length >= count);
    return this.lines();
  }
}

/** Its screen, read: the last prompt has nothing after it. */
export function lineComposer({ lines }: Screen): Composer {
  const last = lines.findLast((line) => line !== '') ?? '';
  if (!last.startsWith('say>')) return 'unknown';
  return last === 'say>' ? 'empty' : 'draft';
}
