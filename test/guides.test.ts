// Types the `console` blocks of the README and the guides, each page in an empty home, and compares what the program prints.
// `GUIDES_UPDATE=1` writes what was printed into the pages instead.

import { Glob } from 'bun';
import { beforeAll, describe, expect, it } from 'bun:test';
import { readFileSync, writeFileSync } from 'node:fs';
import { version } from '../package.json';
import { Shown } from './support/guide-text.ts';
import { blocksIn, buildProgram, stepsIn, Terminal } from './support/guide.ts';
import type { Finding, Step } from './support/guide.ts';

const ROOT = new URL('..', import.meta.url).pathname;
const GUIDES = [...new Glob('docs/guides/*.md').scanSync(ROOT)].sort();
const PAGES = ['README.md', ...GUIDES];
const read = (page: string): string => readFileSync(`${ROOT}${page}`, 'utf8');

beforeAll(buildProgram);

/** Types the commands of a page, and gives each that printed something else. */
async function type(steps: readonly Step[]): Promise<Finding[]> {
  const terminal = new Terminal();
  try {
    const findings: Finding[] = [];
    for (const step of steps) {
      const finding = await terminal.type(step);
      if (finding) findings.push(finding);
    }
    return findings;
  } finally {
    await terminal.close();
  }
}

const commandsOf = (text: string): Step[] =>
  blocksIn(text)
    .filter(({ language }) => language === 'console')
    .flatMap(stepsIn);

/** The page with what was printed. */
function updated(text: string, findings: readonly Finding[]): string {
  const lines = text.split('\n');
  for (const { line, command, output, printed } of findings.toReversed())
    lines.splice(line - 1 + command.split('\n').length, output.length, ...(printed === '' ? [] : printed.split('\n')));
  return lines.join('\n');
}

describe('what a page shows is what the program prints', () => {
  it.each(PAGES)('%s', async (page) => {
    const text = read(page);
    const findings = await type(commandsOf(text));
    if (process.env['GUIDES_UPDATE']) writeFileSync(`${ROOT}${page}`, updated(text, findings));
    else
      expect(
        findings.map(({ line, command, output, printed }) => ({
          at: `${page}:${line}`,
          command,
          shows: output.join('\n'),
          printed,
        })),
      ).toEqual([]);
  });

  it('also where a page shows something else: that is found', async () => {
    const page = '```console\n$ parley init me\nmade mailbox @you\n…\n$ parley whoami --json | head -1\n{\n```\n';
    const findings = await type(commandsOf(page));
    expect(findings.map(({ line }) => line)).toEqual([2]);
    expect(findings[0]?.printed).toStartWith('made mailbox @me in /home/you/.parley\n');
  });
});

describe('a page', () => {
  it.each(PAGES)('%s shows what is typed only in blocks that are run', (page) => {
    const blocks = blocksIn(read(page));
    expect(blocks.filter(({ language }) => !/^[a-z]+$/.test(language)).map(({ line }) => `${page}:${line}`)).toEqual(
      [],
    );
    const typed = read(page)
      .split('\n')
      .flatMap((text, at) => (/^\s*\$ /.test(text) ? [at + 1] : []));
    expect(commandsOf(read(page)).map(({ line }) => line)).toEqual(typed);
  });

  it.each(GUIDES)('%s begins with what you type', (page) => {
    expect(read(page)).toMatch(/^# .+\n\n```console\n\$ /);
  });

  it('README.md names the package as it is packed', () => {
    expect(read('README.md')).toContain(`npm install -g ./parley-mail-${version}.tgz`);
  });
});

describe('a shown text', () => {
  const shown = (): Shown => new Shown('/tmp/h', 4321);

  it.each([
    ['the same', 'stored 092b8534 for @me', 'stored aaaaaaaa for @me', true],
    ['another word', 'stored 092b8534 for @me', 'kept aaaaaaaa for @me', false],
    ['a missing line', 'one\ntwo', 'one', false],
    ['a line too many', 'one', 'one\ntwo', false],
    ['nothing, where the page shows a line', 'one', '', false],
    ['a line, where the page shows nothing', '', 'one', false],
    ['no id', 'stored 092b8534', 'stored nothing1', false],
    ['any lines for …', 'one\n…\nfour', 'one\ntwo\nthree\nfour', true],
    ['no line for …', 'one\n…', 'one', true],
    ['another end after …', 'one\n…\nfour', 'one\ntwo', false],
    ['another time and age', 'at 2026-11-16T04:08:09Z, just now', 'at 2027-01-01T00:00:00Z, 3 min ago', true],
    ['a time of another form', 'at 2026-11-16T04:08:09Z', 'at 2026-11-16T04:08:09.123Z', false],
    ['another process', 'up (pid 1)', 'up (pid 4711)', true],
    ['the home and the port of this run', '/home/you on 127.0.0.1:7117', '/tmp/h on 127.0.0.1:4321', true],
    ['one id for two', '092b8534 answers 30bb0053', 'aaaaaaaa answers aaaaaaaa', false],
    ['two ids for one', '092b8534 answers 092b8534', 'aaaaaaaa answers bbbbbbbb', false],
  ])('%s', (_case, shows, printed, isEqual) => {
    expect(shown().matches(shows, printed)).toBe(isEqual);
  });

  it('names the same message in the whole page', () => {
    const page = shown();
    expect(page.matches('stored 092b8534', 'stored aaaaaaaa')).toBe(true);
    expect(page.typed('parley read 092b8534')).toBe('parley read aaaaaaaa');
    expect(page.matches('id 092b8534-e99e-4c96-9ad4-d1f0cf719d31', 'id bbbbbbbb-e99e-4c96-9ad4-d1f0cf719d31')).toBe(
      false,
    );
    expect(page.matches('id 092b8534-e99e-4c96-9ad4-d1f0cf719d31', 'id aaaaaaaa-e99e-4c96-9ad4-d1f0cf719d31')).toBe(
      true,
    );
    expect(page.matches('read 092b8534', 'read cccccccc')).toBe(false);
  });
});
