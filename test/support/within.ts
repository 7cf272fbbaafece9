/** Asks again and again until it is so, for at most so long. */
export async function within(ms: number, isSo: () => Promise<boolean>): Promise<void> {
  const since = performance.now();
  while (!(await isSo())) {
    if (performance.now() - since > ms) throw new Error(`not so after ${ms} ms`);
    await Bun.sleep(1);
  }
}
