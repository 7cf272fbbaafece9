import { parentOf } from '../../platform/process.ts';
import { clientWindows } from '../../sessions/client-window.ts';
import type { ReadComposer, Screen } from '../../sessions/terminal.ts';

/**
 * Gemini CLI 0.61: the composer is a grey block between half blocks or blank rows, with `>` in its first row (`*` if it runs tools without
 * asking). Earlier prompts look the same, so the composer counts as empty only if it shows its placeholder with the cursor before it. A
 * question replaces the composer. While Gemini CLI works, a line above the composer says how to cancel. Vim mode, shell mode and screen
 * reader mode look different and are not recognised.
 */
export const geminiComposer: ReadComposer = ({ lines, cursor }) => {
  const row = lines.findLastIndex((line, at) => /^ [>*] /.test(line) && /^▄*$/.test(lines[at - 1] ?? ''));
  const below = lines.slice(row + 1);
  if (below.some((line) => QUESTION.test(line))) return 'dialog';
  const end = below.findIndex((line) => /^▀*$/.test(line));
  if (row < 0 || end < 0) return 'unknown';
  if (lines.some((line) => WORKS.test(line))) return 'busy';
  const isEmpty = /^ [>*] {3}Type your message or @path\/to\/file\s*$/.test(lines[row] ?? '');
  // A draft may have blank rows, too.
  if (cursor.row < row || cursor.column < 3) return 'unknown';
  return isEmpty && end === 0 && cursor.row === row && cursor.column === 3 ? 'empty' : 'draft';
};

/** The options of a question; the one that Enter would choose has a dot. */
const QUESTION = /^[\s│]*● (?:\d+\. )?\S/;
/** The line that shows that it works begins in the first or second column. Only prompts, behind their `>`, begin there, too. */
const WORKS = /^ ?[\u2801-\u28ff] \S|^ (?![>*\s]).*\(esc to cancel, \d/;

/** Whether the composer holds exactly this text. A long paste is shown as `[Pasted Text: 40 lines]`, and then counts as this text. */
export function geminiHolds({ lines }: Screen, text: string): boolean {
  const row = lines.findLastIndex((line, at) => /^ [>*] /.test(line) && /^▄*$/.test(lines[at - 1] ?? ''));
  const rest = lines.slice(row).map((line) => line.slice(3));
  const end = rest.findLastIndex((line, at) => at > 0 && /^▀+$/.test(line));
  const plain = (shown: string): string => shown.replaceAll(/\s+/g, '');
  const shown = plain(rest.slice(0, end < 0 ? rest.findIndex((line) => line === '') : end).join(''));
  return row >= 0 && (shown === plain(text) || /^\[PastedText:\d+(?:lines|chars)\]$/.test(shown));
}

/** The windows of Gemini CLI. Gemini CLI starts itself a second time; only the parent counts. */
export const geminiWindows: typeof clientWindows = (isClient) => {
  const windows = clientWindows(isClient);
  const all = new Set(windows?.map(({ pid }) => pid));
  return windows?.filter(({ pid }) => !all.has(parentOf(pid))) ?? null;
};

/** Whether a process is a Gemini CLI: it runs a script of its package, or the link to it. */
export function isGemini(words: readonly string[]): boolean {
  const script = words.slice(1).find((word) => word !== '' && !word.startsWith('-')) ?? '';
  return /(?:^|\/)gemini$|\/@google\/gemini-cli\/.*\.js$/.test(script);
}
