import { inflateSync } from 'node:zlib';

/** What is in a PNG with 8 bits for red, green, blue and alpha. */
export interface Pixels {
  width: number;
  height: number;
  /** `#rrggbb` of a pixel. */
  at: (x: number, y: number) => string;
}

/** Reads a PNG by its specification. https://www.w3.org/TR/png-3/ */
export function pixelsOf(bytes: Uint8Array): Pixels {
  const png = Buffer.from(bytes);
  if (png.toString('latin1', 1, 4) !== 'PNG') throw new Error('this is no PNG');
  const [width, height] = [png.readUInt32BE(16), png.readUInt32BE(20)];
  if (png[24] !== 8 || png[25] !== 6) throw new Error('this PNG has another format');
  const parts: Buffer[] = [];
  for (let at = 8; at < png.length;) {
    const length = png.readUInt32BE(at);
    if (png.toString('latin1', at + 4, at + 8) === 'IDAT') parts.push(png.subarray(at + 8, at + 8 + length));
    at += length + 12;
  }
  const rows = unfiltered(inflateSync(Buffer.concat(parts)), width * 4, height);
  const at = (x: number, y: number): string => `#${rows.toString('hex', (y * width + x) * 4, (y * width + x) * 4 + 3)}`;
  return { width, height, at };
}

/** Each byte is stored as its difference to a guess from its neighbours. */
function unfiltered(data: Buffer, stride: number, height: number): Buffer {
  const out = Buffer.alloc(stride * height);
  for (let y = 0; y < height; y++) {
    const filter = data[y * (stride + 1)] ?? 0;
    for (let x = 0; x < stride; x++) {
      const value = data[y * (stride + 1) + 1 + x] ?? 0;
      const left = x < 4 ? 0 : (out[y * stride + x - 4] ?? 0);
      const up = y === 0 ? 0 : (out[(y - 1) * stride + x] ?? 0);
      const corner = x < 4 || y === 0 ? 0 : (out[(y - 1) * stride + x - 4] ?? 0);
      const guesses = [0, left, up, (left + up) >> 1, nearest(left, up, corner)];
      out[y * stride + x] = value + (guesses[filter] ?? 0);
    }
  }
  return out;
}

function nearest(left: number, up: number, corner: number): number {
  const [a, b, c] = [up - corner, left - corner, left + up - 2 * corner].map(Math.abs) as [number, number, number];
  if (a <= b && a <= c) return left;
  return b <= c ? up : corner;
}
