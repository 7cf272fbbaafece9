// The entry of a worker thread: files are written and folders are listed here, so that no request waits for a disk.
import { getPriority, setPriority } from 'node:os';
import { ExportJob } from './export-job.ts';
import type { Addressed, Report, ExportRequest } from './export-messages.ts';

declare const self: Worker;

/** Files may wait a moment longer than senders do: where there are more at work than processors, senders go first. */
const BEHIND = 5;
const LEAST = 19;
// Only Linux takes this for the thread alone.
if (process.platform === 'linux') setPriority(Math.min(getPriority() + BEHIND, LEAST));

const jobs = new Map<number, ExportJob>();

self.addEventListener('message', ({ data }: MessageEvent<Addressed<ExportRequest>>) => {
  const { home, ...request } = data;
  if (request.do === 'open') {
    jobs.set(home, new ExportJob(request.root, (what: Report): void => postMessage({ ...what, home })));
    return;
  }
  // Without a job: words that crossed with the last one.
  jobs.get(home)?.take(request);
  if (request.do === 'close') jobs.delete(home);
});

postMessage({ say: 'loaded', home: 0 } satisfies Addressed<Report>);
