/** How deep the fields of what another program wrote may be nested. What is deeper can be read, but not written again. */
const DEEPEST = 100;

export function isTooDeep(value: unknown, levels = DEEPEST): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return levels === 0 || Object.values(value).some((one) => isTooDeep(one, levels - 1));
}
