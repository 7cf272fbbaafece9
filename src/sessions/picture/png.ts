import { initWasm, Resvg } from '@resvg/resvg-wasm';
import wasm from '@resvg/resvg-wasm/index_bg.wasm' with { type: 'file' };
import emoji from '@fontsource/noto-emoji/files/noto-emoji-emoji-400-normal.woff' with { type: 'file' };
import unifont from '@fontsource/unifont/files/unifont-latin-400-normal.woff' with { type: 'file' };
import dejavuBold from 'dejavu-fonts-ttf/ttf/DejaVuSansMono-Bold.ttf' with { type: 'file' };
import dejavu from 'dejavu-fonts-ttf/ttf/DejaVuSansMono.ttf' with { type: 'file' };
import { inflateSync } from 'node:zlib';
import type { Grid } from './grid.ts';
import { sizeOf, svgOf } from './svg.ts';

/** The picture is drawn at twice the size of the SVG, unless it would have more pixels than this. */
const MOST_PIXELS = 16_000_000;

let fonts: Promise<Uint8Array[]> | null = null;

/**
 * The screen as a PNG. The fonts are part of the program, so the machine needs none. DejaVu Sans Mono draws the characters that it has, Noto
 * Emoji the emoji, and Unifont the rest of the Basic Multilingual Plane.
 */
export async function pngOf(grid: Grid): Promise<Uint8Array> {
  fonts ??= loaded();
  const fontBuffers = await fonts;
  const { width, height } = sizeOf(grid);
  const zoom = 4 * width * height > MOST_PIXELS ? 1 : 2;
  const font = { fontBuffers, loadSystemFonts: false, defaultFontFamily: 'DejaVu Sans Mono' };
  const picture = new Resvg(svgOf(grid), { font, fitTo: { mode: 'zoom', value: zoom } });
  try {
    const rendered = picture.render();
    const png = rendered.asPng();
    rendered.free();
    return png;
  } finally {
    picture.free();
  }
}

async function loaded(): Promise<Uint8Array[]> {
  const bytes = async (path: string): Promise<Buffer> => Buffer.from(await Bun.file(path).arrayBuffer());
  await initWasm(await bytes(wasm));
  // The order matters: the first font that has a character draws it.
  const packed = await Promise.all([unifont, emoji].map(bytes));
  return [await bytes(dejavu), await bytes(dejavuBold), ...packed.map(unpacked)];
}

/** The font inside a WOFF file. https://www.w3.org/TR/WOFF/ */
function unpacked(woff: Buffer): Buffer {
  const count = woff.readUInt16BE(12);
  const directory = Buffer.alloc(12 + 16 * count);
  woff.copy(directory, 0, 4, 8);
  directory.writeUInt16BE(count, 4);
  const parts: Uint8Array[] = [directory];
  let end = directory.length;
  for (let at = 0; at < count; at++) {
    const entry = 44 + 20 * at;
    const [from, packed, length] = [4, 8, 12].map((field) => woff.readUInt32BE(entry + field)) as [
      number,
      number,
      number,
    ];
    const table = woff.subarray(from, from + packed);
    const data = packed < length ? inflateSync(table) : table;
    const place = 12 + 16 * at;
    // The tag and the checksum of the table.
    woff.copy(directory, place, entry, entry + 4);
    woff.copy(directory, place + 4, entry + 16, entry + 20);
    directory.writeUInt32BE(end, place + 8);
    directory.writeUInt32BE(length, place + 12);
    const padding = Buffer.alloc(-length & 3);
    parts.push(data, padding);
    end += length + padding.length;
  }
  return Buffer.concat(parts);
}
