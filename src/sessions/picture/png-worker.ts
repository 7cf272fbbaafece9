// The entry of a worker thread: a picture takes a fonts' worth of memory and a part of a second, which no server should have to spare.
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
