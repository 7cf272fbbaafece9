import { inserted } from '../clients/settings/insertions.ts';
import { addToJson, removeFromJson } from '../clients/settings/jsonc-edit.ts';
import { readTree } from '../clients/settings/jsonc-tree.ts';
import { NotEditable } from '../clients/settings/not-editable.ts';
import { parseJsonc } from './jsonc.ts';

/**
 * The text with one member of its outermost object set, or removed if the value is undefined. Comments, order and layout of the
 * rest stay as they are, character for character. What does not read back as meant is refused.
 */
export function withMember(text: string, key: string, value: unknown): string {
  const before = objectIn(text);
  const changed = edited(text, key, value);
  const expected = { ...before, [key]: value };
  if (value === undefined) delete expected[key];
  if (!Bun.deepEquals(objectIn(changed), expected)) throw new NotEditable('it would not read back as meant');
  return changed;
}

function edited(text: string, key: string, value: unknown): string {
  const [found, ...others] = readTree(text).items.filter((item) => item.key === key);
  if (others.length > 0) throw new NotEditable('the key stands there twice');
  if (value === undefined) {
    const left = found
      ? removeFromJson(text, { at: [key], append: false, value: found.node.value, made: 0 })
      : { text };
    if (typeof left === 'object') return left.text;
    throw new NotEditable('it would not read back as meant');
  }
  if (found) return text.slice(0, found.node.start) + JSON.stringify(value) + text.slice(found.node.end);
  return inserted(text, addToJson(text, { at: [key], append: false, value }).insertions);
}

function objectIn(text: string): Record<string, unknown> {
  const value = parseJsonc(text);
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw new NotEditable('it does not hold one JSON object');
}
