import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';

/** One line of the diary. What a killed process wrote before it died stays. */
export type Entry = { pid: number } & (
  | { did: 'stored'; id: string; key: string }
  | { did: 'left'; id: string }
  | { did: 'shown'; id: string; attempt: number }
  | { did: 'settled'; id: string }
  | { did: 'gave up' }
);
type Deed = Entry extends infer E ? (E extends Entry ? Omit<E, 'pid'> : never) : never;

/** What all processes of a drill did, in the order in which they did it: one file, and the system appends whole writes in order. */
export class Diary {
  readonly #fd: number;

  constructor(root: string) {
    this.#fd = openSync(`${root}/diary`, 'a');
  }

  /** In one write, so that a kill falls before or after it. */
  write(...deeds: Deed[]): void {
    const lines = deeds.map((deed) => `${JSON.stringify({ pid: process.pid, ...deed })}\n`);
    writeSync(this.#fd, lines.join(''));
  }

  close(): void {
    closeSync(this.#fd);
  }

  static read(root: string): Entry[] {
    return readFileSync(`${root}/diary`, 'utf8')
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line) as Entry);
  }
}
