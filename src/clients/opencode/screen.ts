import type { ReadComposer } from '../../sessions/composer.ts';

/**
 * OpenCode 1.18: the composer is a block of rows that begin with `┃`, closed below by `╹▀▀▀`. Its last row names the agent and the
 * model. A question has no such end. Beside the block there may be a panel.
 */
export const openCodeComposer: ReadComposer = ({ lines, bright, cursor }) => {
  const end = lines.findLastIndex((line) => /^\s*╹▀{8}/.test(line));
  if (end < 0) return lines.some((line) => QUESTION.test(line)) ? 'dialog' : 'unknown';
  if (lines.slice(end + 1).some((line) => /\besc (again to )?interrupt\b/.test(line))) return 'busy';
  if (lines.slice(end).some((line) => QUESTION.test(line))) return 'dialog';
  const left = (lines[end] ?? '').indexOf('╹');
  const right = (lines[end] ?? '').lastIndexOf('▀') + 1;
  const top = lines.findLastIndex((line, row) => row < end && line[left] !== '┃') + 1;
  const rows = bright.slice(top, end - 1).map((line) => line.slice(left + 1, right).trim());
  const inside = cursor.row >= top && cursor.row < end - 1 && cursor.column === left + 3;
  return rows.length > 0 && inside && rows.every((row) => row === '') ? 'empty' : 'draft';
};

const QUESTION = /△ Permission required|Allow once\s+Allow always/;
