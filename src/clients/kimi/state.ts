import type { Activity } from '../../sessions/client-state.ts';
import type { ReadComposer, Screen } from '../../sessions/terminal.ts';

/**
 * The state of Kimi 2.1 after each hook event; `gone` removes the state. After an interrupt there is no Stop event. A Stop hook that
 * prolongs the turn writes `busy` itself, because no event follows. Before its first prompt Kimi has no session, and so no state.
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

/** Kimi 2.1: the composer is a box with `>` in its first row. A question replaces the box. While Kimi works, a moon is above the box. */
export const kimiComposer: ReadComposer = ({ lines, bright, cursor }) => {
  const row = lines.findLastIndex((line, at) => /^\s*│ > ?/.test(line) && /^\s*╭─/.test(lines[at - 1] ?? ''));
  if (lines.slice(row + 1).some((line) => QUESTION.test(line))) return 'dialog';
  if (row < 0) return 'unknown';
  if (lines.slice(0, row).some((line) => MOON.test(line))) return 'busy';
  // The box is grey: only the `>` and the typed text are bright.
  const typed = (bright[row] ?? '').replaceAll('│', '').trim();
  const ends = /^\s*╰─/.test(lines[row + 1] ?? '');
  const atStart = cursor.row === row && cursor.column === (lines[row] ?? '').indexOf('>') + 2;
  return typed === '>' && ends && atStart ? 'empty' : 'draft';
};

const QUESTION = /^\s*[▶❯] (\d+\. |Trust this folder)|↵ confirm|\bEnter select\b/;

/** The moon that Kimi shows above the composer while it works, in the second column. Texts of messages begin further right. */
const MOON = /^ ?[\u{1f311}-\u{1f318}](\s|$)/u;

/** Whether Kimi takes input. Kimi draws its composer before it knows its model, and loses text that is typed before. Its last row tells. */
export function isKimiReady({ lines }: Screen): boolean {
  return lines.some((line) => /\bcontext: \d+/.test(line));
}

/** The id of the conversation in Kimi's first box; null if the box is not on the screen, or names no conversation yet. */
export function sessionShown({ lines }: Screen): string | null {
  // The text of a message begins further right.
  const row = lines.findLast((line) => /^ ?│\s+Session:/.test(line)) ?? '';
  return /Session:\s+(session_[0-9a-f-]{36})\s/.exec(`${row} `)?.[1] ?? null;
}

/** Whether the composer holds exactly this text. Kimi shows a long paste as `[paste #1 +40 lines]`: then only the line count is compared. */
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

/** Whether a process is a Kimi, by the name that Kimi gives its process. */
export function isKimi([name = '']: readonly string[]): boolean {
  return name.trimEnd() === 'kimi-code';
}
