import type { ReadComposer } from '../../sessions/composer.ts';

/**
 * Claude Code 2.1: the composer is a row that begins with `❯`, between two rules. What was said before begins so too, but has no
 * rules around it, and a question has its `❯` further right. The cursor stands where the next letter would.
 */
export const claudeComposer: ReadComposer = ({ lines, bright, cursor }) => {
  const isRule = (row: number): boolean => /^─{8}/.test(lines[row] ?? '');
  const row = lines.findLastIndex((line, at) => line.startsWith('❯') && isRule(at - 1));
  if (row < 0) return lines.some((line) => QUESTION.test(line)) ? 'dialog' : 'unknown';
  if (lines.slice(row + 1).some((line) => /\besc to interrupt\b/i.test(line))) return 'busy';
  if (lines.slice(row).some((line) => QUESTION.test(line))) return 'dialog';
  // The cursor lies on the first letter of a hint, and is drawn bright.
  const typed = (bright[row] ?? '').slice(1).trim();
  const isHint = typed.length <= 1 && (lines[row] ?? '').slice(1).trim().length > 1;
  const atStart = cursor.row === row && cursor.column === 2;
  return isRule(row + 1) && atStart && (typed === '' || isHint) ? 'empty' : 'draft';
};

const QUESTION = /^\s+❯ \d+\. |Do you want to |\bEsc to cancel\b|\bEnter to (select|confirm)\b/;
