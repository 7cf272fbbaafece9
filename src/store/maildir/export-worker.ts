// The entry of the export worker, a thread: it writes files and lists folders, so that no request waits for a disk.
import { getPriority, setPriority } from 'node:os';
import { ExportJob } from './export-job.ts';
import type { Addressed, Report, ExportRequest } from './export-messages.ts';

declare const self: Worker;

/** A lower priority than the main thread: if processors are short, senders go first and files wait. */
const BEHIND = 5;
const LEAST = 19;
// Only Linux sets the priority of one thread; elsewhere this would slow the whole process.
if (process.platform === 'linux') setPriority(Math.min(getPriority() + BEHIND, LEAST));

const jobs = new Map<number, ExportJob>();

self.addEventListener('message', ({ data }: MessageEvent<Addressed<ExportRequest>>) => {
  const { home, ...request } = data;
  if (request.do === 'open') {
    jobs.set(home, new ExportJob(request.root, (what: Report): void => postMessage({ ...what, home })));
    return;
  }
  // No job: the request crossed with the `close` of its home.
  jobs.get(home)?.take(request);
  if (request.do === 'close') jobs.delete(home);
});

postMessage({ say: 'loaded', home: 0 } satisfies Addressed<Report>);
