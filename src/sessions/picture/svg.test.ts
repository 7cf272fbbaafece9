import { afterEach, describe, expect, it } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { within } from '../../../test/support/within.ts';
import { lastLines, TmuxSession } from '../tmux-session.ts';
import { TmuxServer } from '../tmux.ts';
import { gridOf } from './grid.ts';
import { svgOf } from './svg.ts';

const drawn = async (styled: string): Promise<string> => svgOf(await gridOf(styled));
const TEXT = '#d4d4d4';

describe('a screen as an SVG', () => {
  it('has every character in its place, with its looks', async () => {
    expect(await drawn('\x1b[1;31mred\x1b[0m ok\n漢字\x1b[44;4mx\x1b[0m')).toBe(
      [
        `<svg xmlns="http://www.w3.org/2000/svg" width="72" height="54" viewBox="0 0 72 54" font-family="'DejaVu Sans Mono', Menlo, Consolas, monospace" font-size="14.949">`,
        '<rect x="0" y="0" width="72" height="54" fill="#1e1e1e"/>',
        '<text x="9 18 27" y="23" fill="#cd3131" font-weight="bold">red</text>',
        `<text x="45 54" y="23" fill="${TEXT}">ok</text>`,
        '<rect x="45" y="27" width="9" height="18" fill="#2472c8"/>',
        `<text x="9 27 45" y="41" fill="${TEXT}">漢字x</text>`,
        `<rect x="45" y="43" width="9" height="1" fill="${TEXT}"/>`,
        '</svg>\n',
      ].join('\n'),
    );
  });

  it.each([
    ['faint', '\x1b[2mx', 'fill="#797979"'],
    ['italic', '\x1b[3mx', 'font-style="italic"'],
    ['struck through', '\x1b[9mx', 'y="18" width="9" height="1"'],
    ['inverse', '\x1b[7mx', 'fill="#1e1e1e">x'],
    ['a colour of 256', '\x1b[38;5;208mx', 'fill="#ff8700"'],
    ['a grey of 256', '\x1b[38;5;244mx', 'fill="#808080"'],
    ['a colour of its own', '\x1b[38;2;1;2;3mx', 'fill="#010203"'],
    ['line drawing', '\x0elqk\x0f', '>┌─┐<'],
    ['a character of two parts', 'e\u0301x', '>e\u0301<'],
    ['an emoji, two cells wide', '🚀x', `<text x="27" y="23" fill="${TEXT}">x<`],
    ['a style that an earlier line began', '\x1b[31ma\nb', '<text x="9" y="41" fill="#cd3131">b<'],
  ])('shows %s', async (_what, styled, part) => {
    expect(await drawn(styled)).toContain(part);
  });

  it('shows nothing of what is hidden', async () => {
    expect(await drawn('\x1b[8msecret\x1b[0m')).not.toContain('secret');
  });

  it.each([
    ['markup', '<script>alert("1")</script>&amp;', '&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&amp;amp;'],
    ['a link with its address', '\x1b]8;;https://evil.example"/><script>\x07text\x1b]8;;\x07', '>text<'],
    ['a move of the cursor', 'one\x1b[1;1Htwo\x1b[2J', '>onetwo<'],
    ['control characters', 'a\x00\x08\x7f\x9bb', '>ab<'],
    ['half a character', 'a\ud83d', '>a<'],
  ])('is not changed by %s on the screen', async (_what, styled, part) => {
    const svg = await drawn(styled);
    expect(svg).toContain(part);
    expect(svg).not.toMatch(/<script|evil|[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffe\uffff]/);
    expect(svg.match(/<(?!\/?(svg|text|rect)\b)/g)).toBeNull();
  });

  it('has at most 200 lines and 1,000 columns', async () => {
    const { rows, columns } = await gridOf(`first\n${'x\n'.repeat(300)}${'y'.repeat(5000)}`);
    expect([rows.length, columns, rows.at(-1)?.length]).toEqual([200, 1000, 1000]);
  });
});

const hasTmux = Bun.which('tmux') !== null;
describe.skipIf(!hasTmux)(`a screen of tmux${hasTmux ? '' : ' (skipped: tmux is not here)'}`, () => {
  let server: TmuxServer | null = null;
  afterEach(async () => {
    await server?.run(['kill-server']).catch(() => 'it ended before');
  });

  it('is read with its styles, also where an earlier line began them', async () => {
    const folder = temporaryHome();
    const env = { HOME: folder, TMUX_TMPDIR: folder, PATH: process.env['PATH'] ?? '', LANG: 'C.UTF-8' };
    server = new TmuxServer({ env: { ...env, TERM: 'xterm-256color' } });
    const text =
      '\x1b[32mgreen\r\n<still> green\x1b[0m\r\n\x1b[7minverse\x1b[0m 漢\x1b[44m  \x1b[0m\r\n\x1b[1mend\x1b[0m';
    writeFileSync(`${folder}/screen`, text);
    const { id } = await new TmuxSession(server, 'ccc-one').start(
      ['sh', '-c', `cat ${folder}/screen; exec sleep 600`],
      folder,
    );
    const tmux = server;
    await within(20_000, async () => (await lastLines(tmux, id, 50)).includes('end'));
    const svg = await drawn(await lastLines(server, id, 3, { styles: true }));
    expect(svg).toContain('fill="#0dbc79">&lt;still&gt;</text>');
    expect(svg).toContain(`<rect x="9" y="27" width="63" height="18" fill="${TEXT}"/>`);
    expect(svg).toContain('<rect x="99" y="27" width="18" height="18" fill="#2472c8"/>');
    expect(svg).toContain('font-weight="bold">end</text>');
    expect(svg).not.toContain('y="77"');
    expect(await lastLines(server, id, 3)).toBe('<still> green\ninverse 漢\nend');
  });
});
