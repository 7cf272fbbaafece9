import { describe, expect, it } from 'bun:test';
import fc from 'fast-check';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { carryOut, changeFor, takeBack, undo } from './apply.ts';
import type { Change, Wish } from './apply.ts';
import { hasMember } from './jsonc-edit.ts';
import { readTree } from './jsonc-tree.ts';
import { readManifest } from './manifest.ts';

/** A file of settings in which three names put their things. */
class Shared {
  readonly folder = temporaryHome();
  readonly manifest = `${this.folder}/notes/deep/installed.json`;

  constructor(
    readonly text: string | null,
    readonly path = `${this.folder}/client/settings.json`,
  ) {
    if (text === null) return;
    this.path = `${this.folder}/settings.json`;
    writeFileSync(this.path, text);
  }

  wish(by: string, event: string | null, version = 1): Wish {
    const at = event === null ? ['servers', by] : ['hooks', event];
    const value = event === null ? { command: by, version } : { hooks: [{ command: `${by} ${event}`, version }] };
    const isThere = (text: string): boolean =>
      event === null ? hasMember(text, at) : JSON.stringify(readTree(text).value).includes(`${by} ${event}`);
    const what = event === null ? 'server' : `hook at ${event}`;
    return {
      by,
      path: this.path,
      owner: 'client',
      what,
      content: { format: 'json', at, append: event !== null, value },
      isThere,
    };
  }

  add(wish: Wish): Change | string {
    const change = changeFor(wish, this.manifest);
    if (typeof change === 'object') carryOut(change, this.manifest);
    return change;
  }

  undo(wish: Wish) {
    const noted = readManifest(this.manifest).noted.find((one) => one.by === wish.by && one.what === wish.what);
    return noted ? undo(noted, this.manifest) : undefined;
  }

  get now(): string | null {
    return existsSync(this.path) ? readFileSync(this.path, 'utf8') : null;
  }

  get names(): string[] {
    return readdirSync(this.folder, { recursive: true, encoding: 'utf8' }).sort();
  }
}

const TEXTS = [
  null,
  '{}',
  '{"hooks": {}}',
  '{"hooks": {"Stop": []}, "servers": {"theirs": 1}}',
  '{\n  // mine\n  "hooks": {\n    "Stop": [\n      {"hooks": []}, // one\n    ],\n  },\n}\n',
  '\ufeff{\r\n\t"servers": {}\r\n}\r\n',
  '{ /* nothing */ }',
];
const THINGS = ['bch', 'c2c', 'parley'].flatMap((by) => [null, 'Stop', 'Start'].map((event) => ({ by, event })));

describe('what several of our names put into one file', () => {
  it('comes out in any order, and the very bytes are left', () => {
    const plan = fc.record({
      text: fc.constantFrom(...TEXTS),
      added: fc.shuffledSubarray(THINGS, { minLength: 1 }),
      seed: fc.integer(),
    });
    fc.assert(
      fc.property(plan, ({ text, added, seed }) => {
        const file = new Shared(text);
        const { names } = file;
        for (const { by, event } of added) file.add(file.wish(by, event));
        const order = added
          .map((one, at) => ({ one, key: Bun.hash(`${seed}.${at}`) }))
          .sort((a, b) => (a.key < b.key ? -1 : 1));
        for (const { one } of order) expect(file.undo(file.wish(one.by, one.event))).toEqual({ outcome: 'removed' });
        expect(file.now).toBe(text);
        expect(file.names).toEqual(names);
      }),
      { numRuns: 25 },
    );
  });

  it('is, after one of them left, what it would be had that one never been there', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...TEXTS),
        fc.shuffledSubarray(THINGS, { minLength: 2 }),
        fc.nat(),
        (text, added, nat) => {
          const gone = nat % added.length;
          const [file, never] = [new Shared(text), new Shared(text)];
          for (const { by, event } of added) file.add(file.wish(by, event));
          for (const { by, event } of added.toSpliced(gone, 1)) never.add(never.wish(by, event));
          const { by = '', event = null } = added[gone] ?? {};
          file.undo(file.wish(by, event));
          expect(file.now).toBe(never.now);
        },
      ),
      { numRuns: 20 },
    );
  });

  it('goes without the others’ when another program has written the file anew, with all that was made for it', () => {
    fc.assert(
      fc.property(
        fc.shuffledSubarray(THINGS, { minLength: 1 }),
        fc.shuffledSubarray(THINGS, { minLength: 9 }),
        (added, order) => {
          const file = new Shared('{"a": 1}');
          for (const { by, event } of added) file.add(file.wish(by, event));
          const values = JSON.parse(file.now ?? '') as Record<string, unknown>;
          writeFileSync(file.path, JSON.stringify({ b: 2, ...values }, null, 4));
          for (const { by, event } of order.filter((one) => added.includes(one))) file.undo(file.wish(by, event));
          expect(JSON.parse(file.now ?? '')).toEqual({ b: 2, a: 1 });
          expect(existsSync(file.manifest)).toBe(false);
        },
      ),
      { numRuns: 15 },
    );
  });

  it('is replaced by a newer one of the same name, and both leave together', () => {
    const file = new Shared('{"a": 1}');
    for (const { by, event } of THINGS) file.add(file.wish(by, event));
    for (const { by, event } of THINGS.filter((one) => one.by === 'c2c')) {
      expect(typeof file.add(file.wish(by, event, 2))).toBe('object');
      expect(file.add(file.wish(by, event, 2))).toBe('there');
    }
    expect(file.now?.match(/"version": ?2/g)).toHaveLength(3);
    expect(file.now?.match(/"version": ?1/g)).toHaveLength(6);
    for (const { by, event } of THINGS) file.undo(file.wish(by, event));
    expect(file.now).toBe('{"a": 1}');
  });

  it('leaves with a newer one of the same name what others wrote to a file that we made', () => {
    const file = new Shared(null);
    file.add(file.wish('c2c', null));
    writeFileSync(file.path, JSON.stringify({ theirs: 1, ...(JSON.parse(file.now ?? '') as object) }, null, 2));
    file.add(file.wish('c2c', null, 2));
    expect(file.undo(file.wish('c2c', null, 2))).toEqual({ outcome: 'removed' });
    expect(JSON.parse(file.now ?? '')).toEqual({ theirs: 1 });
  });

  it('is left to whoever changed it, also when we have a newer one', () => {
    const file = new Shared('{}');
    file.add(file.wish('c2c', null));
    writeFileSync(file.path, (file.now ?? '').replace('"version": 1', '"version": 7'));
    expect(file.add(file.wish('c2c', null, 2))).toBe('theirs');
    expect(file.now).toContain('"version": 7');
  });

  it('may have been noted and never done: a crash in between hurts nobody', () => {
    const file = new Shared('{"a": 1}');
    file.add(file.wish('c2c', 'Stop'));
    const before = file.now ?? '';
    file.add(file.wish('parley', 'Stop'));
    // As it is found when the power went after the note and before the change.
    writeFileSync(file.path, before);
    expect(file.undo(file.wish('parley', 'Stop'))).toEqual({ outcome: 'gone' });
    expect(file.undo(file.wish('c2c', 'Stop'))).toEqual({ outcome: 'removed' });
    expect(file.now).toBe('{"a": 1}');
    expect(file.names).toEqual(['settings.json']);
  });

  it('can be taken back while it is being done, with notes, copies and folders', () => {
    const file = new Shared(null);
    const { names } = file;
    const before = readManifest(file.manifest);
    const changes = THINGS.map(({ by, event }) => file.add(file.wish(by, event))).filter(
      (one) => typeof one === 'object',
    );
    takeBack(changes, before, file.manifest);
    expect(file.names).toEqual(names);
  });
});
