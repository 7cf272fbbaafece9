import { describe, expect, it } from 'bun:test';
import fc from 'fast-check';
import { isSamePrompt, preparePrompt } from './typed-prompt.ts';

const ESC = '\u001B';

describe('a prompt for Claude Code', () => {
  it.each([
    ['one line', 'hello'],
    ['several lines, blanks and tabs', '  one\n\n\ttwo  \n'],
    ['a dash', '-n -t %0'],
    ['a hash, an at-sign and a colon', '#hash @bob :smile 10:30 $HOME'],
    ['a path', '/home/me/file is broken'],
    ['a path at the end of a sentence', 'Analyze this image: /tmp/x.png'],
    ['an exclamation mark further on', 'stop!\n!important'],
    ['a word that ends the client in a sentence', 'exit the loop'],
    ['emoji that are made of several signs', 'a 👩‍💻 ❤️ 1️⃣ 🏴󠁧󠁢󠁥󠁮󠁧󠁿 ☎︎ b'],
    ['scripts that need joiners', 'नमस्ते क्‍ष نمی‌خواهم'],
    ['a non-breaking space', 'a\u00A0b'],
    ['100 KB', 'ä'.repeat(50_000)],
  ])('with %s goes in byte for byte [CCC-58]', (_what, text) => {
    expect(preparePrompt(text)).toBe(text);
  });

  it.each([
    ['!echo bang', ' !echo bang'],
    ['!', ' !'],
    ['/status', 'Message:\n/status'],
    ['  /status now', 'Message:\n  /status now'],
    ['\n/nosuchcommand hello', 'Message:\n\n/nosuchcommand hello'],
    ['/tmp is full', 'Message:\n/tmp is full'],
    ['/', 'Message:\n/'],
    ['exit', 'Message:\nexit'],
    [' :wq! \n', 'Message:\n :wq! \n'],
    ['/tmp/x.png', '`/tmp/x.png`'],
    [
      'look at\n "/tmp/a b.PNG"\n/tmp/c.jpeg /tmp/d.gif\nplease',
      'look at\n `"/tmp/a b.PNG"`\n`/tmp/c.jpeg /tmp/d.gif`\nplease',
    ],
    ['ends in \\', 'ends in \\ '],
    ['so :smile', 'so :smile '],
    ['ask @bob', 'ask @bob '],
  ])('is never a command of the client: %j [CCC-173]', (text, prepared) => {
    expect(preparePrompt(text)).toBe(prepared);
  });

  it.each([
    ['/compact keep the plan', '/compact keep the plan'],
    ['  /compact\n', '/compact'],
    // With `raw`, too, a text never runs a shell and never ends the session.
    ['!echo bang', ' !echo bang'],
    ['exit', 'Message:\nexit'],
  ])('stays a command if that is meant: %j [CCC-173]', (text, prepared) => {
    expect(preparePrompt(text, { raw: true })).toBe(prepared);
  });

  it.each([
    ['the end of a paste and an Enter', `x ${ESC}[201~\ry`, 'x \ny'],
    ['colours and titles', `${ESC}[31mred${ESC}[0m ${ESC}]0;title\u0007x`, 'red x'],
    ['a bare ESC', `a${ESC}`, 'a'],
    ['a sequence within a sequence', `${ESC}${ESC}[0m[201~x`, '[201~x'],
    ['one-byte sequences', 'a\u009B201~b\u009Dt\u009Cc', 'abc'],
    ['NUL, BEL, DEL and a C1 control', 'a\u0000\u0007\u007F\u0081b', 'ab'],
    ['other line ends', 'a\r\nb\rc\u0085d\u2028e', 'a\nb\nc\nd\ne'],
    ['a text from right to left in disguise', 'a\u202Eb\u2066c\u200Fd', 'abcd'],
    ['what hides a shell', '\u200B!echo', ' !echo'],
    ['what hides a command', '\uFEFF/status', 'Message:\n/status'],
    ['hidden letters', 'a\u{E0041}\u{E0042}b', 'ab'],
    ['joiners between Latin letters', 'a\u200Db\u200Cc\u00ADd', 'abcd'],
    ['half a character', 'a\uD800b', 'a\uFFFDb'],
  ])('has no invisible characters: %s [CCC-174]', (_what, text, prepared) => {
    expect(preparePrompt(text)).toBe(prepared);
  });

  it.each(['', ' \n\t', '\u200B\uFEFF', `${ESC}[0m`])(
    'is refused if it has no visible characters: %j [CCC-174]',
    (text) => {
      expect(() => preparePrompt(text)).toThrow('no visible characters');
    },
  );

  it('is always one paste that the client takes at the first Enter, whatever the text [CCC-58, CCC-173, CCC-174]', () => {
    const nasty = fc.constantFrom(
      '!',
      '/',
      '\\',
      ' ',
      '\n',
      '\r',
      ESC,
      '[201~',
      '\u200B',
      '\u200D',
      '\u202E',
      'exit',
      'a',
      'é',
      '👩',
      '\u0000',
      '\u009B',
      '\uD800',
      '.png',
    );
    const texts = fc.oneof(
      fc.array(nasty, { maxLength: 12 }).map((parts) => parts.join('')),
      fc.string({ unit: 'binary', maxLength: 40 }),
    );
    fc.assert(
      fc.property(texts, fc.boolean(), (text, raw) => {
        let prepared: string;
        try {
          prepared = preparePrompt(text, { raw });
        } catch {
          return;
        }
        // oxlint-disable-next-line no-control-regex -- none of these may be in it.
        expect(prepared).not.toMatch(
          /[\u0000-\u0008\u000B-\u001F\u007F-\u009F\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069]/,
        );
        expect(prepared.isWellFormed()).toBe(true);
        expect(prepared).not.toMatch(/^[!\p{Default_Ignorable_Code_Point}]/u);
        expect(prepared).not.toMatch(/\\$/);
        if (!raw) expect(prepared).not.toMatch(/^\s*\/[^\s/]*(\s|$)/);
        expect(prepared.trim()).not.toMatch(/^(exit|quit|:q!?|:wq!?)$/);
        // A second `preparePrompt` changes nothing.
        expect(isSamePrompt(preparePrompt(prepared, { raw }), prepared)).toBe(true);
      }),
      { numRuns: 2000 },
    );
  });
});

describe('the prompt that Claude Code recorded', () => {
  it.each([
    ['tabs as blanks', 'a\tb', 'a    b', true],
    ['blanks at the ends', 'a\\ ', 'a\\', true],
    ['without a joiner', '👩‍💻', '👩💻', true],
    ['more than was said', 'a', 'a b', false],
    ['something else', 'a', 'b', false],
  ])('is the prompt, or not: %s', (_what, prepared, written, isSame) => {
    expect(isSamePrompt(written, prepared)).toBe(isSame);
  });
});
