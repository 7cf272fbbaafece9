// The entry of a worker thread: files are written and folders are listed here, so that nobody at the counter waits for a disk.
import { getPriority, setPriority } from 'node:os';
import { Clerk } from './back-room-clerk.ts';
import { troubleOf } from './back-room-talk.ts';
import type { Addressed, Order, Report } from './back-room-talk.ts';

declare const self: Worker;

/** Files may wait a moment longer than senders do: where there are more at work than processors, the counter goes first. */
const BEHIND = 5;
const LEAST = 19;
// Only Linux takes this for the thread alone.
if (process.platform === 'linux') setPriority(Math.min(getPriority() + BEHIND, LEAST));

const roots = new Map<number, string>();
const clerks = new Map<number, Clerk>();

self.addEventListener('message', ({ data }: MessageEvent<Addressed<Order>>) => {
  const { home, ...order } = data;
  const report = (what: Report): void => postMessage({ ...what, home });
  if (order.say === 'open') {
    roots.set(home, order.root);
    return;
  }
  const root = roots.get(home);
  // Words that crossed with the last one.
  if (root === undefined) return;
  try {
    clerkOf(home, root, report).take(order);
  } catch (error) {
    // The trouble of one home, such as a ledger that cannot be opened, is not that of the others.
    const trouble = troubleOf(error);
    report('ticket' in order ? { say: 'failed', ticket: order.ticket, trouble } : { say: 'trouble', trouble });
    if (order.say === 'close') report({ say: 'closed' });
  }
  if (order.say === 'close') {
    roots.delete(home);
    clerks.delete(home);
  }
});

function clerkOf(home: number, root: string, report: (what: Report) => void): Clerk {
  const clerk = clerks.get(home) ?? new Clerk(root, report);
  clerks.set(home, clerk);
  return clerk;
}
