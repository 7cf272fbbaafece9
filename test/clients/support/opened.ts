// What a test opened, and its end. A test file says `afterEach(closeAll)`; everything that this folder starts adds itself.

interface Opened {
  close(): Promise<void>;
}

const opened: Opened[] = [];

/** Remembers what has to be closed; gives it back. */
export function opens<T extends Opened>(one: T): T {
  opened.push(one);
  return one;
}

/** Closes everything, the newest first. Whatever goes wrong with one, the others are closed too. */
export async function closeAll(): Promise<void> {
  const failed: unknown[] = [];
  for (let one = opened.pop(); one; one = opened.pop()) {
    try {
      await one.close();
    } catch (error) {
      failed.push(error);
    }
  }
  if (failed.length > 0) throw new AggregateError(failed, failed.map(String).join('; '));
}
