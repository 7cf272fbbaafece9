import { describe, expect, it } from 'bun:test';
import fc from 'fast-check';
import { addToJson, hasMember, parseJsonc, readJson, removeFromJson, withMember } from './jsonc.ts';
import type { JsonAddition } from './jsonc.ts';
import { inserted, NotEditable, takenOut } from './text-edit.ts';

const MEMBER: JsonAddition = { at: ['m', 'k'], append: false, value: { c: 1 } };
const ELEMENT: JsonAddition = { at: ['h', 'E'], append: true, value: { c: 1 } };

function added(text: string, spot: JsonAddition): string {
  return inserted(text, addToJson(text, spot).insertions);
}

function removed(text: string, spot: JsonAddition, made: number): string {
  const result = removeFromJson(text, { ...spot, made });
  return typeof result === 'string' ? result : result.text;
}

describe('reading JSON as people write it', () => {
  it.each<[name: string, text: string, value: unknown]>([
    ['comments around and inside', '// { "a": 1 }\n/* { */ {"a": 2 /* "}" */} // end', { a: 2 }],
    [
      'strings that look like comments',
      '{ "a": "// no", "b": "/* no */", "c": ",}" }',
      { a: '// no', b: '/* no */', c: ',}' },
    ],
    ['trailing commas', '{ "a": [1, 2, /* x */], // y\n }', { a: [1, 2] }],
    ['a byte order mark', '\ufeff{ "a": 1 }', { a: 1 }],
    ['every kind of scalar', '[null, true, false, -1.5e3, "\\u00e9\\"", ""]', [null, true, false, -1500, 'é"', '']],
    ['a key that is no ordinary property', '{ "__proto__": { "a": 1 } }', JSON.parse('{ "__proto__": { "a": 1 } }')],
  ])('allows %s', (_name, text, value) => {
    expect(readJson(text)).toEqual(value);
  });

  it.each([
    '',
    ' ',
    '{',
    '{,}',
    '[,]',
    '{"a":1,,}',
    '{"a":,}',
    '{"a" 1}',
    '{a: 1}',
    '{/*}',
    '{"a": "x\n"}',
    '{} {}',
    '{"a": 01}',
    "{'a': 1}",
    '{"a": 1}\u00a0',
    '{"a": "\t"}',
  ])('refuses %p', (text) => {
    expect(() => readJson(text)).toThrow(NotEditable);
  });

  it('agrees with JSON.parse on everything that is JSON', () => {
    fc.assert(
      fc.property(fc.json(), fc.constantFrom(undefined, 2, '\t'), (text, indent) => {
        const value: unknown = JSON.parse(text);
        expect(readJson(JSON.stringify(value, null, indent))).toEqual(value);
      }),
    );
  });
});

describe('adding a value', () => {
  it.each<[name: string, text: string, spot: JsonAddition, after: string]>([
    ['makes what is not there', '{}\n', MEMBER, '{\n  "m": {\n    "k": {\n      "c": 1\n    }\n  }\n}\n'],
    ['keeps to one line where one line is used', '{"m": {"x": 1}}', MEMBER, '{"m": {"x": 1, "k": {"c":1}}}'],
    [
      'stands below the last comment',
      '{\n  "m": {\n    "x": 1 // one\n    // end\n  }\n}',
      MEMBER,
      '{\n  "m": {\n    "x": 1, // one\n    // end\n    "k": {\n      "c": 1\n    }\n  }\n}',
    ],
    [
      'keeps tabs',
      '{\n\t"m": {\n\t\t"x": 1\n\t}\n}',
      MEMBER,
      '{\n\t"m": {\n\t\t"x": 1,\n\t\t"k": {\n\t\t\t"c": 1\n\t\t}\n\t}\n}',
    ],
    [
      'keeps Windows line ends',
      '{\r\n    "a": 1\r\n}\r\n',
      { ...MEMBER, at: ['k'] },
      '{\r\n    "a": 1,\r\n    "k": {\r\n        "c": 1\r\n    }\r\n}\r\n',
    ],
    ['keeps trailing commas', '{\n  "a": 1,\n}', { ...MEMBER, at: ['k'], value: 2 }, '{\n  "a": 1,\n  "k": 2,\n}'],
    ['keeps a byte order mark', '\ufeff{}', { ...MEMBER, at: ['k'], value: 2 }, '\ufeff{\n  "k": 2\n}'],
    ['appends after the elements of others', '{"h": {"E": [1]}}', ELEMENT, '{"h": {"E": [1, {"c":1}]}}'],
    [
      'fills an empty array',
      '{\n  "h": {\n    "E": []\n  }\n}',
      { ...ELEMENT, value: 7 },
      '{\n  "h": {\n    "E": [\n      7\n    ]\n  }\n}',
    ],
    [
      'makes the array',
      '{\n  "h": {\n    "S": [1]\n  }\n}',
      { ...ELEMENT, value: 7 },
      '{\n  "h": {\n    "S": [1],\n    "E": [\n      7\n    ]\n  }\n}',
    ],
  ])('%s', (_name, text, spot, after) => {
    expect(added(text, spot)).toBe(after);
  });

  it.each<[name: string, text: string, spot: JsonAddition]>([
    ['the top is no object', '[]', MEMBER],
    ['a container is something else', '{"m": null}', MEMBER],
    ['the array is an object', '{"h": {"E": {}}}', ELEMENT],
    ['the text cannot be read', '{"m": {', MEMBER],
  ])('is refused where %s', (_name, text, spot) => {
    expect(() => addToJson(text, spot)).toThrow(NotEditable);
  });

  it('finds a member however it is written', () => {
    expect(hasMember('{ "m" /* c */ : { // d\n "\\u006b": null } }', ['m', 'k'])).toBe(true);
    expect(hasMember('{ "m": { "x": "k" } } // "k": 1', ['m', 'k'])).toBe(false);
  });
});

describe('removing a value from a text that others have changed', () => {
  it.each<[name: string, text: string, spot: JsonAddition, made: number, after: string]>([
    ['takes what was made around it', '{\n  "a": 1,\n  "m": {\n    "k": {"c": 1}\n  }\n}', MEMBER, 1, '{\n  "a": 1\n}'],
    ['leaves what others have put beside it', '{"m": {"k": {"c": 1}, "z": 2}}', MEMBER, 1, '{"m": { "z": 2}}'],
    ['leaves a container that was there before', '{"m": {"k": {"c": 1}}}', MEMBER, 0, '{"m": {}}'],
    ['leaves comments', '{"m": { // mine\n  "k": {"c": 1} // too\n}}', MEMBER, 1, '{"m": { // mine\n   // too\n}}'],
    ['takes one of the elements', '{"h": {"E": [1, {"c": 1}, 2]}}', ELEMENT, 2, '{"h": {"E": [1, 2]}}'],
    ['says that it is gone', '{"h": {"E": [1]}}', ELEMENT, 0, 'gone'],
    ['says that it was changed', '{"m": {"k": {"c": 2}}}', MEMBER, 0, 'changed'],
    [
      'does not draw code into a comment',
      '{ "a": 1, // x\n"m": 5 }',
      { at: ['m'], append: false, value: 5 },
      0,
      '{ "a": 1 // x\n }',
    ],
  ])('%s', (_name, text, spot, made, after) => {
    expect(removed(text, spot, made)).toBe(after);
  });
});

/** Texts as people and editors leave them: comments, odd blanks, trailing commas, either line end, perhaps a byte order mark. */
const blank = fc.constantFrom(
  '',
  ' ',
  '\n',
  '\n  ',
  '\r\n\t',
  ' // c1 {"k": 9}\n',
  '/* c2 "k" , } */',
  '  /* c2 */\n    ',
);
const key = fc.constantFrom('m', 'h', 'k', 'E', 'a', 'with "quotes"', 'é', '//', '__proto__');
const { tree: jsonc } = fc.letrec<{ tree: string; object: string; array: string }>((tie) => ({
  tree: fc.oneof(
    { maxDepth: 4, depthSize: 'medium' },
    fc.jsonValue({ maxDepth: 1 }).map((one) => JSON.stringify(one)),
    tie('object'),
    tie('array'),
  ),
  object: fc
    .tuple(
      fc.uniqueArray(fc.tuple(blank, key, blank, blank, tie('tree'), blank), {
        selector: ([, name]) => name,
        maxLength: 4,
      }),
      fc.boolean(),
      blank,
    )
    .map(([list, comma, inside]) => {
      const written = list.map(([a, name, b, c, value, d]) => `${a}${JSON.stringify(name)}${b}:${c}${value}${d}`);
      return `{${written.join(',')}${comma && list.length > 0 ? ',' : ''}${inside}}`;
    }),
  array: fc
    .tuple(fc.array(fc.tuple(blank, tie('tree'), blank), { maxLength: 3 }), fc.boolean(), blank)
    .map(
      ([list, comma, inside]) =>
        `[${list.map((parts) => parts.join('')).join(',')}${comma && list.length > 0 ? ',' : ''}${inside}]`,
    ),
}));
/** Mostly with the containers that we add to, so that something can be added. */
const settings = fc
  .tuple(
    fc.constantFrom('', '\ufeff'),
    blank,
    jsonc,
    fc.constantFrom('{}', '{ "E": [] }', '{\n "E": [ 1, // c1\n ] }'),
    blank,
    fc.nat(2),
  )
  .map(([bom, before, tree, inner, after, form]) =>
    form === 0
      ? `${bom}${before}${tree}${after}`
      : `${bom}${before}{ "a": ${tree}, "h": ${inner}${form === 1 ? ',' : ''} }${after}`,
  );
const value = fc.jsonValue({ maxDepth: 2 }).map((one): unknown => JSON.parse(JSON.stringify(one)));
const spot = fc.tuple(fc.constantFrom([MEMBER.at, false] as const, [ELEMENT.at, true] as const), value);

describe('whatever the text looks like', () => {
  it('an addition reads back as intended, and removing it gives the same text', () => {
    let additions = 0;
    fc.assert(
      fc.property(settings, spot, (text, [[at, append], what]) => {
        if (!canTake(text, at, append)) return;
        const { insertions, made } = addToJson(text, { at, append, value: what });
        const after = inserted(text, insertions);
        expect(valueAt(after, at, append)).toEqual(what);
        expect(takenOut(after, insertions)).toBe(text);
        const again = removeFromJson(after, { at, append, value: what, made });
        if (typeof again === 'object') expect(readJson(again.text)).toEqual(readJson(text));
        expect(typeof again).toBe('object');
        additions += 1;
      }),
      { numRuns: 1000 },
    );
    expect(additions).toBeGreaterThan(250);
  });

  it('an addition can be removed after another program has rewritten the file', () => {
    fc.assert(
      fc.property(settings, spot, fc.constantFrom(undefined, 2, '\t'), (text, [[at, append], what], indent) => {
        if (!canTake(text, at, append)) return;
        const { insertions, made } = addToJson(text, { at, append, value: what });
        const rewritten = JSON.stringify(readJson(inserted(text, insertions)), null, indent);
        const result = removeFromJson(rewritten, { at, append, value: what, made });
        const before = JSON.stringify(readJson(text), null, indent);
        expect(result).toEqual({ text: before });
      }),
      { numRuns: 500 },
    );
  });
});

function canTake(text: string, at: readonly string[], append: boolean): boolean {
  if (!append && hasMember(text, at)) return false;
  try {
    addToJson(text, { at, append, value: 0 });
    return true;
  } catch (error) {
    if (error instanceof NotEditable && error.message.startsWith('has no ')) return false;
    throw error;
  }
}

function valueAt(text: string, at: readonly string[], append: boolean): unknown {
  const found = at.reduce<unknown>((inner, name) => (inner as Record<string, unknown>)[name], readJson(text));
  return append ? (found as unknown[]).at(-1) : found;
}

describe('a configuration text', () => {
  it.each<[name: string, text: string, value: unknown]>([
    ['comments before the first brace', '// mine { "a": 1 }\n/* { */ {"a": 2} // end', { a: 2 }],
    ['comments that hold quotes and braces', '{ // "a": "}\n "b": 1 /* "c": 2 */ }', { b: 1 }],
    [
      'strings that look like comments',
      '{ "a": "// no", "b": "/* no */", "c": ",}" }',
      { a: '// no', b: '/* no */', c: ',}' },
    ],
    ['trailing commas', '{ "a": [1, 2, /* x */], // y\n }', { a: [1, 2] }],
    ['a byte order mark', '\ufeff{ "a": 1 }', { a: 1 }],
    ['Windows line ends', '{\r\n  // a\r\n  "a": 1\r\n}\r\n', { a: 1 }],
  ])('may hold %s', (_name, text, value) => {
    expect(parseJsonc(text)).toEqual(value);
  });

  it.each(['', '{,}', '[,]', '{"a":1,,}', '{"a":,}', '{"a" 1}', '{/*}', '{"a": "x\n"}'])(
    'is refused if it is wrong: %p',
    (text) => {
      expect(() => parseJsonc(text)).toThrow(SyntaxError);
    },
  );
});

describe('changing one member', () => {
  it.each<[name: string, text: string, key: string, value: unknown, after: string]>([
    ['sets it in an empty object', '{}', 'k', 1, '{\n  "k": 1\n}'],
    [
      'sets it in an object that holds a comment only',
      '{\n  // none yet\n}\n',
      'k',
      1,
      '{\n  // none yet\n  "k": 1\n}\n',
    ],
    [
      'adds it last, below the comments',
      '{\n  "a": 1 // one\n  // end\n}\n',
      'k',
      'v',
      '{\n  "a": 1, // one\n  // end\n  "k": "v"\n}\n',
    ],
    ['keeps a trailing comma', '{\n    "a": 1,\n}', 'k', 2, '{\n    "a": 1,\n    "k": 2,\n}'],
    ['adds it on one line', '{ "a": 1 }', 'k', 2, '{ "a": 1, "k": 2 }'],
    [
      'replaces a value in place',
      '{ "k": /* was */ "x" /* y */, "b": 2 }',
      'k',
      'z',
      '{ "k": /* was */ "z" /* y */, "b": 2 }',
    ],
    [
      'leaves the same words in comments and strings alone',
      '// "k": 1\n{ "a": "\\"k\\": 1", "k": 1 }',
      'k',
      2,
      '// "k": 1\n{ "a": "\\"k\\": 1", "k": 2 }',
    ],
    ['leaves members of inner objects alone', '{ "in": { "k": 1 } }', 'k', 2, '{ "in": { "k": 1 }, "k": 2 }'],
    ['keeps Windows line ends', '{\r\n  "a": 1\r\n}\r\n', 'k', 2, '{\r\n  "a": 1,\r\n  "k": 2\r\n}\r\n'],
    ['removes a line', '{\n  "k": 1,\n  "b": 2\n}', 'k', undefined, '{\n  "b": 2\n}'],
    [
      'removes the last one with the comma before it',
      '{\n  "a": 1, // one\n  "k": 2\n}',
      'k',
      undefined,
      '{\n  "a": 1 // one\n}',
    ],
    ['removes the only one', '{\n  "k": 2\n}', 'k', undefined, '{}'],
    [
      'keeps the comment beside what it removes',
      '{\n  "k": 2 /* why */, // because\n  "b": 1\n}',
      'k',
      undefined,
      '{\n   /* why */ // because\n  "b": 1\n}',
    ],
    ['removes nothing that is not there', '{ "a": 1 }', 'k', undefined, '{ "a": 1 }'],
  ])('%s', (_name, text, key, value, after) => {
    expect(withMember(text, key, value)).toBe(after);
  });

  it.each([3, undefined])('is refused where the key stands twice: %p', (value) => {
    expect(() => withMember('{ "k": 1, "k": 2 }', 'k', value)).toThrow(NotEditable);
  });

  it('is refused if the text is not an object', () => {
    expect(() => withMember('[1]', 'k', 3)).toThrow(NotEditable);
  });

  it('always reads back as intended and never loses a comment', () => {
    const blank = fc.constantFrom('', ' ', '\n', '\n  ', ' // c1 {"k": 9}\n', '/* c2 "k" , } */', '\r\n\t');
    const key = fc.constantFrom('a', 'b', 'k', 'with "quotes"', 'é', '//');
    // JSON has no -0.
    const values = fc.jsonValue({ maxDepth: 1 }).map((value): unknown => JSON.parse(JSON.stringify(value)));
    const member = fc.tuple(blank, key, blank, blank, fc.jsonValue({ maxDepth: 2 }), blank);
    const members = fc.uniqueArray(member, { selector: ([, name]) => name, maxLength: 5 });
    const text = fc.tuple(blank, members, fc.boolean(), blank, blank).map(([before, list, comma, inside, after]) => {
      const written = list.map(
        ([a, name, b, c, value, d]) => `${a}${JSON.stringify(name)}${b}:${c}${JSON.stringify(value)}${d}`,
      );
      return `${before}{${written.join(',')}${comma && list.length > 0 ? ',' : ''}${inside}}${after}`;
    });
    fc.assert(
      fc.property(text, key, fc.option(values, { nil: undefined }), (source, name, value) => {
        const after = withMember(source, name, value);
        const { [name]: _old, ...rest } = parseJsonc(source) as Record<string, unknown>;
        expect(parseJsonc(after)).toEqual(value === undefined ? rest : { ...rest, [name]: value });
        // A comment between a key and its value goes with them.
        if (value !== undefined) expect(commentsIn(after)).toBe(commentsIn(source));
      }),
      { numRuns: 500 },
    );
  });
});

function commentsIn(text: string): number {
  return [...text.matchAll(/"(?:\\.|[^"\\])*"|\/\/ c1|\/\* c2/g)].filter(([part]) => part.startsWith('/')).length;
}
