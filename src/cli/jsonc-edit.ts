import { parseJsonc, withoutComments } from './jsonc.ts';

/** A text that cannot be changed safely: the caller says what to do by hand. */
export class NotEditable extends Error {}

/**
 * The text with one member of its outermost object set, or removed if the value is undefined. Comments, order and layout of the
 * rest stay as they are, character for character. What does not read back as meant is refused.
 */
export function withMember(text: string, key: string, value: unknown): string {
  const before = objectIn(text);
  const members = membersOf(withoutComments(text));
  const found = members.find((member) => member.key === key);
  const changed = edited(text, members, found, key, value);
  const expected = { ...before, [key]: value };
  if (value === undefined) delete expected[key];
  if (!Bun.deepEquals(objectIn(changed), expected)) throw new NotEditable('it would not read back as meant');
  return changed;
}

function edited(text: string, members: Member[], found: Member | undefined, key: string, value: unknown): string {
  if (value === undefined) return found ? removed(text, members, found) : text;
  const written = JSON.stringify(value);
  if (found) return text.slice(0, found.value) + written + text.slice(found.end);
  return appended(text, members, `${JSON.stringify(key)}: ${written}`);
}

/** One member: where its key, its value and its end stand, and the comma after it. */
interface Member {
  key: string;
  start: number;
  value: number;
  end: number;
  comma?: number;
}

/** The members of the outermost object, in order. The text has no comments and is known to be valid. */
function membersOf(bare: string): Member[] {
  const members: Member[] = [];
  let depth = 0;
  let current: Member | undefined;
  for (const { 0: token, index } of bare.matchAll(/"(?:\\.|[^"\\])*"|[{}[\],:]|[^\s{}[\],:"]+/g)) {
    if (token === '}' || token === ']') depth -= 1;
    if (depth === 1 && token === ',' && current) {
      current.comma = index;
      current = undefined;
    } else if (depth === 1 && !current && token.startsWith('"')) {
      current = { key: String(JSON.parse(token)), start: index, value: 0, end: 0 };
      members.push(current);
    } else if (depth >= 1 && current && !(depth === 1 && token === ':')) {
      current.value ||= index;
      current.end = index + token.length;
    }
    if (token === '{' || token === '[') depth += 1;
  }
  return members;
}

/** A new member stands last, so that no comment changes its neighbour. */
function appended(text: string, members: Member[], member: string): string {
  const newline = text.includes('\r\n') ? '\r\n' : '\n';
  const close = withoutComments(text).lastIndexOf('}');
  const last = members.at(-1);
  const head =
    last && last.comma === undefined
      ? `${text.slice(0, last.end)},${text.slice(last.end, close)}`
      : text.slice(0, close);
  const indent = members[0] ? indentAt(text, members[0].start) : '  ';
  if (!last && /\{\s*$/.test(head)) return `${head.trimEnd()}${newline}  ${member}${newline}${text.slice(close)}`;
  const [gap = ''] = /[ \t]*$/.exec(head) ?? [];
  const line = head.slice(0, head.length - gap.length);
  if (line.endsWith('\n')) return `${line}${indent ?? '  '}${member}${newline}${gap}${text.slice(close)}`;
  return `${line} ${member}${gap || ' '}${text.slice(close)}`;
}

/** What stands before the first member of a line, if that is only blanks. */
function indentAt(text: string, at: number): string | undefined {
  return /(?:^|\n)([ \t]*)$/.exec(text.slice(0, at))?.[1];
}

function removed(text: string, members: Member[], found: Member): string {
  const after = found.comma === undefined ? found.end : found.comma + 1;
  // Comments between a value and its comma stay.
  const between = text.slice(found.end, after).replace(/,$/, '');
  const previous = found.comma === undefined ? members[members.indexOf(found) - 1]?.comma : undefined;
  let head = text.slice(0, found.start);
  if (previous !== undefined) head = head.slice(0, previous) + head.slice(previous + 1);
  let tail = between + text.slice(after);
  // A line that held nothing else goes with it.
  if (/(?:^|\n)[ \t]*$/.test(head) && /^[ \t]*\r?\n/.test(tail)) {
    head = head.replace(/[ \t]*$/, '');
    tail = tail.replace(/^[ \t]*\r?\n/, '');
  }
  return head + tail;
}

function objectIn(text: string): Record<string, unknown> {
  const value = parseJsonc(text);
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw new NotEditable('it does not hold one JSON object');
}
