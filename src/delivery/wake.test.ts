import { describe, expect, it } from 'bun:test';
import { aClock } from '../../test/support/clock.ts';
import { anId } from '../../test/support/mail.ts';
import { ScriptedTerminal, typing } from '../../test/support/terminal.ts';
import type { MessageId } from '../core/names.ts';
import { heartbeat, sentinel } from '../protocols/c2c/envelope.ts';
import { Heart, Waker } from './wake.ts';
import type { WakeParts, Woken } from './wake.ts';

const GAP = 15_000;
const signal = new AbortController().signal;

class Bench {
  readonly clock = aClock();
  readonly terminal = new ScriptedTerminal();
  readonly told: MessageId[][] = [];
  waiting: MessageId[] = [];
  disk: Woken = { ids: [], at: 0 };

  /** A loop as it is after a start: all it knows is on the disk. */
  waker(more: Partial<WakeParts> = {}): Waker {
    return new Waker({
      sentinel: sentinel('codex'),
      terminal: this.terminal,
      typing: typing(this.terminal),
      waits: async () => ({ ids: this.waiting, againMs: null }),
      notes: {
        read: () => this.disk,
        write: (woken) => {
          this.disk = woken;
        },
      },
      gapMs: GAP,
      now: this.clock.now,
      onWoken: async (ids) => {
        this.told.push([...ids]);
      },
      onLeft: () => {},
      ...more,
    });
  }

  get wakes(): number {
    return this.terminal.entered.length;
  }
}

describe('a session that may be woken', () => {
  it.each([
    ['codex', '<c2c event="message_pending">poll mcp__c2c__poll_inbox</c2c>'],
    ['opencode', '/mcp__c2c__poll_inbox'],
  ])('is woken as %s expects it [C2C-35b]', async (client, text) => {
    const bench = new Bench();
    bench.waiting = [anId()];
    await bench.waker({ sentinel: sentinel(client) }).look(signal);
    expect(bench.terminal.entered).toEqual([text]);
  });

  it.each(['claude', 'kimi', 'something-new'])(
    'is woken by one sentence that names the tool: %s [C2C-35b]',
    (client) => {
      expect(sentinel(client)).toMatch(/^[A-Z][^\n<>]*mcp__c2c__poll_inbox[^\n<>]*$/);
    },
  );

  it('is not said to be woken by a text whose Enter could not follow, and is woken when that is gone', async () => {
    const { bench, left, waker } = aStrandedWake({ entered: false, again: true });
    expect(await waker.look(signal)).toBeGreaterThan(0);
    expect(await waker.look(signal)).toBeGreaterThan(0);
    expect({ told: bench.told, left }).toEqual({ told: [], left: ['a question opened', 'there is a draft'] });
    bench.terminal.composer = '';
    await waker.look(signal);
    await waker.look(signal);
    expect({ told: bench.told, wakes: bench.wakes }).toEqual({ told: [bench.waiting], wakes: 1 });
  });

  it.each([
    ['nobody can see whether the text still stands there', false],
    ['nobody knows whether Enter came', 'unknown'],
  ] as const)('gets no second text, and is not said to be woken, when %s', async (_when, entered) => {
    const { bench, left, waker } = aStrandedWake({ entered, again: false });
    expect(await waker.look(signal)).toBeNull();
    bench.terminal.composer = '';
    bench.clock.pass(10 * GAP);
    expect(await waker.look(signal)).toBeNull();
    expect({ told: bench.told, wakes: bench.wakes, left }).toEqual({ told: [], wakes: 0, left: ['a question opened'] });
  });

  it('is not woken while nothing waits [C2C-35]', async () => {
    const bench = new Bench();
    expect(await bench.waker().look(signal)).toBeNull();
    expect(bench.wakes).toBe(0);
  });

  it('is woken once for any number of messages [C2C-35]', async () => {
    const bench = new Bench();
    const waker = bench.waker();
    bench.waiting = Array.from({ length: 100 }, anId);
    for (let n = 0; n < 100; n += 1) await waker.look(signal);
    expect(bench.wakes).toBe(1);
    expect(bench.told).toEqual([bench.waiting]);
  });

  it('is not woken again for what it was woken for, however long it waits and whatever of it was taken [C2C-35]', async () => {
    const bench = new Bench();
    const waker = bench.waker();
    bench.waiting = [anId(), anId(), anId()];
    await waker.look(signal);
    bench.clock.pass(10 * GAP);
    await waker.look(signal);
    bench.waiting = bench.waiting.slice(1);
    await waker.look(signal);
    expect(bench.wakes).toBe(1);
  });

  it('is not woken again by a loop that was killed and started again [C2C-35]', async () => {
    const bench = new Bench();
    bench.waiting = [anId()];
    await bench.waker().look(signal);
    bench.clock.pass(10 * GAP);
    await bench.waker().look(signal);
    expect(bench.wakes).toBe(1);
  });

  it('is not woken again by the loop that follows one that died while it typed [C2C-35]', async () => {
    const bench = new Bench();
    bench.waiting = [anId()];
    bench.terminal.onPaste = () => {
      throw new Error('killed');
    };
    const died: Partial<WakeParts> = {
      typing: (terminal) => ({
        name: 'terminal',
        attempt: async ([one]) => {
          await terminal.paste(one?.text ?? '');
          throw new Error('unreachable');
        },
      }),
    };
    await expect(bench.waker(died).look(signal)).rejects.toThrow('killed');
    bench.terminal.onPaste = () => {};
    bench.clock.pass(10 * GAP);
    expect(await bench.waker().look(signal)).toBeNull();
    expect(bench.wakes).toBe(0);
  });

  it('is woken at once after a quiet time, and for what comes then only after the gap [C2C-35, C2C-35b]', async () => {
    const bench = new Bench();
    const waker = bench.waker();
    bench.waiting = [anId()];
    await waker.look(signal);
    expect(bench.wakes).toBe(1);

    bench.clock.pass(1000);
    bench.waiting = [...bench.waiting, anId()];
    expect(await waker.look(signal)).toBe(GAP - 1000);
    expect(bench.wakes).toBe(1);
    bench.clock.pass(GAP - 1000);
    await waker.look(signal);
    expect(bench.wakes).toBe(2);

    bench.clock.pass(GAP);
    bench.waiting = [anId()];
    await waker.look(signal);
    expect(bench.wakes).toBe(3);
  });

  it('is not woken before the gap is over, also after a restart, and is woken although the clock was set back', async () => {
    const bench = new Bench();
    bench.waiting = [anId()];
    await bench.waker().look(signal);
    bench.waiting = [anId()];
    bench.clock.pass(5000);
    expect(await bench.waker().look(signal)).toBe(GAP - 5000);
    bench.clock.pass(-3_600_000);
    await bench.waker().look(signal);
    expect(bench.wakes).toBe(2);
  });

  it.each(['busy', 'dialog', 'starting', 'unknown'] as const)(
    'is left alone while it is %s, and woken as soon as it is idle',
    async (state) => {
      const bench = new Bench();
      const waker = bench.waker();
      bench.waiting = [anId()];
      bench.terminal.state = state;
      expect(await waker.look(signal)).toBeGreaterThan(0);
      expect(await waker.look(signal)).toBeGreaterThan(0);
      expect([bench.wakes, bench.terminal.composer, bench.disk.ids]).toEqual([0, '', []]);
      bench.terminal.state = 'idle';
      await waker.look(signal);
      expect(bench.wakes).toBe(1);
    },
  );

  it('is still to be woken after a paste that failed', async () => {
    const bench = new Bench();
    const waker = bench.waker();
    bench.waiting = [anId()];
    bench.terminal.breaks = new Error('no such pane');
    expect(await waker.look(signal)).toBeGreaterThan(0);
    bench.terminal.breaks = null;
    await bench.waker().look(signal);
    expect(bench.wakes).toBe(1);
  });
});

describe('a heartbeat', () => {
  it('comes at its interval, only to an idle session, and says how much waits [C2C-35c]', async () => {
    const bench = new Bench();
    const way = typing(bench.terminal)(bench.terminal);
    const text = (waiting: number): string => heartbeat({ alias: 'bob', ts: bench.clock.now() / 1000, waiting });
    const heart = new Heart({ text, way, intervalMs: 600_000, waiting: async () => 2, now: bench.clock.now });
    expect(await heart.look(signal)).toBe(600_000);
    expect(bench.wakes).toBe(0);
    bench.clock.pass(600_000);
    expect(await heart.look(signal)).toBe(600_000);
    expect(bench.terminal.entered).toEqual([
      `<c2c event="heartbeat" alias="bob" ts="${new Date(bench.clock.now()).toISOString()}" waiting="2"/>`,
    ]);
    bench.clock.pass(599_999);
    await heart.look(signal);
    expect(bench.wakes).toBe(1);
    bench.terminal.state = 'busy';
    bench.clock.pass(1);
    expect(await heart.look(signal)).toBe(600_000);
    expect(bench.wakes).toBe(1);
    bench.terminal.state = 'idle';
    bench.clock.pass(600_000);
    await heart.look(signal);
    expect(bench.wakes).toBe(2);
  });
});

/** A session whose first wake ends like this: the text is pasted, and no Enter is known to have followed. */
function aStrandedWake(ends: { entered: false | 'unknown'; again: boolean }) {
  const bench = new Bench();
  bench.waiting = [anId()];
  const usual = typing(bench.terminal);
  let strands = true;
  const stranding: WakeParts['typing'] = (terminal) => ({
    ...usual(terminal),
    async attempt(parcels, stop) {
      if (!strands) return usual(terminal).attempt(parcels, stop);
      strands = false;
      await terminal.paste('half');
      return { outcome: 'offered', evidence: { ...ends, because: 'a question opened' } };
    },
  });
  const left: string[] = [];
  return { bench, left, waker: bench.waker({ typing: stranding, onLeft: (because) => left.push(because) }) };
}
