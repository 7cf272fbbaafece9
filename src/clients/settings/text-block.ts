import { lineEndOf } from './insertions.ts';
import type { Insertion, Removal } from './insertions.ts';
import { NotEditable } from './not-editable.ts';

const BOM = '\ufeff';

/** A block of lines at the end of a text, set off by one empty line. */
export function appendBlock(text: string, block: string): Insertion[] {
  const lineEnd = lineEndOf(text);
  const gap = text === '' || text === BOM ? '' : text.endsWith('\n') ? lineEnd : lineEnd + lineEnd;
  return [{ at: text.length, text: gap + block.replaceAll('\n', lineEnd) }];
}

/** The text without the block that was appended, wherever it stands now. `gone` if it is not there, or is there twice. */
export function removeBlock(text: string, [insertion]: readonly Insertion[]): Removal {
  const added = insertion?.text ?? '';
  const block = added.trimStart();
  const at = text.indexOf(block);
  if (block === '' || at < 0 || text.indexOf(block, at + 1) >= 0) return 'gone';
  const gap = added.slice(0, added.length - block.length);
  const head = text.slice(0, at);
  // The empty line before it is ours too, unless it has gone by another hand: then this would be the end of their last line.
  const isOurs = head.endsWith(`\n${gap}`) || /\n\r?\n/.test(gap);
  const before = head.endsWith(gap) && isOurs ? head.slice(0, head.length - gap.length) : head;
  return { text: before + text.slice(at + block.length) };
}

/** A TOML text as a value. */
export function readToml(text: string): Record<string, unknown> {
  try {
    return Bun.TOML.parse(text.replace(/^\ufeff/, '')) as Record<string, unknown>;
  } catch {
    throw new NotEditable('is not valid TOML');
  }
}

/** What a TOML text holds at a path of tables, however it is written there. */
export function inToml(text: string, at: readonly string[]): unknown {
  let value: unknown = readToml(text);
  for (const key of at) value = isTable(value) && Object.hasOwn(value, key) ? value[key] : undefined;
  return value;
}

/** True if two TOML texts differ only in what stands at this path. */
export function differOnlyAt(one: string, other: string, at: readonly string[]): boolean {
  return Bun.deepEquals(lessAt(readToml(one), at), lessAt(readToml(other), at));
}

/** Tables that are empty without it count as absent: TOML makes them by naming what is in them. */
function lessAt(value: Record<string, unknown>, [key = '', ...rest]: readonly string[]): Record<string, unknown> {
  const { [key]: inner, ...others } = value;
  if (rest.length === 0 || !isTable(inner)) return rest.length === 0 ? others : value;
  const less = lessAt(inner, rest);
  return Object.keys(less).length === 0 ? others : { ...others, [key]: less };
}

function isTable(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
