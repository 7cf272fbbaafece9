import { describe, expect, it } from 'bun:test';
import { standIn } from './stand-in.ts';

class Ready {
  #asked = 0;
  async ask(): Promise<number> {
    return (this.#asked += 1);
  }
}

class Rest {
  #told = 0;
  tell(): number {
    return (this.#told += 1);
  }
  get told(): number {
    return this.#told;
  }
  ask(): never {
    throw new Error('the ready part has this');
  }
}

describe('what stands in for a whole', () => {
  it('answers with the part that is ready, and loads nothing for that, not even where it is awaited', async () => {
    const one = await standIn(new Ready(), (): Rest => {
      throw new Error('loaded');
    });
    expect([await one.ask(), await one.ask()]).toEqual([1, 2]);
  });

  it('loads the rest once, with the first question for it, and each part keeps what it knows', () => {
    let loads = 0;
    const one = standIn(new Ready(), () => {
      loads += 1;
      return new Rest();
    });
    expect([one.tell(), one.tell(), one.told]).toEqual([1, 2, 2]);
    expect(loads).toBe(1);
  });

  it('tries again after the rest could not be loaded', () => {
    let tries = 0;
    const one = standIn(new Ready(), () => {
      tries += 1;
      if (tries === 1) throw new Error('too many open files');
      return new Rest();
    });
    expect(() => one.tell()).toThrow('too many open files');
    expect(one.tell()).toBe(1);
  });
});
