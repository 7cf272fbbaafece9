import { inserted, lineEndOf } from './insertions.ts';
import type { Insertion, Removal } from './insertions.ts';
import { readTree } from './jsonc-tree.ts';
import type { Item, Node } from './jsonc-tree.ts';
import { NotEditable } from './not-editable.ts';

/** A value that we add to a JSON text: as the member at the end of a path, or as one more element of the array there. */
export interface JsonSpot {
  at: readonly string[];
  append: boolean;
  value: unknown;
}

export interface JsonAddition {
  insertions: Insertion[];
  /** How many of the containers around the value were not there and came with it. */
  made: number;
}

/** Is there a member at this path, whatever its value? */
export function hasMember(text: string, at: readonly string[]): boolean {
  return chainTo(readTree(text), at).length === at.length;
}

/**
 * What must be put into the text so that it holds the value, last in its container. Nothing is taken out or moved: comments, order,
 * indentation, line ends, trailing commas and a byte order mark stay. What would not read back as meant is refused.
 */
export function addToJson(text: string, { at, append, value }: JsonSpot): JsonAddition {
  const root = readTree(text);
  const there = chainTo(root, append ? at : at.slice(0, -1));
  const missing = at.slice(there.length);
  const parent = there.at(-1)?.node ?? root;
  const wanted = append && missing.length === 0 ? 'array' : 'object';
  if (parent.kind !== wanted) throw new NotEditable(`has no ${wanted} at ${nameOf(at.slice(0, there.length))}`);
  const [key, ...inner] = missing;
  const whole = inner.reduceRight<unknown>(
    (held, name) => ({ [name]: held }),
    append && key !== undefined ? [value] : value,
  );
  const insertions = lastIn(text, root, parent, key, whole);
  const expected = withValue(root.value, at, append, value);
  if (!Bun.deepEquals(readTree(inserted(text, insertions)).value, expected, true))
    throw new NotEditable('would not read back as meant');
  return { insertions, made: Math.max(0, append ? missing.length : missing.length - 1) };
}

/**
 * The text without the value, and without what was made around it if that is empty now; everything else stays, whoever wrote it.
 * `gone` if it is not there; `changed` if something else is in its place.
 */
export function removeFromJson(text: string, spot: JsonSpot & { made: number }): Removal {
  const root = readTree(text);
  const chain = chainTo(root, spot.at);
  if (chain.length < spot.at.length) return 'gone';
  const found = spot.append
    ? chain.at(-1)?.node.items.findLast(({ node }) => Bun.deepEquals(node.value, spot.value, true))
    : chain.pop();
  if (!found) return 'gone';
  if (!Bun.deepEquals(found.node.value, spot.value, true)) return 'changed';
  let item = found;
  let parent = chain.pop();
  for (let { made } = spot; made > 0 && parent && isAlone(text, parent.node, item); made -= 1) {
    item = parent;
    parent = chain.pop();
  }
  const result = without(text, parent?.node ?? root, item);
  return Bun.deepEquals(readTree(result).value, withoutItem(root, item), true) ? { text: result } : 'changed';
}

/** The members along a path, as far as they are there. Of a key that stands twice the last one counts, as for every reader. */
function chainTo(root: Node, at: readonly string[]): Item[] {
  const chain: Item[] = [];
  for (const key of at) {
    const { kind, items } = chain.at(-1)?.node ?? root;
    const item = kind === 'object' ? items.findLast((one) => one.key === key) : undefined;
    if (!item) break;
    chain.push(item);
  }
  return chain;
}

/** Puts an item after everything that its container holds, so that no comment changes its neighbour. */
function lastIn(text: string, root: Node, parent: Node, key: string | undefined, value: unknown): Insertion[] {
  const last = parent.items.at(-1);
  const close = parent.end - 1;
  const content = text.slice(0, close).replace(/[ \t\r\n]+$/, '').length;
  const onLines = !last || text.slice(parent.start, close).includes('\n');
  const lineEnd = lineEndOf(text);
  const unit = unitOf(text, root);
  const base = indentOf(text, parent.start);
  const indent = (parent.items[0] && ownIndent(text, parent.items[0].start)) ?? base + unit;
  const written = JSON.stringify(value, null, onLines ? unit : undefined).replaceAll('\n', `${lineEnd}${indent}`);
  const item = key === undefined ? written : `${JSON.stringify(key)}: ${written}`;
  const trailing = last?.comma === undefined ? '' : ',';
  return [
    ...(last && !trailing ? [{ at: last.node.end, text: ',' }] : []),
    { at: content, text: `${onLines ? `${lineEnd}${indent}` : ' '}${item}${trailing}` },
    ...(onLines && !text.slice(content, close).includes('\n') ? [{ at: close, text: `${lineEnd}${base}` }] : []),
  ];
}

function unitOf(text: string, root: Node): string {
  return (root.items[0] && ownIndent(text, root.items[0].start)) || '  ';
}

/** The blanks before something, if nothing else stands before it on its line. */
function ownIndent(text: string, at: number): string | undefined {
  return /(?:^|\n)([ \t]*)$/.exec(text.slice(0, at))?.[1];
}

/** The blanks at the start of the line on which something stands. */
function indentOf(text: string, at: number): string {
  const line = text.lastIndexOf('\n', at - 1) + 1;
  return /^[ \t]*/.exec(text.slice(line, at))?.[0] ?? '';
}

/** Is nothing else in the container, not even a comment? */
function isAlone(text: string, parent: Node, item: Item): boolean {
  const rest = text.slice(parent.start + 1, item.start) + text.slice(item.node.end, parent.end - 1);
  return parent.items.length === 1 && /^[ \t\r\n,]*$/.test(rest);
}

function without(text: string, parent: Node, item: Item): string {
  // Then not even its lines are left.
  if (isAlone(text, parent, item)) return cut(text, [[parent.start + 1, parent.end - 1]]);
  const at = parent.items.indexOf(item);
  const comma = item.comma ?? parent.items[at - 1]?.comma;
  const blanks = /[ \t\r\n]*$/.exec(text.slice(0, item.start))?.[0] ?? '';
  // The line break before it may end a comment: it goes only if another follows.
  const withBlanks = !blanks.includes('\n') || /^[ \t]*,?[ \t]*\r?\n/.test(text.slice(item.node.end));
  const cuts: [from: number, to: number][] = [[item.start - (withBlanks ? blanks.length : 0), item.node.end]];
  if (comma !== undefined) cuts.push([comma, comma + 1]);
  return cut(text, cuts);
}

function cut(text: string, cuts: [from: number, to: number][]): string {
  let result = text;
  // From the end, so that the places before stay true.
  for (const [from, to] of cuts.toSorted(([a], [b]) => b - a)) result = result.slice(0, from) + result.slice(to);
  return result;
}

/** What the whole must be read as after the addition. */
function withValue(whole: unknown, at: readonly string[], append: boolean, value: unknown): unknown {
  const [key, ...rest] = at;
  if (key === undefined) return append ? [...((whole ?? []) as unknown[]), value] : value;
  const object = (whole ?? {}) as Record<string, unknown>;
  const inner = Object.hasOwn(object, key) ? object[key] : undefined;
  return Object.fromEntries([...Object.entries(object), [key, withValue(inner, rest, append, value)]]);
}

/** What the whole must be read as without one item, wherever it is. */
function withoutItem({ kind, items, value }: Node, gone: Item): unknown {
  if (kind === 'leaf') return value;
  const kept = items
    .filter((item) => item !== gone)
    .map((item) => [item.key ?? '', withoutItem(item.node, gone)] as const);
  return kind === 'array' ? kept.map(([, one]) => one) : Object.fromEntries(kept);
}

function nameOf(at: readonly string[]): string {
  return at.length === 0 ? 'its top' : `"${at.join('.')}"`;
}
