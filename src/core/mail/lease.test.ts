import { describe, expect, it } from 'bun:test';
import type { WaitingCopy } from '../ports/journal.ts';
import { aMessage } from '../../../test/support/mail.ts';
import { aWorkspace } from '../../../test/support/workspace.ts';
import { lease } from './lease.ts';

describe('a lease', () => {
  it('that searches thousands of messages without a match lets other work run meanwhile', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const text = JSON.stringify(aMessage({ scope: 'github.com/a/b' }));
    const waiting = Array.from({ length: 5000 }, (_, n) => ({ seq: n + 1, text }) as WaitingCopy);
    workspace.own.journal.waitingCopies = async (_mailbox, after, limit) => waiting.slice(after, after + limit);
    let turns = 0;
    let other: NodeJS.Immediate;
    const takeTurn = (): void => {
      turns += 1;
      other = setImmediate(takeTurn);
    };
    other = setImmediate(takeTurn);
    const { copies } = await lease(workspace.who('bob'), { match: 'github.com/c/d', max: 10 }, 1000);
    clearImmediate(other);
    expect(copies).toEqual([]);
    expect(turns).toBeGreaterThan(10);
  });
});
