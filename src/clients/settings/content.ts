import * as v from 'valibot';
import { Schema } from '../../core/schema.ts';
import type { Described } from '../../core/schema.ts';
import { addToJson, hasMember, removeFromJson } from './jsonc.ts';
import type { Removal } from './text-edit.ts';
import { addToToml, appendBlock, inToml, removeBlock, removeFromToml } from './toml.ts';

const Path = () => v.array(v.string());

/**
 * The content of an addition, by the format of its file. In JSON and TOML it is the value at a path or, with `append`, one more element of the
 * list there. In Markdown it is a block of lines. A `whole` file is ours alone.
 */
export const SettingsContent = new Schema(() =>
  v.variant('format', [
    v.object({ format: v.literal('json'), at: Path(), append: v.boolean(), value: v.unknown() }),
    v.object({ format: v.literal('toml'), at: Path(), block: v.string(), append: v.optional(v.boolean()) }),
    v.object({ format: v.literal('markdown'), block: v.string() }),
    v.object({ format: v.literal('whole'), text: v.string(), mode: v.optional(v.number()) }),
  ]),
);
export type SettingsContent = Described<typeof SettingsContent>;

/** The insertions that change a text, which also undo the change. `made`: how many containers were created around the value. */
export const Edit = new Schema(() =>
  v.object({
    insertions: v.array(v.object({ at: v.number(), text: v.string() })),
    made: v.number(),
  }),
);
export type Edit = Described<typeof Edit>;

/** The text of an empty file of this format, used if there is no file. */
export function blankOf({ format }: SettingsContent): string {
  return format === 'json' ? '{}\n' : '';
}

/** Whether the text already has a value at the place of this content. For a whole file: whether it is exactly this text. */
export function isPresent(content: SettingsContent, text: string): boolean {
  if (content.format === 'json') return hasMember(text, content.at);
  if (content.format === 'toml') return inToml(text, content.at) !== undefined;
  return content.format === 'whole' && text === content.text;
}

/** The edit that adds this content to a text. Throws NotEditable if the text cannot be parsed, or would not read back as intended. */
export function editFor(content: SettingsContent, text: string): Edit {
  switch (content.format) {
    case 'json':
      return addToJson(text, content);
    case 'toml':
      return { insertions: addToToml(text, content), made: 0 };
    case 'markdown':
      return { insertions: appendBlock(text, content.block), made: 0 };
    case 'whole':
      return { insertions: [{ at: 0, text: content.text }], made: 0 };
  }
}

/** The text without this content, if others have changed the file since we added it. */
export function textWithout(content: SettingsContent, { insertions, made }: Edit, text: string): Removal {
  switch (content.format) {
    case 'json':
      return removeFromJson(text, { ...content, made });
    case 'toml':
      return removeFromToml(text, content, insertions);
    case 'markdown': {
      const result = removeBlock(text, insertions);
      const [mark = ''] = content.block.split('\n');
      return result === 'gone' && text.includes(mark) ? 'changed' : result;
    }
    case 'whole':
      return 'changed';
  }
}
