import { describe, expect, it } from 'bun:test';
import fc from 'fast-check';
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { applyChange, changeFor, rollBack, undo } from './changes.ts';
import type { Addition, Change } from './changes.ts';
import { find } from './file.ts';
import { Installer } from './installer.ts';
import { hasMember, readJson } from './jsonc.ts';
import { readManifest } from './manifest.ts';

/** A folder with a settings file of another program, and our addition for it. */
class Settings {
  readonly folder = temporaryHome();
  readonly path = `${this.folder}/settings.json`;
  readonly manifest = `${this.folder}/ours/setup.json`;

  constructor(text?: string | Uint8Array) {
    if (text !== undefined) writeFileSync(this.path, text);
  }

  get addition(): Addition {
    const at = ['servers', 'mail'];
    const content = { format: 'json', at, append: false, value: { command: 'parley' } } as const;
    return {
      by: 'parley',
      path: this.path,
      owner: 'client',
      what: 'server',
      content: { ...content, at },
      isThere: (text) => hasMember(text, at),
    };
  }

  get change() {
    return changeFor(this.addition, this.manifest);
  }

  add(): this {
    const { change } = this;
    if (typeof change === 'object') applyChange(change, this.manifest);
    return this;
  }

  undo() {
    const [noted] = readManifest(this.manifest).noted;
    if (!noted) throw new Error('nothing was noted');
    return undo(noted, this.manifest);
  }

  get text(): string {
    return readFileSync(this.path, 'utf8');
  }
}

describe('a settings file of another program', () => {
  it('keeps its mode, and is copied beside itself at the first change', () => {
    const settings = new Settings('{"a": 1}');
    chmodSync(settings.path, 0o640);
    settings.add();
    expect(JSON.parse(settings.text)).toEqual({ a: 1, servers: { mail: { command: 'parley' } } });
    expect(statSync(settings.path).mode & 0o777).toBe(0o640);
    expect(statSync(`${settings.path}.before-parley`).mode & 0o777).toBe(0o640);
    expect(readFileSync(`${settings.path}.before-parley`, 'utf8')).toBe('{"a": 1}');
    expect(readdirSync(settings.folder).sort()).toEqual(['ours', 'settings.json', 'settings.json.before-parley']);
  });

  it('is restored by an undo, and nothing else is left', () => {
    const settings = new Settings('{"a": 1}').add();
    expect(settings.undo()).toEqual({ outcome: 'removed' });
    expect(settings.text).toBe('{"a": 1}');
    expect(readdirSync(settings.folder)).toEqual(['settings.json']);
  });

  it('keeps a copy that somebody made before', () => {
    const settings = new Settings('{}');
    writeFileSync(`${settings.path}.before-parley`, 'older');
    settings.add().undo();
    expect(readFileSync(`${settings.path}.before-parley`, 'utf8')).toBe('older');
  });

  it('may be a link: the file behind it is changed, and the link stays', () => {
    const settings = new Settings();
    mkdirSync(`${settings.folder}/dotfiles`);
    writeFileSync(`${settings.folder}/dotfiles/real.json`, '{}');
    symlinkSync('dotfiles/real.json', settings.path);
    settings.add();
    expect(readlinkSync(settings.path)).toBe('dotfiles/real.json');
    expect(readFileSync(`${settings.folder}/dotfiles/real.json`, 'utf8')).toContain('parley');
    expect(existsSync(`${settings.folder}/dotfiles/real.json.before-parley`)).toBe(true);
    settings.undo();
    expect(lstatSync(settings.path).isSymbolicLink()).toBe(true);
    expect(readFileSync(`${settings.folder}/dotfiles/real.json`, 'utf8')).toBe('{}');
    expect(readdirSync(`${settings.folder}/dotfiles`)).toEqual(['real.json']);
  });

  it('is created if it is missing, and removed again', () => {
    const settings = new Settings().add();
    expect(settings.text).toBe('{\n  "servers": {\n    "mail": {\n      "command": "parley"\n    }\n  }\n}\n');
    expect(statSync(settings.path).mode & 0o777).toBe(0o600);
    settings.undo();
    expect(readdirSync(settings.folder)).toEqual([]);
  });

  it.each<[name: string, text: string | Uint8Array, why: string]>([
    ['cannot be parsed', '{"a": ', 'is not valid JSON'],
    ['is empty', '', 'is not valid JSON'],
    ['is no UTF-8', new Uint8Array([0x7b, 0xff, 0x7d]), 'is not UTF-8 text'],
  ])('is left alone if it %s', (_name, text, why) => {
    const settings = new Settings(text);
    expect(() => settings.add()).toThrow(why);
    expect(readFileSync(settings.path)).toEqual(Buffer.from(text));
    expect(readdirSync(settings.folder)).toEqual(['settings.json']);
  });

  it('is left alone if it is a folder, or a link that leads nowhere', () => {
    const folder = new Settings();
    mkdirSync(folder.path);
    expect(() => folder.add()).toThrow('is not a file');
    const link = new Settings();
    symlinkSync('nowhere.json', link.path);
    expect(() => link.add()).toThrow('is a link that leads nowhere');
  });

  it('is not overwritten if another program changed it while we edited', () => {
    const settings = new Settings('{}');
    const { change } = settings;
    writeFileSync(settings.path, '{"theirs": 1}');
    expect(() => typeof change === 'object' && applyChange(change, settings.manifest)).toThrow(
      'was changed by another program meanwhile',
    );
    expect(settings.text).toBe('{"theirs": 1}');
    expect(existsSync(settings.manifest)).toBe(false);
  });

  it('is not overwritten if another program created it while we edited', () => {
    const settings = new Settings();
    const { change } = settings;
    writeFileSync(settings.path, '{"theirs": 1}');
    expect(() => typeof change === 'object' && applyChange(change, settings.manifest)).toThrow(
      'was created by another program meanwhile',
    );
    expect(settings.text).toBe('{"theirs": 1}');
    expect(readdirSync(settings.folder)).toEqual(['settings.json']);
  });
});

describe('a settings file that its program writes while we edit it', () => {
  it('gets our addition, and keeps the changes of its program', () => {
    const settings = new Settings('{}');
    const { addition } = settings;
    let writes = 3;
    const isThere = (text: string): boolean => {
      if (writes > 0) writeFileSync(settings.path, `{"theirs": ${(writes -= 1)}}`);
      return addition.isThere(text);
    };
    const [applied] = new Installer(settings.folder, 'again').apply([{ ...addition, isThere }], false);
    expect(applied?.outcome).toBe('added');
    expect(JSON.parse(settings.text)).toEqual({ theirs: 0, servers: { mail: { command: 'parley' } } });
  });

  it('loses only our addition, however often it is written', () => {
    const settings = new Settings('{}');
    const installer = new Installer(settings.folder, 'again');
    installer.apply([settings.addition], false);
    const [one] = installer.recorded();
    if (!one) throw new Error('nothing was recorded');
    let writes = 3;
    const read = (path: string) => {
      const found = find(path);
      if (writes > 0) writeFileSync(path, JSON.stringify({ ...JSON.parse(settings.text), theirs: (writes -= 1) }));
      return found;
    };
    expect(installer.removeOne(one, false, read).outcome).toBe('removed');
    expect(JSON.parse(settings.text)).toEqual({ theirs: 0 });
  });
});

describe('a later change of another program', () => {
  it('stays when our addition is removed, and the copy stays, too', () => {
    const settings = new Settings('{"a": 1}').add();
    writeFileSync(settings.path, JSON.stringify({ ...JSON.parse(settings.text), b: 2 }, null, 2));
    expect(settings.undo()).toEqual({ outcome: 'removed', kept: `${settings.path}.before-parley` });
    expect(settings.text).toBe('{\n  "a": 1,\n  "b": 2\n}');
    expect(existsSync(settings.manifest)).toBe(false);
  });

  it('stays even in a file that we created', () => {
    const settings = new Settings().add();
    writeFileSync(settings.path, settings.text.replace('{\n', '{\n  "theirs": 1,\n'));
    expect(settings.undo()).toEqual({ outcome: 'removed' });
    expect(settings.text).toBe('{\n  "theirs": 1\n}\n');
  });

  it('stays if it changed our addition', () => {
    const settings = new Settings('{}').add();
    const theirs = settings.text.replace('parley', 'their own');
    writeFileSync(settings.path, theirs);
    expect(settings.undo()).toMatchObject({ outcome: 'changed' });
    expect(settings.text).toBe(theirs);
  });

  it('may have removed our addition, or the whole file', () => {
    const settings = new Settings('{"a": 1}').add();
    writeFileSync(settings.path, '{"a": 1}');
    expect(settings.undo()).toEqual({ outcome: 'gone' });
    expect(readdirSync(settings.folder)).toEqual(['settings.json']);
  });

  it('is not treated as ours without a record', () => {
    const settings = new Settings('{"servers": {"mail": {"command": "parley"}}}');
    expect(settings.change).toBe('theirs');
    expect(existsSync(settings.manifest)).toBe(false);
  });
});

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

  addition(by: string, event: string | null, version = 1): Addition {
    const at = event === null ? ['servers', by] : ['hooks', event];
    const value = event === null ? { command: by, version } : { hooks: [{ command: `${by} ${event}`, version }] };
    const isThere = (text: string): boolean =>
      event === null ? hasMember(text, at) : JSON.stringify(readJson(text)).includes(`${by} ${event}`);
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

  add(addition: Addition): Change | string {
    const change = changeFor(addition, this.manifest);
    if (typeof change === 'object') applyChange(change, this.manifest);
    return change;
  }

  undo(addition: Addition) {
    const noted = readManifest(this.manifest).noted.find((one) => one.by === addition.by && one.what === addition.what);
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

describe('several additions of ours in one file', () => {
  it('can be removed in any order, and the original bytes are left', () => {
    const plan = fc.record({
      text: fc.constantFrom(...TEXTS),
      added: fc.shuffledSubarray(THINGS, { minLength: 1 }),
      seed: fc.integer(),
    });
    fc.assert(
      fc.property(plan, ({ text, added, seed }) => {
        const file = new Shared(text);
        const { names } = file;
        for (const { by, event } of added) file.add(file.addition(by, event));
        const order = added
          .map((one, at) => ({ one, key: Bun.hash(`${seed}.${at}`) }))
          .sort((a, b) => (a.key < b.key ? -1 : 1));
        for (const { one } of order)
          expect(file.undo(file.addition(one.by, one.event))).toEqual({ outcome: 'removed' });
        expect(file.now).toBe(text);
        expect(file.names).toEqual(names);
      }),
      { numRuns: 25 },
    );
  });

  it('are, after one was removed, as if that one had never been there', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...TEXTS),
        fc.shuffledSubarray(THINGS, { minLength: 2 }),
        fc.nat(),
        (text, added, nat) => {
          const gone = nat % added.length;
          const [file, never] = [new Shared(text), new Shared(text)];
          for (const { by, event } of added) file.add(file.addition(by, event));
          for (const { by, event } of added.toSpliced(gone, 1)) never.add(never.addition(by, event));
          const { by = '', event = null } = added[gone] ?? {};
          file.undo(file.addition(by, event));
          expect(file.now).toBe(never.now);
        },
      ),
      { numRuns: 20 },
    );
  });

  it('can be removed one by one, with their containers, after another program has rewritten the file', () => {
    fc.assert(
      fc.property(
        fc.shuffledSubarray(THINGS, { minLength: 1 }),
        fc.shuffledSubarray(THINGS, { minLength: 9 }),
        (added, order) => {
          const file = new Shared('{"a": 1}');
          for (const { by, event } of added) file.add(file.addition(by, event));
          const values = JSON.parse(file.now ?? '') as Record<string, unknown>;
          writeFileSync(file.path, JSON.stringify({ b: 2, ...values }, null, 4));
          for (const { by, event } of order.filter((one) => added.includes(one))) file.undo(file.addition(by, event));
          expect(JSON.parse(file.now ?? '')).toEqual({ b: 2, a: 1 });
          expect(existsSync(file.manifest)).toBe(false);
        },
      ),
      { numRuns: 15 },
    );
  });

  it('are replaced by newer ones of the same name, and both are removed together', () => {
    const file = new Shared('{"a": 1}');
    for (const { by, event } of THINGS) file.add(file.addition(by, event));
    for (const { by, event } of THINGS.filter((one) => one.by === 'c2c')) {
      expect(typeof file.add(file.addition(by, event, 2))).toBe('object');
      expect(file.add(file.addition(by, event, 2))).toBe('there');
    }
    expect(file.now?.match(/"version": ?2/g)).toHaveLength(3);
    expect(file.now?.match(/"version": ?1/g)).toHaveLength(6);
    for (const { by, event } of THINGS) file.undo(file.addition(by, event));
    expect(file.now).toBe('{"a": 1}');
  });

  it('leave, when a newer one is removed, what others wrote to a file that we created', () => {
    const file = new Shared(null);
    file.add(file.addition('c2c', null));
    writeFileSync(file.path, JSON.stringify({ theirs: 1, ...(JSON.parse(file.now ?? '') as object) }, null, 2));
    file.add(file.addition('c2c', null, 2));
    expect(file.undo(file.addition('c2c', null, 2))).toEqual({ outcome: 'removed' });
    expect(JSON.parse(file.now ?? '')).toEqual({ theirs: 1 });
  });

  it('stay as others changed them, even when we have a newer one', () => {
    const file = new Shared('{}');
    file.add(file.addition('c2c', null));
    writeFileSync(file.path, (file.now ?? '').replace('"version": 1', '"version": 7'));
    expect(file.add(file.addition('c2c', null, 2))).toBe('theirs');
    expect(file.now).toContain('"version": 7');
  });

  it('may be recorded and not made: a crash in between does no harm', () => {
    const file = new Shared('{"a": 1}');
    file.add(file.addition('c2c', 'Stop'));
    const before = file.now ?? '';
    file.add(file.addition('parley', 'Stop'));
    // The state after a power cut between the record and the change.
    writeFileSync(file.path, before);
    expect(file.undo(file.addition('parley', 'Stop'))).toEqual({ outcome: 'gone' });
    expect(file.undo(file.addition('c2c', 'Stop'))).toEqual({ outcome: 'removed' });
    expect(file.now).toBe('{"a": 1}');
    expect(file.names).toEqual(['settings.json']);
  });

  it('can be rolled back half-way, with records, copies and folders', () => {
    const file = new Shared(null);
    const { names } = file;
    const before = readManifest(file.manifest);
    const changes = THINGS.map(({ by, event }) => file.add(file.addition(by, event))).filter(
      (one) => typeof one === 'object',
    );
    rollBack(changes, before, file.manifest);
    expect(file.names).toEqual(names);
  });
});
