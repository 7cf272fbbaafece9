// The entry of a worker thread: files are written and folders are listed here, so that nobody at the counter waits for a disk.
import { Clerk } from './back-room-clerk.ts';
import type { Addressed, Order, Report } from './back-room-talk.ts';

declare const self: Worker;

const clerks = new Map<number, Clerk>();

self.addEventListener('message', ({ data }: MessageEvent<Addressed<Order>>) => {
  const { home, ...order } = data;
  const report = (what: Report): void => postMessage({ ...what, home });
  if (order.say === 'open') {
    clerks.set(home, new Clerk(order.root, report));
    return;
  }
  clerks.get(home)?.take(order);
  if (order.say === 'close') clerks.delete(home);
});
