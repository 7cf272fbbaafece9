import type { StateFile } from './state-file.ts';
import { keepBroken, replaceFile } from './state-file.ts';

/** Times that the original reads only as floats: a whole number is written with its `.0`. */
const TIMES =
  /"(ts|registered_at|last_activity_ts|confirmed_at|dnd_since|dnd_until|pubkey_signed_at|started_at|joined_at|created_at|expires_at|resolved_at)":(-?\d+)(?=[,}])/g;

/**
 * Writes a list anew. Values that were read before stay as they were written, to the digit; if what stood there is broken, a copy is
 * kept first. The caller holds the lock. spec: c2c#writing
 */
export function writeKept(root: string, path: string, values: readonly unknown[], before: readonly StateFile[]): void {
  const texts = new Map(before.flatMap((file) => file.values.map((value, at) => [value, file.texts[at]])));
  const [stood] = before;
  if (stood?.broken) keepBroken(root, path, stood.broken);
  replaceFile(path, `[${values.map((value) => texts.get(value) ?? withFloats(value)).join(',')}]`);
}

/** A value as the original reads it. In a text within the text every quote has a backslash before it: only fields are found. */
export function withFloats(value: unknown): string {
  return JSON.stringify(value).replaceAll(TIMES, '"$1":$2.0');
}
