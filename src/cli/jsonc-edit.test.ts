import { describe, expect, it } from 'bun:test';
import fc from 'fast-check';
import { NotEditable } from '../clients/settings/not-editable.ts';
import { withMember } from './jsonc-edit.ts';
import { parseJsonc } from './jsonc.ts';

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

  it('is refused where the text is no object', () => {
    expect(() => withMember('[1]', 'k', 3)).toThrow(NotEditable);
  });

  it('always reads back as meant and never loses a comment', () => {
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
