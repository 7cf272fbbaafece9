import { createScanner, parse, parseTree, printParseErrorCode } from 'jsonc-parser';
import type { Node, ParseError } from 'jsonc-parser';
import { inserted, lineEndOf, NotEditable } from './text-edit.ts';
import type { Insertion, Removal } from './text-edit.ts';

/*
 * JSON with comments and trailing commas. The library only parses it. Its `modify` is not used: it puts a new member before the comment beside
 * the last one, and removes comments together with values. Our edits keep every comment where it is.
 */

/** A value that we add to a JSON text: as the member at the end of a path, or as one more element of the array there. */
export interface JsonAddition {
  at: readonly string[];
  append: boolean;
  value: unknown;
}

/** The value of a JSON text. Throws SyntaxError. */
export function parseJsonc(text: string): unknown {
  const { root, errors } = read(text);
  const [first] = errors;
  if (root && !first) return valueOf(root);
  const line = text.slice(0, first?.offset).split('\n').length;
  throw new SyntaxError(`${first ? printParseErrorCode(first.error) : 'no value'} in line ${line}`);
}

/** The first error in a text as strict JSON, without comments and trailing commas: `CommaExpected in line 3, column 5`. Null if there is none. */
export function jsonFault(text: string): string | null {
  const errors: ParseError[] = [];
  parse(text, errors, { disallowComments: true });
  const [first] = errors;
  if (!first) return null;
  const before = text.slice(0, first.offset).split('\n');
  return `${printParseErrorCode(first.error)} in line ${before.length}, column ${(before.at(-1)?.length ?? 0) + 1}`;
}

/** Parses a file that we want to edit. Throws NotEditable. */
export function readJson(text: string): unknown {
  return valueOf(treeOf(text));
}

function treeOf(text: string): Node {
  const { root, errors } = read(text);
  if (!root || errors.length > 0) throw new NotEditable('is not valid JSON');
  return root;
}

function read(text: string): { root: Node | undefined; errors: ParseError[] } {
  const errors: ParseError[] = [];
  // Replace a byte order mark by a blank, which keeps all positions.
  const root = parseTree(text.replace(/^\ufeff/, ' '), errors, { allowTrailingComma: true });
  return { root, errors };
}

/** The value of a node, without one of the items in it. */
function valueOf({ type, children = [], value }: Node, without?: Node): unknown {
  if (type !== 'object' && type !== 'array') return value;
  const kept = children.filter((item) => item !== without);
  if (type === 'array') return kept.map((item) => valueOf(item, without));
  return Object.fromEntries(kept.map((item) => [keyOf(item), valueOf(held(item), without)]));
}

/** The key of a member of an object. */
function keyOf({ children }: Node): string {
  return String(children?.[0]?.value);
}

/** The value of a member, or the element itself. */
function held(item: Node): Node {
  return item.children && item.type === 'property' ? (item.children[1] ?? item) : item;
}

function endOf({ offset, length }: Node): number {
  return offset + length;
}

/** Whether there is a member at this path, with any value. */
export function hasMember(text: string, at: readonly string[]): boolean {
  return membersAlong(treeOf(text), at).length === at.length;
}

/** The members along a path, as far as they exist. If a key is there twice, the last one counts, as in every parser. */
function membersAlong(root: Node, at: readonly string[]): Node[] {
  const members: Node[] = [];
  let node = root;
  for (const key of at) {
    const member = node.type === 'object' ? node.children?.findLast((one) => keyOf(one) === key) : undefined;
    if (!member) break;
    members.push(member);
    node = held(member);
  }
  return members;
}

/**
 * The insertions that add the value as the last one in its container, and how many containers they create around it. Comments, order,
 * indentation, line ends, trailing commas and a byte order mark stay. Throws NotEditable if the result would not read back as intended.
 */
export function addToJson(
  text: string,
  { at, append, value }: JsonAddition,
): { insertions: Insertion[]; made: number } {
  const root = treeOf(text);
  const there = membersAlong(root, append ? at : at.slice(0, -1));
  const missing = at.slice(there.length);
  const parent = held(there.at(-1) ?? root);
  const wanted = append && missing.length === 0 ? 'array' : 'object';
  if (parent.type !== wanted)
    throw new NotEditable(
      `has no ${wanted} at ${there.length === 0 ? 'its top' : `"${at.slice(0, there.length).join('.')}"`}`,
    );
  const [key, ...inner] = missing;
  const whole = inner.reduceRight<unknown>(
    (content, name) => ({ [name]: content }),
    append && key !== undefined ? [value] : value,
  );
  const insertions = lastIn(text, root, parent, key, whole);
  if (!Bun.deepEquals(readJson(inserted(text, insertions)), withValue(valueOf(root), at, append, value), true))
    throw new NotEditable('would not read back as meant');
  return { insertions, made: Math.max(0, append ? missing.length : missing.length - 1) };
}

/** Inserts an item after everything in its container, so that no comment changes its neighbour. */
function lastIn(text: string, root: Node, parent: Node, key: string | undefined, value: unknown): Insertion[] {
  const [first] = parent.children ?? [];
  const last = parent.children?.at(-1);
  const close = endOf(parent) - 1;
  const content = text.slice(0, close).replace(/[ \t\r\n]+$/, '').length;
  const onLines = !last || text.slice(parent.offset, close).includes('\n');
  const lineEnd = lineEndOf(text);
  const unit = (root.children?.[0] && ownIndent(text, root.children[0].offset)) || '  ';
  const base = /^[ \t]*/.exec(text.slice(text.lastIndexOf('\n', parent.offset - 1) + 1, parent.offset))?.[0] ?? '';
  const indent = (first && ownIndent(text, first.offset)) ?? base + unit;
  const written = JSON.stringify(value, null, onLines ? unit : undefined).replaceAll('\n', `${lineEnd}${indent}`);
  const item = key === undefined ? written : `${JSON.stringify(key)}: ${written}`;
  const isTrailing = last !== undefined && commaAfter(text, last) !== undefined;
  return [
    ...(last && !isTrailing ? [{ at: endOf(held(last)), text: ',' }] : []),
    { at: content, text: `${onLines ? `${lineEnd}${indent}` : ' '}${item}${isTrailing ? ',' : ''}` },
    ...(onLines && !text.slice(content, close).includes('\n') ? [{ at: close, text: `${lineEnd}${base}` }] : []),
  ];
}

/** The blanks before something, if nothing else is before it on its line. */
function ownIndent(text: string, at: number): string | undefined {
  return /(?:^|\n)([ \t]*)$/.exec(text.slice(0, at))?.[1];
}

/** The position of the comma after an item, if there is one. */
function commaAfter(text: string, item: Node): number | undefined {
  const scanner = createScanner(text, true);
  scanner.setPosition(endOf(held(item)));
  scanner.scan();
  return text[scanner.getTokenOffset()] === ',' ? scanner.getTokenOffset() : undefined;
}

/** The value that the whole text must have after the addition. */
function withValue(whole: unknown, at: readonly string[], append: boolean, value: unknown): unknown {
  const [key, ...rest] = at;
  if (key === undefined) return append ? [...((whole ?? []) as unknown[]), value] : value;
  const object = (whole ?? {}) as Record<string, unknown>;
  const inner = Object.hasOwn(object, key) ? object[key] : undefined;
  return Object.fromEntries([...Object.entries(object), [key, withValue(inner, rest, append, value)]]);
}

/**
 * The text without the value, and without the containers that were made for it if they are empty now. The rest
 * stays. `gone` if it is not there; `changed` if something else is in its place.
 */
export function removeFromJson(text: string, { at, append, value, made }: JsonAddition & { made: number }): Removal {
  const root = treeOf(text);
  const members = membersAlong(root, at);
  if (members.length < at.length) return 'gone';
  const isOurs = (item: Node): boolean => Bun.deepEquals(valueOf(held(item)), value, true);
  const found = append ? held(members.at(-1) ?? root).children?.findLast(isOurs) : members.pop();
  if (!found) return 'gone';
  if (!isOurs(found)) return 'changed';
  let item = found;
  let parent = members.pop();
  for (let left = made; left > 0 && parent && isAlone(text, held(parent), item); left -= 1) {
    item = parent;
    parent = members.pop();
  }
  const result = textWithout(text, held(parent ?? root), item);
  return Bun.deepEquals(readJson(result), valueOf(root, item), true) ? { text: result } : 'changed';
}

/** Whether the container is empty, without even a comment. */
function isAlone(text: string, parent: Node, item: Node): boolean {
  const rest = text.slice(parent.offset + 1, item.offset) + text.slice(endOf(held(item)), endOf(parent) - 1);
  return parent.children?.length === 1 && /^[ \t\r\n,]*$/.test(rest);
}

function textWithout(text: string, parent: Node, item: Node): string {
  // Then not even its lines are left.
  if (isAlone(text, parent, item)) return text.slice(0, parent.offset + 1) + text.slice(endOf(parent) - 1);
  const end = endOf(held(item));
  const before = parent.children?.[parent.children.indexOf(item) - 1];
  const own = commaAfter(text, item);
  const blanks = /[ \t\r\n]*$/.exec(text.slice(0, item.offset))?.[0] ?? '';
  // The line break before it may end a comment, so remove it only if another line break follows.
  const withBlanks = !blanks.includes('\n') || /^[ \t]*,?[ \t]*\r?\n/.test(text.slice(end));
  const start = item.offset - (withBlanks ? blanks.length : 0);
  if (own !== undefined) return text.slice(0, start) + text.slice(end, own) + text.slice(own + 1);
  // If it is the last item, remove the comma before it, too.
  const comma = (before && commaAfter(text, before)) ?? start;
  return text.slice(0, comma) + text.slice(comma + (comma < start ? 1 : 0), start) + text.slice(end);
}

/** The text with one member of its outermost object set, or removed if the value is undefined. The rest stays as it is. */
export function withMember(text: string, key: string, value: unknown): string {
  // Throws SyntaxError if the text is not JSON.
  parseJsonc(text);
  const root = treeOf(text);
  if (root.type !== 'object') throw new NotEditable('it does not hold one JSON object');
  const [found, ...others] = (root.children ?? []).filter((item) => keyOf(item) === key);
  if (others.length > 0) throw new NotEditable('the key is there twice');
  if (!found) {
    if (value === undefined) return text;
    return inserted(text, addToJson(text, { at: [key], append: false, value }).insertions);
  }
  if (value !== undefined)
    return text.slice(0, held(found).offset) + JSON.stringify(value) + text.slice(endOf(held(found)));
  const left = removeFromJson(text, { at: [key], append: false, value: valueOf(held(found)), made: 0 });
  if (typeof left === 'object') return left.text;
  throw new NotEditable('it would not read back as meant');
}
