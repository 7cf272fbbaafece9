// The entry of a worker thread. Drawing loads all fonts and takes part of a second, which must not block a server.
import { gridOf } from './grid.ts';
import { pngOf } from './png.ts';

declare const self: Worker;

self.addEventListener('message', ({ data }: MessageEvent<string>) => {
  gridOf(data)
    .then(pngOf)
    .then(
      (png) => postMessage({ png }),
      (error: unknown) => postMessage({ failed: error instanceof Error ? error.message : String(error) }),
    );
});
