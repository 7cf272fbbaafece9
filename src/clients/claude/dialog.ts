import type { AskedQuestion } from '../../core/ports/session.ts';

/** A row that Enter can choose. */
interface DialogRow {
  /** The number that the client shows, from 1. */
  number: number;
  /** The label and the description below it. */
  text: string;
  /** Only if several options can be chosen. */
  isChecked?: boolean;
}

/**
 * A dialog of Claude Code 2.1 as the screen shows it. The screen only says which row a key would choose and what a permission is about. The
 * client's registry says that a dialog is open, and the transcript has the questions.
 */
export interface Dialog {
  /** `review`: the page after several questions, or after one that takes several options. */
  kind: 'question' | 'review' | 'permission';
  /** The text above the rows. */
  text: string;
  rows: readonly DialogRow[];
  /** The marked row, which Enter would choose: its number, or `next` for the Submit or Next row below the options. Null if no row is marked. */
  at: number | 'next' | null;
  /** Lines that identify the dialog and its state: the question and the marked row. */
  lines: readonly string[];
}

const RULE = /^\s*─{8}/;
/** The row of question headers, each with a box that shows whether it is answered. */
const HEADERS = /^\s?(?:←\s+)?[☐☒] \S/;
const ROW = /^([❯ ]) (\d+)\. (?:\[([ ✔])\] ?)?(.*)$/;
const NEXT = /^([❯ ]) {4}(?:Submit|Next)\s*$/;
/** A further line of a row, indented like its text. */
const BELOW = /^ {5,}\S/;
/** A row of a permission: Claude Code indents it more than a row of a question. */
const PERMISSION_ROW = /^\s+(❯ )?(\d+)\. (.+)$/;
const MARKED_PERMISSION = /^\s+❯ \d+\. /;
/** How many lines of the text identify a dialog. */
const KNOWN_BY = 4;

/** The dialog on a screen, or null. */
export function dialogOn(lines: readonly string[]): Dialog | null {
  return questionOn(lines) ?? permissionOn(lines);
}

function questionOn(lines: readonly string[]): Dialog | null {
  const top = lines.findLastIndex((line, at) => HEADERS.test(line) && RULE.test(lines[at - 1] ?? ''));
  if (top < 0) return null;
  const first = lines.findIndex((line, at) => at > top && ROW.exec(line)?.[2] === '1');
  if (first < 0) return null;
  const above = lines.slice(top + 1, first).filter((line) => line.trim() !== '');
  const rows: DialogRow[] = [];
  let [at, marked]: [Dialog['at'], string] = [null, ''];
  for (const line of lines.slice(first)) {
    const [, mark, number, check, text = ''] = ROW.exec(line) ?? [];
    const next = NEXT.exec(line);
    const last = rows.at(-1);
    if (number !== undefined && Number(number) === rows.length + 1)
      rows.push({ number: Number(number), text, ...(check !== undefined && { isChecked: check === '✔' }) });
    else if (!next && last && BELOW.test(line))
      rows[rows.length - 1] = { ...last, text: `${last.text} ${line.trim()}` };
    else if (!next) break;
    if (mark === '❯' || next?.[1] === '❯') [at, marked] = [next ? 'next' : Number(number), line];
  }
  const isReview = above[0]?.startsWith('Review your answers') === true;
  const known = isReview ? above.slice(-1) : above.slice(0, KNOWN_BY);
  return {
    kind: isReview ? 'review' : 'question',
    text: above.map((line) => line.trim()).join('\n'),
    rows,
    at,
    lines: [lines[top] ?? '', ...known, marked],
  };
}

function permissionOn(lines: readonly string[]): Dialog | null {
  const marked = lines.findLastIndex((line) => MARKED_PERMISSION.test(line));
  const first = lines.findLastIndex((line, at) => at <= marked && PERMISSION_ROW.exec(line)?.[2] === '1');
  const top = lines.findLastIndex((line, at) => at < first && RULE.test(line));
  if (top < 0) return null;
  const rows: DialogRow[] = [];
  for (const line of lines.slice(first)) {
    const [, , number, text = ''] = PERMISSION_ROW.exec(line) ?? [];
    const last = rows.at(-1);
    if (number !== undefined && Number(number) === rows.length + 1) rows.push({ number: Number(number), text });
    else if (last && BELOW.test(line)) rows[rows.length - 1] = { ...last, text: `${last.text} ${line.trim()}` };
    else break;
  }
  const above = lines.slice(top + 1, first).filter((line) => /[^\s╌]/.test(line));
  return {
    kind: 'permission',
    text: above.map((line) => line.trim()).join('\n'),
    rows,
    at: Number(PERMISSION_ROW.exec(lines[marked] ?? '')?.[2] ?? 0) || null,
    lines: [...above.slice(0, KNOWN_BY), ...above.slice(-1), lines[marked] ?? ''],
  };
}

/** Does the dialog show this question with all its options? Ignores line breaks, which depend on the width of the screen. */
export function showsQuestion(dialog: Dialog, { question, options }: AskedQuestion): boolean {
  return (
    dialog.kind === 'question' &&
    squashed(dialog.text) === squashed(question) &&
    options.every(({ label }, at) => squashed(dialog.rows[at]?.text ?? '').startsWith(squashed(label)))
  );
}

/** A text without characters that a screen adds or drops: spaces, the rule beside a long question, invisible characters. */
export function squashed(text: string): string {
  return text.replace(/[\s│\p{Cc}\p{Cf}\uFE0F]/gu, '');
}
