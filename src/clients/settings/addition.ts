import * as v from 'valibot';
import { Schema } from '../../protocol/schema.ts';
import type { Described } from '../../protocol/schema.ts';
import { inserted } from './insertions.ts';
import type { Removal } from './insertions.ts';
import { addToJson, removeFromJson } from './jsonc-edit.ts';
import { NotEditable } from './not-editable.ts';
import { appendBlock, differOnlyAt, inToml, readToml, removeBlock } from './text-block.ts';

const Path = () => v.array(v.string());

/**
 * What we add to a file, in the words of its format. A `whole` file is ours alone. In JSON and TOML it is what stands at a path, or,
 * to append, one more of what is listed there.
 */
export const Content = new Schema(() =>
  v.variant('format', [
    v.object({ format: v.literal('json'), at: Path(), append: v.boolean(), value: v.unknown() }),
    v.object({ format: v.literal('toml'), at: Path(), block: v.string(), append: v.optional(v.boolean()) }),
    v.object({ format: v.literal('markdown'), block: v.string() }),
    v.object({ format: v.literal('whole'), text: v.string(), mode: v.optional(v.number()) }),
  ]),
);
export type Content = Described<typeof Content>;

/** How a text must be changed, and what is needed to undo it. */
export const Edit = new Schema(() =>
  v.object({
    insertions: v.array(v.object({ at: v.number(), text: v.string() })),
    made: v.number(),
  }),
);
export type Edit = Described<typeof Edit>;

/** An absent file is read as the emptiest one of its format. */
export function blankOf({ format }: Content): string {
  return format === 'json' ? '{}\n' : '';
}

/** How this content gets into the text. What cannot be read is refused, and so is what would not read back as meant. */
export function editFor(content: Content, text: string): Edit {
  switch (content.format) {
    case 'json':
      return addToJson(text, content);
    case 'toml':
      return { insertions: tomlInsertions(text, content), made: 0 };
    case 'markdown':
      return { insertions: appendBlock(text, content.block), made: 0 };
    case 'whole':
      return { insertions: [{ at: 0, text: content.text }], made: 0 };
  }
}

function tomlInsertions(text: string, { at, block, append }: TomlBlock): Edit['insertions'] {
  const before = readToml(text);
  const insertions = appendBlock(text, block);
  const after = inserted(text, insertions);
  try {
    if (before && differOnlyAt(text, after, at) && isMore(inToml(text, at), inToml(after, at), append))
      return insertions;
  } catch {
    // An inline table cannot be added to by a block of its own.
  }
  throw new NotEditable(`cannot take a table [${at.join('.')}] at its end`);
}

interface TomlBlock {
  at: string[];
  block: string;
  append?: boolean | undefined;
}

/** Is something there now that was not, and everything that was listed before? */
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

/** The text without this content, in a file that others have changed since. */
export function textWithout(content: Content, { insertions, made }: Edit, text: string): Removal {
  switch (content.format) {
    case 'json':
      return removeFromJson(text, { ...content, made });
    case 'toml':
      return withoutToml(text, content, insertions);
    case 'markdown':
      return withoutSection(text, content.block, insertions);
    case 'whole':
      return 'changed';
  }
}

function withoutToml(text: string, { at, append }: TomlBlock, insertions: Edit['insertions']): Removal {
  if (inToml(text, at) === undefined) return 'gone';
  const result = removeBlock(text, insertions);
  // Of several in a list nobody can tell whether ours was changed or removed.
  if (typeof result === 'string') return append ? 'gone' : 'changed';
  try {
    // A line that somebody added below ours would now belong to the table before it.
    const isClean = append
      ? isMore(inToml(result.text, at), inToml(text, at), true)
      : inToml(result.text, at) === undefined;
    return isClean && differOnlyAt(text, result.text, at) ? result : 'changed';
  } catch {
    return 'changed';
  }
}

function withoutSection(text: string, block: string, insertions: Edit['insertions']): Removal {
  const result = removeBlock(text, insertions);
  const [mark = ''] = block.split('\n');
  return result === 'gone' && text.includes(mark) ? 'changed' : result;
}
