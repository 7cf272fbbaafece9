import { Terminal } from '@xterm/headless';
import type { IBufferCell } from '@xterm/headless';
import { stripVTControlCharacters } from 'node:util';
import { COLOURS, DEFAULT_COLOURS, mixed } from './colours.ts';

/** Wider screens are cut at the right, longer ones at the top. */
const MOST_COLUMNS = 1000;
const MOST_ROWS = 200;

/**
 * One control sequence. The first group has those that are kept: styles, line ends, and the switch to line drawing. The rest are OSC, DCS and
 * the like with their text, CSI, single-letter escapes and control characters.
 */
const SEQUENCE =
  /(\x1b\[[\d;:]*m|[\n\x0e\x0f])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[PX^_][^\x1b]*(?:\x1b\\)?|\x1b\[[0-?]*[ -/]*[@-~]|\x1b[ -/]*[0-~]|\p{Cc}/gu;

/** A character on the screen, with its style. Colours are `#rrggbb`. */
export interface Cell {
  /** Empty: nothing is drawn. */
  text: string;
  column: number;
  /** 2 for a wide character. */
  width: number;
  colour: string;
  background: string;
  isBold: boolean;
  isItalic: boolean;
  isUnderlined: boolean;
  isStruck: boolean;
}

/** The visible cells of a screen. Cells that show nothing are left out. */
export interface Grid {
  columns: number;
  rows: Cell[][];
}

/** Reads lines with styles (SGR), as tmux prints them. Ignores every other control sequence. */
export async function gridOf(styled: string): Promise<Grid> {
  const lines = withStylesOnly(styled).split('\n').slice(-MOST_ROWS);
  const widths = lines.map((line) => Bun.stringWidth(stripVTControlCharacters(line)));
  const columns = Math.min(Math.max(1, ...widths), MOST_COLUMNS);
  const terminal = new Terminal({ cols: columns, rows: lines.length, scrollback: 0, allowProposedApi: true });
  try {
    terminal.unicode.register({ version: 'ours', wcwidth: widthOf, charProperties: propertiesOf });
    terminal.unicode.activeVersion = 'ours';
    // Turn line wrap off, so that long lines are cut, and make G1 the line-drawing set, as tmux assumes.
    const drawn = `\x1b[?7l\x1b)0${lines.join('\r\n')}`;
    await new Promise<void>((resolve) => terminal.write(drawn, resolve));
    const { active } = terminal.buffer;
    const rows = lines.map((_line, row) => {
      const line = active.getLine(row);
      const at = (column: number): Cell[] => cellOf(line?.getCell(column), column);
      return Array.from({ length: columns }, (_, column) => at(column)).flat();
    });
    return { columns, rows };
  } finally {
    terminal.dispose();
  }
}

/** Keeps only characters, styles, line ends and the switch to line drawing (SO, SI). */
function withStylesOnly(styled: string): string {
  return styled.replace(SEQUENCE, (_all, draws?: string) => draws ?? '');
}

function cellOf(cell: IBufferCell | undefined, column: number): Cell[] {
  // Width 0: the second half of a wide character.
  if (!cell || cell.getWidth() === 0) return [];
  const isInverse = cell.isInverse() !== 0;
  const own = {
    colour: colourOf(cell.isFgRGB(), cell.isFgPalette(), cell.getFgColor()) ?? DEFAULT_COLOURS.text,
    background: colourOf(cell.isBgRGB(), cell.isBgPalette(), cell.getBgColor()) ?? DEFAULT_COLOURS.background,
  };
  const background = isInverse ? own.colour : own.background;
  const bright = isInverse ? own.background : own.colour;
  const text = cell.isInvisible() ? '' : cell.getChars().trim();
  const looks = {
    colour: cell.isDim() ? mixed(bright, background) : bright,
    background,
    isBold: cell.isBold() !== 0,
    isItalic: cell.isItalic() !== 0,
    isUnderlined: cell.isUnderline() !== 0,
    isStruck: cell.isStrikethrough() !== 0,
  };
  const isBlank = text === '' && !looks.isUnderlined && !looks.isStruck && background === DEFAULT_COLOURS.background;
  return isBlank ? [] : [{ text, column, width: cell.getWidth(), ...looks }];
}

function colourOf(isRgb: boolean, isPalette: boolean, value: number): string | null {
  if (isRgb) return `#${value.toString(16).padStart(6, '0')}`;
  return isPalette ? (COLOURS[value] ?? null) : null;
}

function widthOf(codepoint: number): 0 | 1 | 2 {
  return Math.min(Bun.stringWidth(String.fromCodePoint(codepoint)), 2) as 0 | 1 | 2;
}

/** The width of a character and whether it joins the one before it, as xterm packs them. */
function propertiesOf(codepoint: number, preceding: number): number {
  const width = widthOf(codepoint);
  const before = (preceding >> 1) & 3;
  const isJoined = width === 0 && before > 0;
  return ((isJoined ? before : width) << 1) | (isJoined ? 1 : 0);
}
