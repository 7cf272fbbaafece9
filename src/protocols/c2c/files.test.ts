import { describe, expect, it } from 'bun:test';
import fc from 'fast-check';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { keepBroken, readList, replaceDurably, takeRepairs } from './files.ts';
import { listIn } from './json-list.ts';

const read = (text: string | Uint8Array) => listIn(Buffer.from(text as string));
const Blank = fc.constantFrom('', ' ', '\n', '\r\n', '\t ', '  \n');

describe('a list of the broker', () => {
  it('is read whole, however it is laid out', () => {
    const array = fc.array(fc.jsonValue());
    fc.assert(
      fc.property(array, Blank, Blank, fc.nat(4), (values, before, after, indent) => {
        const found = read(before + JSON.stringify(values, null, indent) + after);
        expect(found.broken).toBeUndefined();
        expect(JSON.stringify(found.values)).toBe(JSON.stringify(JSON.parse(JSON.stringify(values))));
        expect(`[${found.texts.join(',')}]`.length).toBeGreaterThan(1);
        expect(JSON.stringify(found.texts.map((text) => JSON.parse(text) as unknown))).toBe(
          JSON.stringify(found.values),
        );
      }),
    );
  });

  it('keeps the text of each element, to the last digit', () => {
    expect(read('[{"ts":1.0,"big":12345678901234567890}, 2.50]').texts).toEqual([
      '{"ts":1.0,"big":12345678901234567890}',
      '2.50',
    ]);
  });

  it('cut off anywhere, gives back every object that is whole, and says that it is broken', () => {
    const objects = fc.array(fc.record({ content: fc.string({ unit: 'binary' }), n: fc.nat() }), { minLength: 1 });
    fc.assert(
      fc.property(objects, fc.nat(), (values, at) => {
        const text = JSON.stringify(values);
        const cut = text.slice(0, 1 + (at % (text.length - 1)));
        const ends = values.map((_, n) => JSON.stringify(values.slice(0, n + 1)).length - 1);
        const whole = ends.filter((end) => end <= cut.length).length;
        const found = read(cut);
        expect(found.broken).toBeDefined();
        expect(found.values.slice(0, whole)).toEqual(values.slice(0, whole));
      }),
    );
  });

  it.each([
    ['nothing at all', '', []],
    ['an empty list', ' [ ] ', []],
    ['a mark of the encoding before it', '\uFEFF[{"a":1}]', [{ a: 1 }]],
  ])('with %s is not broken', (_what, text, values) => {
    expect([read(text).values, read(text).broken]).toEqual([values, undefined]);
  });

  it.each([
    ['an object in its place', '{"a":1}', [{ a: 1 }]],
    ['a comma too many', '[{"a":1},]', [{ a: 1 }]],
    ['no comma', '[{"a":1} {"b":2}]', [{ a: 1 }, { b: 2 }]],
    ['the rest of an older text behind it', '[{"a":1}]"},{"b":2}]', [{ a: 1 }, { b: 2 }]],
    ['a bracket too few', '[{"a":[1}, {"b":2}]', [{ b: 2 }]],
    ['no JSON at all', 'hello {', []],
    ['zeros after a power cut', '\0\0\0\0', []],
    ['only blanks', ' \n', []],
  ])('with %s gives what can be saved', (_what, text, values) => {
    expect(read(text).values).toEqual(values);
    expect(read(text).broken).toBeDefined();
  });

  it('with many elements that are no JSON gives all the others, and what is whole inside the bad ones', () => {
    const bad = Array.from({ length: 60 }, (_, n) => `{"n":${n},"score":NaN}`);
    const good = Array.from({ length: 5 }, (_, n) => ({ n, score: 1 }));
    const text = `[${[...bad, '{"x":NaN,"of":{"a":1}}', '7', ...good.map((one) => JSON.stringify(one))].join(', ')}]`;
    expect(read(text).values).toEqual([{ a: 1 }, 7, ...good]);
    expect(read(text).broken).toBeDefined();
  });

  it('that is not UTF-8 is known to be so', () => {
    expect(read(Uint8Array.from([0x5b, 0x22, 0xff, 0x22, 0x5d])).broken).toBe('it is not UTF-8');
  });

  it('that is made to cost the square of its size is given up, not worked through', () => {
    expect(read('[' + `{"`.repeat(500_000)).values).toEqual([]);
    expect(read('['.repeat(1_000_000)).values).toEqual([]);
  });

  it('is read at any size [C2C-5]', () => {
    const path = `${temporaryHome()}/registry.json`;
    const rows = Array.from({ length: 5000 }, (_, n) => ({ session_id: `s${n}`, alias: `a${n}` }));
    writeFileSync(path, JSON.stringify(rows));
    expect(statSync(path).size).toBeGreaterThan(64 * 1024);
    expect(readList(path).values).toEqual(rows);
  });

  it('that is no file is refused, and nothing waits for it or follows it', () => {
    const root = temporaryHome();
    writeFileSync(`${root}/target`, '[]');
    symlinkSync(`${root}/target`, `${root}/link`);
    Bun.spawnSync(['mkfifo', `${root}/pipe`]);
    mkdirSync(`${root}/folder`);
    for (const odd of ['link', 'pipe', 'folder'])
      expect(() => readList(`${root}/${odd}`)).toThrow('is not a plain file');
    expect(readList(`${root}/missing`)).toEqual({ values: [], texts: [] });
  });
});

describe('a state file', () => {
  it('is replaced whole, is its owner’s alone, and leaves nothing beside it', () => {
    const root = temporaryHome();
    const path = `${root}/x.json`;
    // What a dead process with our number left.
    writeFileSync(`${path}.tmp.${process.pid}`, 'half');
    replaceDurably(path, '[1]');
    replaceDurably(path, '[2]');
    expect(readFileSync(path, 'utf8')).toBe('[2]');
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(readdirSync(root)).toEqual(['x.json']);
  });

  it('that could not be written leaves the old one as it was', () => {
    const root = temporaryHome();
    mkdirSync(`${root}/folder`);
    writeFileSync(`${root}/folder/x`, '');
    expect(() => replaceDurably(`${root}/folder`, '[]')).toThrow();
    expect(readdirSync(root)).toEqual(['folder']);
  });

  it('that was broken is kept beside, and told once', () => {
    const root = temporaryHome();
    writeFileSync(`${root}/registry.json`, '[{"a":1},{"b"');
    const copy = keepBroken(root, `${root}/registry.json`, 'it is not a whole JSON array');
    expect(readFileSync(copy, 'utf8')).toBe('[{"a":1},{"b"');
    const told = { file: `${root}/registry.json`, copy, what: 'it is not a whole JSON array' };
    expect(takeRepairs(root)).toEqual([told]);
    expect(takeRepairs(root)).toEqual([]);
    expect(existsSync(copy)).toBe(true);
  });
});
