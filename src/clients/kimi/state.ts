import type { Activity } from '../../sessions/client-state.ts';
import type { ReadComposer, Screen } from '../../sessions/terminal.ts';

/**
 * What Kimi 2.1 says with each event that its hooks can hear; `gone` removes the state. It does not say Stop after an interrupt. A
 * Stop hook that makes the turn go on says `busy` itself: no event follows. A Kimi that was given nothing yet has no session, and
 * so no state.
 */
export const KIMI_EVENTS: Record<string, Activity | 'gone'> = {
  SessionStart: 'starting',
  UserPromptSubmit: 'busy',
  TurnStarted: 'busy',
  PreToolUse: 'busy',
  PermissionRequest: 'dialog',
  PermissionResult: 'busy',
  PostToolUse: 'busy',
  PostToolUseFailure: 'busy',
  Stop: 'idle',
  StopFailure: 'idle',
  Interrupt: 'idle',
  SessionEnd: 'gone',
};

/** Kimi 2.1: the composer is a box with `>` in its first row. A question takes its place, and a moon is above it while Kimi works. */
export const kimiComposer: ReadComposer = ({ lines, bright, cursor }) => {
  const row = lines.findLastIndex((line, at) => /^\s*│ > ?/.test(line) && /^\s*╭─/.test(lines[at - 1] ?? ''));
  if (lines.slice(row + 1).some((line) => QUESTION.test(line))) return 'dialog';
  if (row < 0) return 'unknown';
  if (lines.slice(0, row).some((line) => MOON.test(line))) return 'busy';
  // The box is drawn in grey, so what is bright is the sign and what was typed.
  const typed = (bright[row] ?? '').replaceAll('│', '').trim();
  const ends = /^\s*╰─/.test(lines[row + 1] ?? '');
  const atStart = cursor.row === row && cursor.column === (lines[row] ?? '').indexOf('>') + 2;
  return typed === '>' && ends && atStart ? 'empty' : 'draft';
};

const QUESTION = /^\s*[▶❯] (\d+\. |Trust this folder)|↵ confirm|\bEnter select\b/;

/** While Kimi works a moon waxes and wanes above the composer, in the second column. The text of a message begins behind it. */
const MOON = /^ ?[\u{1f311}-\u{1f318}](\s|$)/u;

/** Kimi draws its composer before it knows its model, and loses what is typed until then. Its last row says when it does. */
export function isKimiReady({ lines }: Screen): boolean {
  return lines.some((line) => /\bcontext: \d+/.test(line));
}

/** The id of the conversation that its first box names; null if the box is not on the screen, or there is none yet. */
export function sessionShown({ lines }: Screen): string | null {
  // The text of a message begins further right.
  const row = lines.findLast((line) => /^ ?│\s+Session:/.test(line)) ?? '';
  return /Session:\s+(session_[0-9a-f-]{36})\s/.exec(`${row} `)?.[1] ?? null;
}

/** Whether the composer holds this very text. A long one is shown as `[paste #1 +40 lines]`. */
export function kimiHolds({ lines }: Screen, text: string): boolean {
  const row = lines.findLastIndex((line, at) => /^\s*│ > /.test(line) && /^\s*╭─/.test(lines[at - 1] ?? ''));
  const end = lines.findIndex((line, at) => at > row && /^\s*╰─/.test(line));
  if (row < 0 || end < 0) return false;
  const inside = lines.slice(row, end).map((line) => line.replace(/^\s*│( >)?/, '').replace(/│\s*$/, ''));
  const plain = (shown: string): string => shown.replaceAll(/\s+/g, '');
  const shown = plain(inside.join(''));
  const count = /^\[paste#\d+\+(\d+)lines\]$/.exec(shown)?.[1];
  return count === undefined ? shown === plain(text) : Number(count) === text.split('\n').length;
}

/** Whether a process is a Kimi: it names itself so. */
export function isKimi([name = '']: readonly string[]): boolean {
  return name.trimEnd() === 'kimi-code';
}
