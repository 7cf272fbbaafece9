import { DEFAULT_COLOURS } from './colours.ts';
import type { Cell, Grid } from './grid.ts';

/** The size of one cell, in pixels. */
export const CELL = { width: 9, height: 18 };
export const BORDER = 9;
/** At this size a character of DejaVu Sans Mono (0.602 em wide) fills a cell, so box-drawing lines join. */
const FONT_SIZE = 14.949;
const BASELINE = 14;
// Our own font is first, because the PNG renderer uses only the first.
const FONTS = "'DejaVu Sans Mono', Menlo, Consolas, monospace";
const EMOJI_FONTS = "'Noto Emoji', 'Apple Color Emoji', 'Segoe UI Emoji', 'Noto Color Emoji'";

/**
 * Characters that may share a text element: one UTF-16 unit each, never joined with a neighbour, never written from right to left. Every other
 * character gets a text element of its own.
 */
const PLAIN = /^[\u0021-\u02ff\u0370-\u058f\u2010-\u2027\u2030-\u205e\u20a0-\u2bff\u3000-\u9fff\uac00-\ud7a3]$/;

/** The size of the picture, in pixels. */
export function sizeOf({ columns, rows }: Grid): { width: number; height: number } {
  return { width: columns * CELL.width + 2 * BORDER, height: rows.length * CELL.height + 2 * BORDER };
}

/** The screen as an SVG. Every character has a fixed place, whatever font draws it. */
export function svgOf(grid: Grid): string {
  const { width, height } = sizeOf(grid);
  const size = `width="${width}" height="${height}"`;
  const fonts = `font-family="${FONTS}" font-size="${FONT_SIZE}"`;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" ${size} viewBox="0 0 ${width} ${height}" ${fonts}>`,
    rect({ x: 0, y: 0, width, height }, DEFAULT_COLOURS.background),
    ...grid.rows.flatMap((row, at) => [...fillsIn(row, at), ...textsIn(row, at), ...linesIn(row, at)]),
    '</svg>\n',
  ].join('\n');
}

/** Background rectangles, one for each run of cells with one colour. */
function fillsIn(row: readonly Cell[], at: number): string[] {
  const filled = row.filter(({ background }) => background !== DEFAULT_COLOURS.background);
  return runsIn(filled, (one, next) => one.background === next.background).map((run) =>
    rect({ ...box(run, at), height: CELL.height }, run[0]?.background ?? ''),
  );
}

function textsIn(row: readonly Cell[], at: number): string[] {
  const drawn = row.filter(({ text }) => text !== '');
  const isSame = (one: Cell, next: Cell): boolean =>
    PLAIN.test(one.text) &&
    PLAIN.test(next.text) &&
    one.colour === next.colour &&
    one.isBold === next.isBold &&
    one.isItalic === next.isItalic &&
    !isEmoji(one) &&
    !isEmoji(next);
  return runsIn(drawn, isSame).map((run) => {
    const places = run.map(({ column }) => BORDER + column * CELL.width).join(' ');
    const looks = run.slice(0, 1).map(looksOf).join('');
    const words = escaped(run.map(({ text }) => text).join(''));
    return `<text x="${places}" y="${BORDER + at * CELL.height + BASELINE}"${looks}>${words}</text>`;
  });
}

function looksOf(cell: Cell): string {
  const { colour, isBold, isItalic } = cell;
  const style = `${isBold ? ' font-weight="bold"' : ''}${isItalic ? ' font-style="italic"' : ''}`;
  return ` fill="${colour}"${style}${isEmoji(cell) ? ` font-family="${EMOJI_FONTS}"` : ''}`;
}

/** Whether a cell is drawn with the emoji fonts. A narrow one is drawn with the text font. */
function isEmoji({ text, width }: Cell): boolean {
  return width === 2 && /\p{Extended_Pictographic}/u.test(text);
}

/** Underlines and strike-through lines. */
function linesIn(row: readonly Cell[], at: number): string[] {
  const line = (cells: Cell[], offset: number): string[] =>
    runsIn(cells, (one, next) => one.colour === next.colour).map((run) => {
      const { x, y, width } = box(run, at);
      return rect({ x, y: y + offset, width, height: 1 }, run[0]?.colour ?? '');
    });
  return [
    ...line(
      row.filter(({ isUnderlined }) => isUnderlined),
      BASELINE + 2,
    ),
    ...line(
      row.filter(({ isStruck }) => isStruck),
      BASELINE - 5,
    ),
  ];
}

/** Groups neighbouring cells that are alike. */
function runsIn(cells: readonly Cell[], isAlike: (one: Cell, next: Cell) => boolean): Cell[][] {
  const runs: Cell[][] = [];
  for (const cell of cells) {
    const last = runs.at(-1)?.at(-1);
    if (last && last.column + last.width === cell.column && isAlike(last, cell)) runs.at(-1)?.push(cell);
    else runs.push([cell]);
  }
  return runs;
}

function box(run: readonly Cell[], row: number): { x: number; y: number; width: number } {
  const columns = run.reduce((sum, { width }) => sum + width, 0);
  const x = BORDER + (run[0]?.column ?? 0) * CELL.width;
  return { x, y: BORDER + row * CELL.height, width: columns * CELL.width };
}

function rect(place: { x: number; y: number; width: number; height: number }, colour: string): string {
  const { x, y, width, height } = place;
  return `<rect x="${x}" y="${y}" width="${width}" height="${height}" fill="${colour}"/>`;
}

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

/** Escapes a text for XML, and leaves out characters that XML does not allow. */
function escaped(text: string): string {
  return text
    .toWellFormed()
    .replace(/[\p{Cc}\ufffe\uffff]/gu, '')
    .replace(/[&<>"]/g, (character) => ENTITIES[character] ?? '');
}
