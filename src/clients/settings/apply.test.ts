import { describe, expect, it } from 'bun:test';
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
import { carryOut, changeFor, undo } from './apply.ts';
import type { Wish } from './apply.ts';
import { hasMember } from './jsonc-edit.ts';
import { readManifest } from './manifest.ts';

/** A folder with a settings file of another program, and our wish for it. */
class Settings {
  readonly folder = temporaryHome();
  readonly path = `${this.folder}/settings.json`;
  readonly manifest = `${this.folder}/ours/setup.json`;

  constructor(text?: string | Uint8Array) {
    if (text !== undefined) writeFileSync(this.path, text);
  }

  get wish(): Wish {
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
    return changeFor(this.wish, this.manifest);
  }

  add(): this {
    const { change } = this;
    if (typeof change === 'object') carryOut(change, this.manifest);
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
  it('keeps its mode, and a copy of it stands beside it the first time', () => {
    const settings = new Settings('{"a": 1}');
    chmodSync(settings.path, 0o640);
    settings.add();
    expect(JSON.parse(settings.text)).toEqual({ a: 1, servers: { mail: { command: 'parley' } } });
    expect(statSync(settings.path).mode & 0o777).toBe(0o640);
    expect(statSync(`${settings.path}.before-parley`).mode & 0o777).toBe(0o640);
    expect(readFileSync(`${settings.path}.before-parley`, 'utf8')).toBe('{"a": 1}');
    expect(readdirSync(settings.folder).sort()).toEqual(['ours', 'settings.json', 'settings.json.before-parley']);
  });

  it('is given back as it was, and nothing else is left', () => {
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

  it('may be a link: what it leads to is changed, and the link stays', () => {
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

  it('is made if it is not there, and goes again', () => {
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

  it('is not overwritten if somebody changed it while we edited', () => {
    const settings = new Settings('{}');
    const { change } = settings;
    writeFileSync(settings.path, '{"theirs": 1}');
    expect(() => typeof change === 'object' && carryOut(change, settings.manifest)).toThrow(
      'was changed by another program meanwhile',
    );
    expect(settings.text).toBe('{"theirs": 1}');
    expect(existsSync(settings.manifest)).toBe(false);
  });

  it('is not overwritten if somebody made it while we edited', () => {
    const settings = new Settings();
    const { change } = settings;
    writeFileSync(settings.path, '{"theirs": 1}');
    expect(() => typeof change === 'object' && carryOut(change, settings.manifest)).toThrow(
      'was made by another program meanwhile',
    );
    expect(settings.text).toBe('{"theirs": 1}');
    expect(readdirSync(settings.folder)).toEqual(['settings.json']);
  });
});

describe('what others did since', () => {
  it('stays when ours is taken out, and the copy stays too', () => {
    const settings = new Settings('{"a": 1}').add();
    writeFileSync(settings.path, JSON.stringify({ ...JSON.parse(settings.text), b: 2 }, null, 2));
    expect(settings.undo()).toEqual({ outcome: 'removed', kept: `${settings.path}.before-parley` });
    expect(settings.text).toBe('{\n  "a": 1,\n  "b": 2\n}');
    expect(existsSync(settings.manifest)).toBe(false);
  });

  it('stays even in a file that we made', () => {
    const settings = new Settings().add();
    writeFileSync(settings.path, settings.text.replace('{\n', '{\n  "theirs": 1,\n'));
    expect(settings.undo()).toEqual({ outcome: 'removed' });
    expect(settings.text).toBe('{\n  "theirs": 1\n}\n');
  });

  it('stays if it was done to what is ours', () => {
    const settings = new Settings('{}').add();
    const theirs = settings.text.replace('parley', 'their own');
    writeFileSync(settings.path, theirs);
    expect(settings.undo()).toMatchObject({ outcome: 'changed' });
    expect(settings.text).toBe(theirs);
  });

  it('may be that they removed it, or the whole file', () => {
    const settings = new Settings('{"a": 1}').add();
    writeFileSync(settings.path, '{"a": 1}');
    expect(settings.undo()).toEqual({ outcome: 'gone' });
    expect(readdirSync(settings.folder)).toEqual(['settings.json']);
  });

  it('lets nobody take for ours what is not noted', () => {
    const settings = new Settings('{"servers": {"mail": {"command": "parley"}}}');
    expect(settings.change).toBe('theirs');
    expect(existsSync(settings.manifest)).toBe(false);
  });
});
