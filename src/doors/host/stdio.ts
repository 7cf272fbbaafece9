import { FRAME_LIMIT } from './frames.ts';
import type { Hall } from './hall.ts';
import { Lines } from './lines.ts';
import type { Line } from './lines.ts';
import { OUTGOING_LIMIT } from './outgoing.ts';

const encoder = new TextEncoder();

/** Where a parent reads. Returns when it has taken everything. */
export type Write = (bytes: Uint8Array) => Promise<void>;

/**
 * One peer on a pair of pipes: the process that started us, which is all the proof it needs. Returns when it has closed its
 * end, or was parted from, and everything that it asked for is done and answered. spec: host#stdio
 */
export async function serveStdio(hall: Hall, input: AsyncIterable<Uint8Array>, write: Write): Promise<void> {
  const over = Promise.withResolvers<void>();
  let waiting = 0;
  let written: Promise<void> = Promise.resolve();
  const peer = hall.enter({
    write(frame) {
      if (waiting > OUTGOING_LIMIT) return false;
      const bytes = encoder.encode(`${frame}\n`);
      waiting += bytes.length;
      written = written
        .then(() => write(bytes))
        .then(() => void (waiting -= bytes.length))
        // The parent is gone: nobody is left to tell.
        .catch(() => over.resolve());
      return true;
    },
    close: () => written.then(() => over.resolve()),
    cut: () => over.resolve(),
  });
  if (!peer) return;
  const lines = new Lines(FRAME_LIMIT);
  const take = (found: Iterable<Line>): void => {
    for (const line of found) {
      if ('bytes' in line) peer.receive(line.bytes);
      else peer.tooLong();
    }
  };
  const reading = (async () => {
    for await (const chunk of input) take(lines.push(chunk));
    take(lines.end());
    // Whoever closes its end may still read ours.
    await peer.idle();
    await written;
  })();
  await Promise.race([reading, over.promise]);
  await hall.leave(peer);
}
