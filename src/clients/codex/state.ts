import type { Activity } from '../../sessions/client-state.ts';
import type { ReadComposer } from '../../sessions/terminal.ts';

/**
 * What Codex 0.166 says with each event that its hooks can hear; `gone` removes the state. A Stop hook that makes the turn go on
 * says `busy` itself: no event follows. Codex may run its hooks in the environment of another window, so the state belongs to the
 * `session_id` on the hook's standard input, and never to a pane or process that the environment names.
 */
export const CODEX_EVENTS: Record<string, Activity | 'gone'> = {
  SessionStart: 'starting',
  UserPromptSubmit: 'busy',
  PreToolUse: 'busy',
  PermissionRequest: 'dialog',
  PostToolUse: 'busy',
  PreCompact: 'busy',
  Stop: 'idle',
  Interrupt: 'idle',
  SessionEnd: 'gone',
};

/**
 * Codex 0.166: the composer is the last row that begins with a bright `›`; what was said before begins with a faint one. It shows a
 * faint hint while it is empty, also while Codex works. A question has its choices behind such a sign.
 */
export const codexComposer: ReadComposer = ({ lines, bright, cursor }) => {
  if (lines.some((line) => QUESTION.test(line))) return 'dialog';
  if (lines.some((line) => /^\s*[•◦] .*\besc to interrupt\b/.test(line))) return 'busy';
  const row = bright.findLastIndex((line) => line.startsWith('›'));
  if (row < 0) return 'unknown';
  const atStart = cursor.row === row && cursor.column === 2;
  return bright[row] === '›' && (lines[row + 1] ?? '') === '' && atStart ? 'empty' : 'draft';
};

/** The questions that Codex 0.166 asks before it begins a conversation. */
const OPENINGS: [RegExp, string][] = [
  [/^\s*Trust this folder\?/, 'trust this folder'],
  [/^\s*[>›]? ?\d\. Sign in with /, 'sign in'],
  [/^\s*([›>] )?\d\. Review hooks|^\s*Hooks need review/, 'review hooks'],
];

/** Which question is open on a screen, in our words. */
export function codexQuestion(lines: readonly string[]): string {
  const found = OPENINGS.find(([shows]) => lines.some((line) => shows.test(line)));
  return found ? `dialog open: ${found[1]}` : 'dialog open';
}

const QUESTION = /^\s*› \d+\. |\bPress enter to (confirm|continue)\b|^\s*Question \d+\/\d+/;

/** A text that ends in `$word` opens a list of skills, which takes the Enter. A blank behind it keeps the list closed. */
export function codexEnding(text: string): string {
  return /\$[\w:-]*$/.test(text) ? `${text} ` : text;
}

/** Parts of Codex that have a terminal and are no window. */
const NO_WINDOW = ['exec', 'e', 'app-server', 'queue', 'exec-server'];

/** Whether a process that was started with these words, and runs this file, is a window of Codex. */
export function isCodexWindow(words: readonly string[], file: string): boolean {
  return file.endsWith('/codex') && !words.some((word) => NO_WINDOW.includes(word));
}
