import { codeOf } from '../disk.ts';
import { NoAnswer, troubleFrom } from './trouble.ts';

/** This machine itself: nothing said to it can be overheard on a network, and no proxy stands between. */
export function isLoopback({ hostname }: URL): boolean {
  return /^(localhost|.+\.localhost|127(\.\d+){3}|\[::1\])$/i.test(hostname);
}

/** A proxy from the environment makes the connections in our place: then only it knows whether a host can be reached. */
export function isProxied(url: URL): boolean {
  const variable = url.protocol === 'https:' ? 'HTTPS_PROXY' : 'HTTP_PROXY';
  return !isLoopback(url) && Boolean(process.env[variable] ?? process.env[variable.toLowerCase()]);
}

/**
 * Tries whether a connection comes about at all. Only so can a request that never left be told from one whose answer got lost:
 * `fetch` has one time-out for both.
 */
export async function reach(url: URL, shown: string, patienceMs: number): Promise<void> {
  if (isProxied(url)) return;
  const port = Number(url.port) || (url.protocol === 'https:' ? 443 : 80);
  const failed = await new Promise<unknown>((resolve) => {
    const timer = setTimeout(() => resolve('late'), patienceMs);
    const settled = (error?: unknown): void => {
      clearTimeout(timer);
      resolve(error);
    };
    Bun.connect({
      hostname: url.hostname.replace(/^\[|\]$/g, ''),
      port,
      socket: {
        open(socket) {
          socket.end();
          settled();
        },
        connectError: (_socket, error) => settled(error),
        error: (_socket, error) => settled(error),
        data: () => {},
      },
    }).catch((error: unknown) => settled(error));
  });
  if (failed === undefined) return;
  if (failed === 'late') {
    const seconds = Math.ceil(patienceMs / 1000);
    throw new NoAnswer('never left', `the relay ${shown} cannot be reached (no connection within ${seconds} s)`);
  }
  const trouble = troubleFrom(codeOf(failed), shown, patienceMs);
  // Whatever went wrong here, no request was made yet.
  throw trouble.fate === 'never left' ? trouble : new NoAnswer('never left', `the relay ${shown} cannot be reached`);
}
