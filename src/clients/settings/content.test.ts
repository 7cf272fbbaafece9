import { describe, expect, it } from 'bun:test';
import fc from 'fast-check';
import { editFor, textWithout } from './content.ts';
import type { SettingsContent } from './content.ts';
import { inserted, NotEditable, takenOut } from './text-edit.ts';

const TABLE: SettingsContent = {
  format: 'toml',
  at: ['mcp_servers', 'backchannel'],
  block: '[mcp_servers.backchannel]\ncommand = "/opt/parley"\nargs = ["bch", "mcp"]\n',
};
const SECTION: SettingsContent = { format: 'markdown', block: '<!-- ours -->\n## Mail\n<!-- end -->\n' };

function added(content: SettingsContent, text: string): string {
  return inserted(text, editFor(content, text).insertions);
}

/** The result of a removal after another program has changed our text. */
function removed(content: SettingsContent, before: string, now: string): unknown {
  return textWithout(content, editFor(content, before), now);
}

describe('a table in TOML', () => {
  it.each<[name: string, text: string, after: string]>([
    ['an empty file', '', TABLE.block],
    ['a file with lines', 'model = "o4"\n', `model = "o4"\n\n${TABLE.block}`],
    ['a last line without an end', 'model = "o4" # mine', `model = "o4" # mine\n\n${TABLE.block}`],
    ['Windows line ends', 'a = 1\r\n', `a = 1\r\n\r\n${TABLE.block.replaceAll('\n', '\r\n')}`],
    ['a byte order mark', '\ufeff', `\ufeff${TABLE.block}`],
    ['other servers', '[mcp_servers.x]\ncommand = "y"\n', `[mcp_servers.x]\ncommand = "y"\n\n${TABLE.block}`],
  ])('is added to %s', (_name, text, after) => {
    expect(added(TABLE, text)).toBe(after);
    expect(takenOut(after, editFor(TABLE, text).insertions)).toBe(text);
  });

  it.each(['a = "x', 'a = 1\na = 2\n', 'a = """\n[b]\n', 'mcp_servers = {}\n', 'mcp_servers = 1\n'])(
    'is not added to %p',
    (text) => {
      expect(() => editFor(TABLE, text)).toThrow(NotEditable);
    },
  );

  it.each<[name: string, change: (text: string) => string, after: unknown]>([
    ['goes alone', (text) => `${text}\n[tui]\ntheme = "x"\n`, { text: 'a = 1\n\n[tui]\ntheme = "x"\n' }],
    ['goes without its empty line', (text) => text.replace('\n\n', '\n'), { text: 'a = 1\n' }],
    ['stays if somebody changed it', (text) => text.replace('/opt/parley', '/usr/bin/other'), 'changed'],
    ['stays if a key was added to it', (text) => `${text}startup_timeout_sec = 20\n`, 'changed'],
    ['stays if a table inside was added', (text) => `${text}[mcp_servers.backchannel.env]\nA = "b"\n`, 'changed'],
    ['is gone if somebody removed it', () => 'a = 1\n', 'gone'],
  ])('%s', (_name, change, after) => {
    expect(removed(TABLE, 'a = 1\n', change(added(TABLE, 'a = 1\n')))).toEqual(after);
  });
});

describe('a section in Markdown', () => {
  it.each<[name: string, change: (text: string) => string, after: unknown]>([
    ['goes alone', (text) => `# Top\n${text}More.\n`, { text: '# Top\nMine\nMore.\n' }],
    ['stays if somebody changed it', (text) => text.replace('## Mail', '## Post'), 'changed'],
    ['is gone if somebody removed it', () => 'gone', 'gone'],
  ])('%s', (_name, change, after) => {
    expect(removed(SECTION, 'Mine\n', change(added(SECTION, 'Mine\n')))).toEqual(after);
  });

  it('leaves every text unchanged when it is removed', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom('a', '\n', '\r\n', ' ', '#', '\ufeff', 'é', '<!-- ours -->') }),
        (text) => {
          const { insertions } = editFor(SECTION, text);
          expect(takenOut(inserted(text, insertions), insertions)).toBe(text);
        },
      ),
    );
  });
});
