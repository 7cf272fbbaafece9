import type { Activity } from '../../sessions/client-state.ts';
import type { ReadComposer } from '../../sessions/terminal.ts';

/**
 * The activity of Codex 0.166 after each hook event; `gone` removes the state. A Stop hook that prolongs the turn reports `busy` itself,
 * because no event follows. Codex may run a hook in the environment of another window, so the state belongs to the `session_id` on the
 * hook's standard input, and never to a pane or process that the environment names.
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
 * The composer of Codex 0.166 is the last row that begins with a bright `›`; earlier prompts begin with a faint one. An empty composer shows a
 * faint hint, also while Codex works. A question marks its choices with `›`, too.
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

/** Describes the question that is open on a screen. */
export function codexQuestion(lines: readonly string[]): string {
  const found = OPENINGS.find(([shows]) => lines.some((line) => shows.test(line)));
  return found ? `dialog open: ${found[1]}` : 'dialog open';
}

const QUESTION = /^\s*› \d+\. |\bPress enter to (confirm|continue)\b|^\s*Question \d+\/\d+/;

/** A text that ends in `$word` opens a list of skills, and Enter would choose from it. A space at the end keeps the list closed. */
export function codexEnding(text: string): string {
  return /\$[\w:-]*$/.test(text) ? `${text} ` : text;
}

/** Commands of Codex that may have a terminal but are not a window. */
const NO_WINDOW = ['exec', 'e', 'app-server', 'queue', 'exec-server'];

/** Is a process with these arguments and this executable a window of Codex? */
export function isCodexWindow(words: readonly string[], file: string): boolean {
  return file.endsWith('/codex') && !words.some((word) => NO_WINDOW.includes(word));
}
