// The entry of a worker thread: files are written and folders are listed here, so that nobody at the counter waits for a disk.
import { getPriority, setPriority } from 'node:os';
import { Desk } from './back-room-desk.ts';
import type { Addressed, Order, Report } from './back-room-talk.ts';

declare const self: Worker;

/** Files may wait a moment longer than senders do: where there are more at work than processors, the counter goes first. */
const BEHIND = 5;
const LEAST = 19;
// Only Linux takes this for the thread alone.
if (process.platform === 'linux') setPriority(Math.min(getPriority() + BEHIND, LEAST));

const desks = new Map<number, Desk>();

self.addEventListener('message', ({ data }: MessageEvent<Addressed<Order>>) => {
  const { home, ...order } = data;
  if (order.say === 'open') {
    desks.set(home, new Desk(order.root, (what: Report): void => postMessage({ ...what, home })));
    return;
  }
  // Without a desk: words that crossed with the last one.
  desks.get(home)?.take(order);
  if (order.say === 'close') desks.delete(home);
});
