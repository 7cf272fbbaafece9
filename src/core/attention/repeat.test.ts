import * as fc from 'fast-check';
import { describe, expect, it } from 'bun:test';
import { repeats } from './echo.ts';

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
  ])('does not repeat another where %s', (_what, text) => {
    expect(repeats(text, LAST)).toBe(false);
  });

  it('tells yes from no, and one number from the next', () => {
    expect(repeats('yes, merge it', 'no, merge it')).toBe(false);
    expect(repeats('14 tests fail', '12 tests fail')).toBe(false);
    expect(repeats('it does work', "it doesn't work")).toBe(false);
  });

  it('of signs alone repeats only itself', () => {
    expect(repeats('👍', ' 👍 ')).toBe(true);
    expect(repeats('👍', '👎')).toBe(false);
    expect(repeats('', '')).toBe(false);
  });

  it('always repeats itself, however it is spaced', () => {
    fc.assert(
      fc.property(fc.lorem({ maxCount: 30 }), (text) => {
        expect(repeats(text.replaceAll(' ', '  \n'), text)).toBe(true);
      }),
    );
  });

  it('with a fact that the other does not hold never repeats it', () => {
    const fact = fc.constantFrom('src/new.ts', '0a1b2c3d', 'https://ci.example/77', '4711');
    fc.assert(
      fc.property(fc.lorem({ maxCount: 60 }), fact, (text, news) => {
        expect(repeats(`${text} ${news}`, text)).toBe(false);
      }),
    );
  });
});
