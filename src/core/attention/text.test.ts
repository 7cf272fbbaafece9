import * as fc from 'fast-check';
import { describe, expect, it } from 'bun:test';
import { mentionsIn } from './text.ts';

describe('mentions', () => {
  it.each([
    ['a name', '@bob look', ['bob']],
    ['several, each once, in order', '@bob and @al.ice, then @bob', ['bob', 'al.ice']],
    ['a name at the end of a sentence', 'ask @bob. Or @codex-1!', ['bob', 'codex-1']],
    ['a name in brackets or with a possessive', "(@bob) @carol's", ['bob', 'carol']],
    ['two names with a slash between', '@bob/@carol', ['bob', 'carol']],
    ['a name after a code block', '```\n@no\n```\n@yes', ['yes']],
    ['no e-mail address', 'bob@example.com', []],
    ['no package', '@types/bun and zod@4.6.7', []],
    ['no code', '`@bob` and ``@carol``', []],
    ['no code block, closed or not', '```ts\n@Component\n```\n~~~\n@bob', []],
    ['no link', 'https://example.com/@bob', []],
    ['no quoted line', '> @bob said', []],
    ['no lone sign', '@ @@ @-', []],
  ])('find %s', (_what, body, names) => {
    expect(mentionsIn(body)).toEqual(names);
  });

  it('are always found between other words, in their exact spelling', () => {
    const name = fc.stringMatching(/^[A-Za-z0-9]([A-Za-z0-9._-]{0,20}[A-Za-z0-9])?$/);
    fc.assert(fc.property(name, (who) => expect(mentionsIn(`hey @${who}, look`)).toEqual([who])));
  });
});
