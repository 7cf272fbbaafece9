import { describe, expect, it } from 'bun:test';
import fc from 'fast-check';
import { TestTmux } from '../../test/support/tmux.ts';
import { within } from '../../test/support/within.ts';
import { temporaryHome } from '../../test/support/home.ts';
import { writeFileSync } from 'node:fs';
import { ScreenModel } from './screen.ts';
import { TmuxServer } from './tmux.ts';

const hasTmux = Bun.which('tmux') !== null;

describe('the screen of a PTY that we own', () => {
  it.each([
    ['plain text', 'one\r\ntwo', ['one', 'two'], { row: 1, column: 3 }],
    ['a line drawn over', 'abc\rX', ['Xbc'], { row: 0, column: 1 }],
    ['a line that is too long', 'x'.repeat(25), ['x'.repeat(20), 'xxxxx'], { row: 1, column: 5 }],
    ['wide characters', '你好', ['你好'], { row: 0, column: 4 }],
    ['a cleared screen', 'old\u001b[2J\u001b[Hnew', ['new'], { row: 0, column: 3 }],
    ['moves', '\u001b[3;5Hx\u001b[2Ay\u001b[1;1Hz', ['z    y', '', '    x'], { row: 0, column: 1 }],
    ['nothing of a question about keys', '\u001b[>4;?ma', ['a'], { row: 0, column: 1 }],
    ['a title and a link', '\u001b]0;title\u0007a\u001b]8;;http://x\u001b\\b', ['ab'], { row: 0, column: 2 }],
    ['the other screen and back', 'main\u001b[?1049h\u001b[Hother\u001b[?1049l', ['main'], undefined],
  ])('shows %s', (_what, written, lines, cursor) => {
    const model = new ScreenModel(20, 5);
    model.write(written);
    const screen = model.screen();
    expect(screen.lines.slice(0, lines.length)).toEqual(lines);
    if (cursor) expect(screen.cursor).toEqual(cursor);
  });

  it('gives the lines without faint text, too', () => {
    const model = new ScreenModel(40, 3);
    model.write('> \u001b[2mask me\u001b[22m \u001b[38;5;246mgrey\u001b[39m x');
    expect(model.screen()).toMatchObject({ lines: ['> ask me grey x', '', ''], bright: ['>             x', '', ''] });
  });

  it('knows whether the program wants bracketed pastes', () => {
    const model = new ScreenModel(20, 5);
    model.write('\u001b[?2004h');
    expect(model.bracketed).toBe(true);
    model.write('\u001b[?25l\u001b[?2004;25l');
    expect(model.bracketed).toBe(false);
  });

  it('answers queries about the cursor and about the terminal type', () => {
    let said = '';
    const model = new ScreenModel(20, 5, (text) => (said += text));
    model.write('ab\u001b[6n\u001b[c');
    expect(said).toBe('\u001b[1;3R\u001b[?62;22c');
  });

  it('shows the same however the output is split', () => {
    const written = 'a\u001b[2mfaint\u001b[0m\r\n\u001b]0;t\u0007你\u001b[2;1Hx\u001b[K';
    const whole = new ScreenModel(20, 5);
    whole.write(written);
    fc.assert(
      fc.property(fc.array(fc.nat(written.length), { maxLength: 6 }), (cuts) => {
        const places = [0, ...cuts.toSorted((a, b) => a - b), written.length];
        const model = new ScreenModel(20, 5);
        places.forEach((at, n) => model.write(written.slice(at, places[n + 1] ?? at)));
        expect(model.screen()).toEqual(whole.screen());
      }),
    );
  });

  it('never fails and never grows, whatever the program writes', () => {
    const piece = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 12 }),
      fc.constantFrom(
        '\u001b[',
        '\u001b',
        '\u001b]',
        '\n',
        '\t',
        '\u001b[999;999H',
        '\u001b[5L',
        '\u001b[9M',
        '\u001b[2;3r',
        '\u001bM',
        '\u001b[99P',
        '\u001b[9@',
      ),
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 30 }), (pieces) => {
        const model = new ScreenModel(10, 4);
        for (const one of pieces) model.write(one);
        const { lines, cursor } = model.screen();
        expect(lines).toHaveLength(4);
        expect(cursor.row).toBeWithin(0, 4);
        expect(cursor.column).toBeWithin(0, 10);
      }),
    );
  });

  it.skipIf(!hasTmux)('shows what tmux shows', async () => {
    const tmux = new TestTmux();
    const written = [
      'first\r\nsecond 你好\r\n\u001b[2mfaint\u001b[0m bright\u001b[5;10Hhere\u001b[2Kgone\u001b[3;3H\u001b[Kcut',
      '\u001b[8;1Hx\u001b[1@y\u001b[2;10r\u001b[10;1Hbottom\n\n\u001b[r\u001b[12;1Hend\u001b[3X\u001b[1;1H\u001b[1L',
    ].join('');
    const file = `${temporaryHome()}/written`;
    writeFileSync(file, written);
    try {
      const pane = await tmux.start('x', ['sh', '-c', `stty raw -echo; cat ${file}; exec cat`]);
      const server = await TmuxServer.open({ path: tmux.path });
      const terminal = await server.terminal(pane);
      const model = new ScreenModel(120, 40);
      model.write(written);
      await within(20_000, async () => (await terminal.screen())?.lines.includes('end') === true);
      const real = await terminal.screen();
      expect(model.screen().lines).toEqual([...(real?.lines ?? [])]);
      expect(model.screen().cursor).toEqual(real?.cursor as never);
      await server.close();
    } finally {
      await tmux.close();
    }
  });
});
