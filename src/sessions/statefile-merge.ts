export type JsonObject = { [key: string]: unknown };

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * The state after a patch. What the patch leaves out stays; objects are merged at every depth; everything else replaces what
 * was there, lists and null too. Neither the state nor the patch is changed. spec: statefile#merge
 */
export function patched(state: JsonObject, patch: JsonObject): JsonObject {
  const changed = Object.entries(patch).map(([key, value]): [string, unknown] => {
    const before = Object.hasOwn(state, key) ? state[key] : undefined;
    return [key, isJsonObject(value) ? patched(isJsonObject(before) ? before : {}, value) : value];
  });
  // Entries and not assignments: a key `__proto__` is a key like any other.
  return Object.fromEntries([...Object.entries(state), ...changed]);
}
