import { write } from 'node:fs';
import type { ServiceContext, Log } from '../../core/service.ts';
import { serveStdio } from '../../doors/host/stdio.ts';
import { codeOf } from '../../storage/disk.ts';
import { startEngine } from './engine.ts';

const STDOUT = 1;
/** A pipe that does not wait and is full is tried again so soon. */
const NAP_MS = 2;

/** A host for the process that started us, until it closes its end or a signal comes. What it asked for is finished. */
export async function hostOnStdio(context: ServiceContext, log: Log): Promise<void> {
  const { promise: asked, resolve } = Promise.withResolvers<void>();
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => resolve());
  const running = await startEngine(context, log);
  await Promise.race([serveStdio(running.hall, Bun.stdin.stream(), toStdout), asked]);
  await running.close();
}

/** Not `process.stdout`: nobody could tell how much of it waits for a parent that does not read. */
async function toStdout(bytes: Uint8Array): Promise<void> {
  for (let rest = bytes; rest.length > 0;) {
    try {
      rest = rest.subarray(await some(rest));
    } catch (error) {
      if (codeOf(error) !== 'EAGAIN') throw error;
      await Bun.sleep(NAP_MS);
    }
  }
}

function some(bytes: Uint8Array): Promise<number> {
  return new Promise((resolve, reject) => {
    write(STDOUT, bytes, (error, written) => (error ? reject(error) : resolve(written)));
  });
}
