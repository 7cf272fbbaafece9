import { describe, expect, it } from 'bun:test';
import { within } from '../../../test/support/within.ts';
import type { Who } from '../../core/mail/workspace.ts';
import { runRounds } from './loop.ts';

/** A mailbox of which no file ever tells anything. */
function aSilentOne(): Who {
  const spool = { watch: () => ({ close: () => {} }), heal: async () => {} };
  return { name: 'bob', home: { mailboxes: spool } } as unknown as Who;
}

/** How often somebody looked, while it goes on. */
function looking(aroundMs?: number, asked: number | null = null) {
  const stop = new AbortController();
  const seen = { looks: 0 };
  const look = async (): Promise<number | null> => {
    seen.looks += 1;
    return asked;
  };
  const ended = runRounds(async () => aSilentOne(), look, stop.signal, aroundMs);
  return { seen, stop: () => (stop.abort(), ended) };
}

describe('a loop', () => {
  it('looks around at its interval, though nothing tells it of mail [C2C-36]', async () => {
    const often = looking(10);
    const rarely = looking(3_600_000);
    await within(10_000, async () => often.seen.looks >= 5);
    expect(rarely.seen.looks).toBe(1);
    await Promise.all([often.stop(), rarely.stop()]);
  });

  it('looks again after as long as the last look asked for', async () => {
    const one = looking(3_600_000, 1);
    await within(10_000, async () => one.seen.looks >= 5);
    await one.stop();
  });
});
