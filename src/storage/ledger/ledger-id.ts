/** Beside a ledger stands the name of its life: without it a lost ledger looks like a new one. */
export function witnessOf(path: string): string {
  return `${path}.id`;
}
