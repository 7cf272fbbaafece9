import { describe, expect, it } from 'bun:test';
import { Together } from './together.ts';

describe('requests that come together', () => {
  it('are begun at the end of the turn, in order, once the first of them is at work', async () => {
    const [together, begun] = [new Together(), [] as number[]];
    const { promise: answered, resolve: answer } = Promise.withResolvers<void>();
    const ask = (n: number): Promise<void> =>
      together.begin(() => {
        begun.push(n);
        return answered;
      });
    const all = [ask(0), ask(1), ask(2)];
    await Promise.resolve();
    // Nobody was at work when it came.
    expect(begun).toEqual([0]);
    await new Promise((resolve) => setImmediate(resolve));
    expect(begun).toEqual([0, 1, 2]);
    answer();
    await Promise.all(all);
  });

  it('wait for nothing when those before are answered, or have failed', async () => {
    const together = new Together();
    await together.begin(async () => {});
    expect(await together.begin(() => Promise.reject(new Error('no'))).catch(String)).toBe('Error: no');
    let isBegun = false;
    const asked = together.begin(async () => {
      isBegun = true;
    });
    expect(isBegun).toBe(true);
    await asked;
  });
});
