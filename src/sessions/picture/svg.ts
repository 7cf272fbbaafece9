import { DEFAULT_COLOURS } from './colours.ts';
import type { Cell, Grid } from './grid.ts';

/** Of one cell and of the border, in pixels. */
export const CELL = { width: 9, height: 18 };
export const BORDER = 9;
/** A character of DejaVu Sans Mono is 0.602 em wide: this size fills a cell, and lines of boxes meet. */
const FONT_SIZE = 14.949;
const BASELINE = 14;
// Ours is first: the renderer of the PNG looks at no other.
const FONTS = "'DejaVu Sans Mono', Menlo, Consolas, monospace";
const EMOJI_FONTS = "'Noto Emoji', 'Apple Color Emoji', 'Segoe UI Emoji', 'Noto Color Emoji'";

/**
 * Characters that can be in one text with others: one unit each, and none that a renderer joins with its neighbours or writes from right to
 * left. All others have a text of their own.
 */
const PLAIN = /^[\u0021-\u02ff\u0370-\u058f\u2010-\u2027\u2030-\u205e\u20a0-\u2bff\u3000-\u9fff\uac00-\ud7a3]$/;

/** The size of the picture. */
export function sizeOf({ columns, rows }: Grid): { width: number; height: number } {
  return { width: columns * CELL.width + 2 * BORDER, height: rows.length * CELL.height + 2 * BORDER };
}

/** The screen as an SVG. Every character has its place, whatever font draws it. */
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

/** Backgrounds, one for cells side by side. */
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

/** A narrow one is drawn as the sign that it is in other fonts. */
function isEmoji({ text, width }: Cell): boolean {
  return width === 2 && /\p{Extended_Pictographic}/u.test(text);
}

/** Lines below and through characters. */
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

/** Cells side by side that are alike. */
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

/** What a screen shows is never markup. Characters that XML does not allow are left out. */
function escaped(text: string): string {
  return text
    .toWellFormed()
    .replace(/[\p{Cc}\ufffe\uffff]/gu, '')
    .replace(/[&<>"]/g, (character) => ENTITIES[character] ?? '');
}
