/** The worker's entry. In the compiled program it is beside the program's own entry; see scripts/build.mjs. */
const ENTRY = import.meta.url.includes('$bunfs')
  ? './sessions/picture/png-worker.ts'
  : new URL('./png-worker.ts', import.meta.url).href;
const LIMIT_MS = 20_000;

/** Draws a screen with styles as a PNG, in a worker thread that ends afterwards. Throws if that fails. */
export async function pngInBackground(styled: string): Promise<Uint8Array> {
  const { promise, resolve, reject } = Promise.withResolvers<Uint8Array>();
  const worker = new Worker(ENTRY);
  const timer = setTimeout(() => reject(new Error(`the picture took longer than ${LIMIT_MS / 1000} s`)), LIMIT_MS);
  worker.addEventListener('message', ({ data }: MessageEvent<{ png: Uint8Array } | { failed: string }>) => {
    if ('png' in data) resolve(data.png);
    else reject(new Error(data.failed));
  });
  worker.addEventListener('error', ({ message }) => reject(new Error(message)));
  // eslint-disable-next-line unicorn/require-post-message-target-origin -- A worker is no window: it has no origin.
  worker.postMessage(styled);
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
    worker.terminate();
  }
}
