import { inserted, lineEndOf, NotEditable } from './text-edit.ts';
import type { Insertion, Removal } from './text-edit.ts';

/** A block of TOML at the end of a file: the table at a path or, with `append`, more elements of the list there. */
interface TomlAddition {
  at: readonly string[];
  block: string;
  append?: boolean | undefined;
}

/** A TOML text as a value. */
export function readToml(text: string): Record<string, unknown> {
  try {
    return Bun.TOML.parse(text.replace(/^\ufeff/, '')) as Record<string, unknown>;
  } catch {
    throw new NotEditable('is not valid TOML');
  }
}

/** The value at a path of tables in a TOML text, in whatever notation it is written. */
export function inToml(text: string, at: readonly string[]): unknown {
  let value: unknown = readToml(text);
  for (const key of at) value = isTable(value) && Object.hasOwn(value, key) ? value[key] : undefined;
  return value;
}

/** The insertions that add a block. Throws NotEditable if the result would not read back as intended. */
export function addToToml(text: string, { at, block, append }: TomlAddition): Insertion[] {
  readToml(text);
  const insertions = appendBlock(text, block);
  const after = inserted(text, insertions);
  try {
    if (differOnlyAt(text, after, at) && isMore(inToml(text, at), inToml(after, at), append)) return insertions;
  } catch {
    // A block of its own cannot extend an inline table.
  }
  throw new NotEditable(`cannot take a table [${at.join('.')}] at its end`);
}

/** The text without an inserted block. `changed` if the removal would change more than that block. */
export function removeFromToml(text: string, { at, append }: TomlAddition, insertions: readonly Insertion[]): Removal {
  if (inToml(text, at) === undefined) return 'gone';
  const result = removeBlock(text, insertions);
  // In a list of several, it is unknown whether ours was changed or removed.
  if (typeof result === 'string') return append ? 'gone' : 'changed';
  try {
    // A line that others added below ours would then belong to the table before.
    const isClean = append
      ? isMore(inToml(result.text, at), inToml(text, at), true)
      : inToml(result.text, at) === undefined;
    return isClean && differOnlyAt(text, result.text, at) ? result : 'changed';
  } catch {
    return 'changed';
  }
}

/** Whether the addition is in `after`: any value, or with `append` a longer list that still has every element of `before`. */
function isMore(before: unknown, after: unknown, append = false): boolean {
  if (!append) return after !== undefined;
  const [fewer, more] = [before ?? [], after ?? []];
  if (!Array.isArray(fewer) || !Array.isArray(more) || more.length <= fewer.length) return false;
  const rest: unknown[] = [...more];
  return fewer.every((one) => {
    const found = rest.findIndex((other) => Bun.deepEquals(one, other, true));
    rest.splice(0, found + 1);
    return found >= 0;
  });
}

/** True if two TOML texts differ only in what is at this path. */
function differOnlyAt(one: string, other: string, at: readonly string[]): boolean {
  return Bun.deepEquals(tomlWithout(readToml(one), at), tomlWithout(readToml(other), at));
}

/** A TOML value without the value at this path. Also drops tables that are then empty, because TOML creates them only by naming their content. */
export function tomlWithout(
  value: Record<string, unknown>,
  [key = '', ...rest]: readonly string[],
): Record<string, unknown> {
  const { [key]: inner, ...others } = value;
  if (rest.length === 0 || !isTable(inner)) return rest.length === 0 ? others : value;
  const less = tomlWithout(inner, rest);
  return Object.keys(less).length === 0 ? others : { ...others, [key]: less };
}

function isTable(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A block of lines at the end of a text, after one empty line. */
export function appendBlock(text: string, block: string): Insertion[] {
  const lineEnd = lineEndOf(text);
  const gap = text === '' || text === '\ufeff' ? '' : text.endsWith('\n') ? lineEnd : lineEnd + lineEnd;
  return [{ at: text.length, text: gap + block.replaceAll('\n', lineEnd) }];
}

/** The text without the appended block, wherever it is now. `gone` if it is missing, or there twice. */
export function removeBlock(text: string, [insertion]: readonly Insertion[]): Removal {
  const added = insertion?.text ?? '';
  const block = added.trimStart();
  const at = text.indexOf(block);
  if (block === '' || at < 0 || text.indexOf(block, at + 1) >= 0) return 'gone';
  const gap = added.slice(0, added.length - block.length);
  const head = text.slice(0, at);
  // The empty line before it is ours, too. If others removed it, this line break ends their last line and must stay.
  const isOurs = head.endsWith(`\n${gap}`) || /\n\r?\n/.test(gap);
  const before = head.endsWith(gap) && isOurs ? head.slice(0, head.length - gap.length) : head;
  return { text: before + text.slice(at + block.length) };
}
