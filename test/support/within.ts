/** On a busy machine a process waits for its turn: of what a turn takes beyond this, only a tenth is counted. */
const TURN_MS = 5;

/**
 * Asks again and again until it is so, for at most so long. Time in which this process did not have its turn hardly counts: on a busy
 * machine everything that it waits for here is late as well. Who waits for another process gives it far more than it needs.
 */
export async function within(ms: number, isSo: () => Promise<boolean>): Promise<void> {
  let [left, since] = [ms, performance.now()];
  // Made here, it names the line of the test that waits.
  const late = new Error(`not so after ${ms} ms`);
  while (!(await isSo())) {
    if (left < 0) throw late;
    await Bun.sleep(1);
    const now = performance.now();
    const took = now - since;
    left -= Math.max(Math.min(took, TURN_MS), took / 10);
    since = now;
  }
}
