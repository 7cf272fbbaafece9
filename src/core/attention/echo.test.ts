import * as fc from 'fast-check';
import { describe, expect, it } from 'bun:test';
import { isEcho, repeats } from './echo.ts';

const echoes = (text: string, ...earlier: string[]): boolean =>
  isEcho(
    { from: 'anna', to: '@ben', body: text },
    earlier.map((body) => ({ from: 'ben', to: '@anna', body })),
  );

/** This many different words. */
const words = (count: number): string[] =>
  Array.from({ length: count }, (_, at) => `w${'abcdefghij'[at % 10]}${'klmnopqrst'[Math.floor(at / 10)]}`);

describe('an echo', () => {
  it.each([
    ['the same text', 'the parser is done', 'the parser is done'],
    ['other case and punctuation', 'THE PARSER — IS DONE!!', 'the parser is done'],
    ['other digits', 'ping 7', 'ping 6'],
    ['other names', 'over to @cleo, says anna', 'over to @ben, says ben'],
    ['an emoji more', 'the parser is done 🎉', 'the parser is done'],
    ['a clock time', '[2026-06-02T10:11:12Z] alive', 'alive'],
    ['a filler word before it', 'Well, over to you', 'over to you'],
    ['its sentences in another order', 'Go ahead. After you.', 'After you. Go ahead.'],
    ['the same in Japanese', 'テストは通りました。', 'テストは通りました'],
    ['the same in Chinese, another number', '第42次构建通过', '第41次构建通过'],
    ['the same in Russian', 'Сборка прошла', 'сборка прошла!'],
    ['a quote of the whole and nothing else', '> keep the interface small', 'keep the interface small'],
    ['a quote of the whole and thanks', '> keep the interface small\n\nThanks!', 'keep the interface small'],
  ])('is %s', (_what, text, earlier) => {
    expect(echoes(text, 'something before', earlier, 'something between')).toBe(true);
  });

  it.each(['thanks!', 'ok', 'got it, thank you 🙏', '👍', '🎉🚀', 'Well, 🎉'])(
    'is %s, whatever was said before',
    (text) => {
      expect(echoes(text)).toBe(true);
    },
  );

  it.each([
    ['another word', 'module billing is green', 'module auth is green'],
    ['another word in a long text', `${words(40).join(' ')} billing`, `${words(40).join(' ')} auth`],
    ['a word more', 'roll back production', 'roll back'],
    ['a refusal', 'do not merge it', 'merge it'],
    ['a refusal taken back', `${words(30).join(' ')} merge`, `${words(30).join(' ')} not merge`],
    ['a no for a yes', 'no', 'yes'],
    ['another sign in code', 'use `a < b` here', 'use `a > b` here'],
    ['another character in Chinese', '订单表迁移完成', '用户表迁移完成'],
    ['a refusal in Chinese', '不要合并', '合并'],
    ['a refusal in German', 'bitte nicht mergen', 'bitte mergen'],
    [
      'an answer below a whole quote',
      '> keep the interface small\n\nNo, it needs a second method.',
      'keep the interface small',
    ],
    ['the same answer to another part', '> rename foo\nfixed', '> inline bar\nfixed'],
    ['a part of it', 'the second step', 'run the first step, then the second step, then the third'],
    ['a number alone', '42', '41'],
    ['a tick with a word', '✅ deployed', 'deploying'],
    ['an empty text', '', 'anything'],
  ])('is not %s', (_what, text, earlier) => {
    expect(echoes(text, 'something before', earlier, 'something between')).toBe(false);
  });

  it('is the same sentence with another id, also if that id has no digit', () => {
    const line = (id: string) => ({ from: 'ann', to: '@ben', body: `Confirming receipt of ${id}.` });
    for (const id of ['9abcdef1', 'deadbeef']) expect(isEcho(line(id), [line('1f2e3d4c')])).toBe(true);
  });

  it('may leave out one word in twenty, and no more', () => {
    const [twenty, nineteen] = [words(20), words(20).slice(1)];
    expect(echoes(nineteen.join(' '), twenty.join(' '))).toBe(true);
    expect(echoes(words(19).slice(1).join(' '), words(19).join(' '))).toBe(false);
  });

  it('may add no word, however long the text is', () => {
    expect(echoes(words(100).join(' '), words(99).join(' '))).toBe(false);
  });

  it('repeats one of the last six messages: after more messages the same order means something new', () => {
    const others = words(6);
    expect(echoes('run the tests', 'run the tests', ...others.slice(1))).toBe(true);
    expect(echoes('run the tests', 'run the tests', ...others)).toBe(false);
  });

  it('of a very long text is only exactly the same text', () => {
    const long = 'a long report '.repeat(1_000);
    expect(echoes(long, long)).toBe(true);
    expect(echoes(long.toUpperCase(), long)).toBe(false);
  });

  const word = fc.string({ unit: fc.constantFrom('b', 'c', 'd', 'f', 'g', 'h', 'j'), minLength: 3, maxLength: 8 });
  const sentence = fc.array(word, { minLength: 1, maxLength: 20 }).map((list) => list.join(' '));

  it('is never a text with a word that no earlier message has, whatever came before', () => {
    fc.assert(
      fc.property(fc.array(sentence, { maxLength: 50 }), sentence, fc.nat(), (earlier, text, at) => {
        const said = text.split(' ');
        const fresh = said.toSpliced(at % (said.length + 1), 0, 'unheard').join(' ');
        expect(echoes(fresh, ...earlier)).toBe(false);
      }),
    );
  });

  it('is always the text of the message before, in any case and punctuation', () => {
    fc.assert(
      fc.property(fc.array(sentence, { minLength: 1, maxLength: 6 }), fc.nat(), (earlier, pick) => {
        const again = earlier[pick % earlier.length] ?? '';
        expect(echoes(`«${again.toUpperCase().replaceAll(' ', ' … ')}»`, ...earlier)).toBe(true);
      }),
    );
  });

  it('is found in linear time, also in a hostile text', () => {
    const hostile = ['`'.repeat(3_999), '> '.repeat(1_999), '@'.repeat(3_999), '漢'.repeat(3_999), '1'.repeat(3_999)];
    for (const body of hostile) expect(echoes(`${body}x`, ...Array.from({ length: 50 }, () => body))).toBeBoolean();
  });
});

const LAST = 'I looked at the parser, and the fix is good to merge from my side. Tests are green on main.';

describe('a text', () => {
  it.each([
    ['the same', LAST],
    ['the same in other letters and marks', LAST.toUpperCase().replaceAll('.', '!!')],
    ['the same with an emoji', `${LAST} 🎉`],
    [
      'the same, turned round',
      'Tests are green on main. I looked at the parser, and the fix is good to merge from my side.',
    ],
    ['the same but for a filler', LAST.replace('good', 'fine')],
    ['the same with a word more', `${LAST} Cheers`],
  ])('repeats another: %s', (_what, text) => {
    expect(repeats(text, LAST)).toBe(true);
  });

  it.each([
    ['it has a new number', `${LAST} 14 of them.`],
    ['it has a new path', `${LAST} See src/parser.ts.`],
    ['it takes it back', LAST.replace('is good', 'is not good')],
    ['it is another text', 'The deploy is blocked by the migration'],
    ['it is a part of it', 'good to merge'],
    [
      'it says much more',
      `${LAST} The remaining work is to document the grammar and tell the owners of the other tools.`,
    ],
    ['it is a yes', 'yes'],
    ['one word is another', LAST.replace('parser', 'lexer')],
    ['it has another word for each of its own', LAST.replace('parser', 'lexer').replace('main', 'next')],
  ])('does not repeat another if %s', (_what, text) => {
    expect(repeats(text, LAST)).toBe(false);
  });

  it('with yes does not repeat one with no, nor a number the number before', () => {
    expect(repeats('yes, merge it', 'no, merge it')).toBe(false);
    expect(repeats('14 tests fail', '12 tests fail')).toBe(false);
    expect(repeats('it does work', "it doesn't work")).toBe(false);
  });

  it('without words repeats only itself', () => {
    expect(repeats('👍', ' 👍 ')).toBe(true);
    expect(repeats('👍', '👎')).toBe(false);
    expect(repeats('', '')).toBe(false);
  });

  it('always repeats itself, also with other spaces', () => {
    fc.assert(
      fc.property(fc.lorem({ maxCount: 30 }), (text) => {
        expect(repeats(text.replaceAll(' ', '  \n'), text)).toBe(true);
      }),
    );
  });

  it('with a fact that the other does not have never repeats it', () => {
    const fact = fc.constantFrom('src/new.ts', '0a1b2c3d', 'https://ci.example/77', '4711');
    fc.assert(
      fc.property(fc.lorem({ maxCount: 60 }), fact, (text, news) => {
        expect(repeats(`${text} ${news}`, text)).toBe(false);
      }),
    );
  });
});
