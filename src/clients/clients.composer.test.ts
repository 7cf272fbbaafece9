import { describe, expect, it } from 'bun:test';
import type { ReadComposer, Screen } from '../sessions/terminal.ts';
import { drawn } from '../sessions/screen.ts';
import { claudeComposer } from './claude/state.ts';
import { codexComposer, codexEnding, codexQuestion } from './codex/state.ts';
import { kimiComposer } from './kimi/state.ts';
import { openCodeComposer } from './opencode/state.ts';

// Rows as the real clients drew them in tmux, with less width; `^` is ESC.
const RULE = '^[38;5;244m────────────────────────';
const CLAUDE = {
  empty: on(
    ['^[38;5;174m ▐▛███▛█', '', RULE, '^[39m❯ ^[7m ', `^[0m${RULE}`, '^[39m  ^[38;5;246m⏸ manual mode on'],
    3,
    2,
  ),
  hint: on([RULE, '^[39m❯ ^[7mT^[0;2mry "fix the tests"', `^[0m${RULE}`], 1, 2),
  draft: on([RULE, '^[39m❯ a draft of mine^[7m ', `^[0m${RULE}`], 1, 17),
  'draft, cursor at its start': on([RULE, '^[39m❯ ^[7ma^[0m draft of mine', `^[0m${RULE}`], 1, 2),
  'draft of several lines': on([RULE, '^[39m❯ a', '  b', '  c^[7m ', `^[0m${RULE}`], 3, 3),
  'draft that begins with an empty line': on([RULE, '^[39m❯ ', '  b^[7m ', `^[0m${RULE}`], 2, 3),
  'a paste, folded': on([RULE, '^[39m❯ [Pasted text #1 +29 lines]^[7m ', `^[0m${RULE}`], 1, 28),
  busy: on([RULE, '❯ ^[7m ', `^[0m${RULE}`, '^[38;5;246m  esc to interrupt'], 1, 2),
  dialog: on(
    [
      '^[48;5;237m❯ ^[38;5;231mdo it',
      '^[39m^[49m Bash command',
      ' Do you want to proceed?',
      ' ^[38;5;153m❯^[39m ^[38;5;246m1. ^[38;5;153mYes',
      '^[39m   ^[38;5;246m4. ^[39mNo',
      ' ^[38;5;246mEsc to cancel · Tab to amend',
    ],
    5,
    1,
  ),
  'nothing of it': on(['$ ls', 'a  b', '$ '], 2, 2),
};
const CODEX = {
  empty: on(['^[1;2m› ^[0mdo it', '^[1m›^[0m ^[2mAsk Codex to do anything', '', '  ^[38;5;223mgpt-5.6 default'], 1, 2),
  draft: on(['^[1m›^[0m a draft of mine', '', '  ^[38;5;223mgpt-5.6 default'], 0, 17),
  'draft of several lines': on(['^[1m›^[0m a', '  b', '  c', ''], 2, 3),
  'draft that begins with an empty line': on(['^[1m›^[0m ', '  b', ''], 1, 3),
  busy: on(['• Working (1s • esc to interrupt)', '', '^[1m›^[0m ^[2mAsk Codex to do anything', ''], 2, 2),
  dialog: on(
    [
      '  ^[1mWould you like to run the following command?',
      '^[0m  $ touch made',
      '^[1;7m› 1. Yes, proceed (y)',
      '^[0m  3. No, and tell Codex what to do differently (^[1mesc^[0m)',
      '  ^[2mPress ^[0;1menter^[0;2m to confirm or ^[0;1mesc^[0;2m to cancel',
    ],
    4,
    40,
  ),
  'dialog: trust this folder': on(
    [
      '  ^[1mFolder access',
      '  Trust this folder? ^[0mCodex can read, edit, and run files here, subject to your settings.',
      '',
      '^[1;7m› 1. Trust and continue',
      '^[0m  2. Back to Agent Command Center',
      '  ^[2menter continue · esc back',
    ],
    5,
    0,
  ),
  'dialog: sign in': on(
    [
      '  Choose how you want to use Codex.',
      '> 1. Sign in with ChatGPT',
      '  3. Use an OpenAI API key',
      '  ^[2mPress enter to continue',
    ],
    3,
    0,
  ),
  'dialog: review hooks': on(
    ['  Hooks need review', '^[1m› 1. Review hooks', '^[0m  2. Trust all and continue', '  3. Continue without'],
    1,
    0,
  ),
  'nothing of it': on(['$ '], 0, 2),
};
const KIMI = {
  empty: on([' ^[38;5;240m╭─────────╮', '^[39m ^[38;5;240m│^[39m > ^[7m ^[0m      ^[38;5;240m│', ' ╰─────────╯'], 1, 5),
  draft: on(
    [' ^[38;5;240m╭─────────╮', '^[39m ^[38;5;240m│^[39m > a draft^[7m ^[0m^[38;5;240m│', ' ╰─────────╯'],
    1,
    12,
  ),
  'draft of several lines': on([' ╭─────────╮', ' │ > a     │', ' │   b     │', ' ╰─────────╯'], 2, 6),
  'a paste, folded': on([' ╭─────────╮', ' │ > [paste #1 +30 lines] │', ' ╰─────────╯'], 1, 25),
  busy: on([' ✨ do it', '', ' 🌔 · Tip: /init', ' ╭─────────╮', ' │ >       │', ' ╰─────────╯'], 4, 5),
  'empty, below a message with a moon': on(
    [' ✨ mail', '    🌔 full soon', ' ● thanks', ' ╭─────────╮', ' │ >       │', ' ╰─────────╯'],
    4,
    5,
  ),
  dialog: on(
    [
      '   ▶ Run this command?',
      '   $ touch made',
      '   ▶ 1. Approve once',
      '     3. Reject',
      '   ↑/↓ select · 1/2/3/4 choose · ↵ confirm',
    ],
    4,
    40,
  ),
  'dialog at its start': on(
    [' Trust this folder?', '  ↑↓ navigate · Enter select · Esc exit', '   ❯ ^[1mTrust this folder'],
    2,
    40,
  ),
  'nothing of it': on(['$ '], 0, 2),
};
const BLOCK = '^[38;5;75m┃^[38;5;15m';
const AGENT = `${BLOCK}  ^[38;5;75mBuild^[38;5;15m ^[38;5;8m·^[38;5;15m ^[38;5;255mOne`;
const FOOT = '^[38;5;75m╹^[38;5;234m▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀^[38;5;15m';
const OPENCODE = {
  'empty at its start': on([BLOCK, `${BLOCK}  ^[38;5;8mAsk anything… "Fix a TODO"`, BLOCK, AGENT, FOOT], 1, 3),
  empty: on(['', `  ${BLOCK}`, `  ${BLOCK}`, `  ${BLOCK}`, `  ${AGENT}`, `  ${FOOT}  ^[38;5;255mpanel`], 2, 5),
  draft: on([BLOCK, `${BLOCK}  ^[38;5;255mmy words`, BLOCK, AGENT, FOOT], 1, 11),
  'a paste, folded': on(
    [BLOCK, `${BLOCK}  ^[1m^[38;5;232m^[48;5;215m[Pasted ~3 lines]^[0m`, BLOCK, AGENT, FOOT],
    1,
    21,
  ),
  busy: on([BLOCK, BLOCK, BLOCK, AGENT, FOOT, '   ■■⬝⬝  esc interrupt'], 1, 3),
  dialog: on(
    [
      `  ${BLOCK}  △ Permission required`,
      `  ${BLOCK}    # Shell command`,
      `  ${BLOCK}   Allow once   Allow always   Reject`,
    ],
    2,
    40,
  ),
  'nothing of it': on(['$ '], 0, 2),
};

describe.each([
  ['Claude Code', claudeComposer, CLAUDE],
  ['Codex', codexComposer, CODEX],
  ['Kimi', kimiComposer, KIMI],
  ['OpenCode', openCodeComposer, OPENCODE],
] as [string, ReadComposer, Record<string, Screen>][])('the screen of %s', (_client, composer, screens) => {
  it.each(Object.entries(screens))('is read: %s [C2C-32]', (what, screen) => {
    const [first = ''] = what.split(/[ ,:]/);
    const meant = { empty: 'empty', hint: 'empty', a: 'draft', nothing: 'unknown' }[first] ?? first;
    expect(composer(screen)).toBe(meant as never);
  });

  it('is not taken for its composer by what a message says', () => {
    const lines = ['somebody wrote:', '❯ ', '› ', '> ', '│ > │', '┃', 'and nothing else'];
    expect(composer(on(lines, 6, 0))).not.toBe('empty');
  });
});

it.each([
  ['ask $skill', 'ask $skill '],
  ['costs 5$', 'costs 5$ '],
  ['ask @bob', 'ask @bob'],
  ['$HOME is where', '$HOME is where'],
])('Codex gets a blank after a text that would open its list: %j', (text, whole) => {
  expect(codexEnding(text)).toBe(whole);
});

it.each(Object.entries(CODEX).filter(([what]) => what.startsWith('dialog')))(
  'Codex asks something, and it is said what: %s',
  (what, { lines }) => expect(codexQuestion(lines)).toBe(what.replace('dialog', 'dialog open')),
);

function on(lines: string[], row: number, column: number): Screen {
  return { ...drawn(lines.map((line) => line.replaceAll('^', '\u001b'))), cursor: { row, column } };
}
