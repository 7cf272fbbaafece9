import type { Screen } from './terminal.ts';

/** Lines of a terminal: the text, and the same text without what is faint. */
export interface Drawn {
  lines: string[];
  bright: string[];
}

// oxlint-disable-next-line no-control-regex -- colours begin with ESC.
const SEQUENCE = /\u001b\[([0-9;:]*)m|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)|\u001b[()].|[\u000e\u000f]/g;

/** Reads lines with colour sequences. A style continues on the next line until a sequence changes it. */
export function drawn(coloured: readonly string[]): Drawn {
  const result: Drawn = { lines: [], bright: [] };
  let pen: Pen = PLAIN;
  for (const line of coloured) {
    let [text, bright, from] = ['', '', 0];
    const put = (part: string): void => {
      text += part;
      bright += isFaint(pen) ? ' '.repeat(part.length) : part;
    };
    for (const found of line.matchAll(SEQUENCE)) {
      put(line.slice(from, found.index));
      from = found.index + found[0].length;
      if (found[1] !== undefined) pen = changed(pen, found[1]);
    }
    put(line.slice(from));
    result.lines.push(text.trimEnd());
    result.bright.push(bright.trimEnd());
  }
  return result;
}

/** The drawing style, only as far as it decides whether text is faint. */
export interface Pen {
  dim: boolean;
  grey: boolean;
}

export const PLAIN: Pen = { dim: false, grey: false };

export function isFaint(pen: Pen): boolean {
  return pen.dim || pen.grey;
}

/** The pen after a colour sequence, given what is between `ESC[` and `m`. */
export function changed(pen: Pen, codes: string): Pen {
  let { dim, grey } = pen;
  const numbers = codes.split(/[;:]/).map(Number);
  for (let at = 0; at < numbers.length; at += 1) {
    const code = numbers[at] ?? 0;
    if (code === 0) [dim, grey] = [false, false];
    else if (code === 2) dim = true;
    else if (code === 22) dim = false;
    else if (code === 38 || code === 48) {
      const [kind, first = 0, second = 0, third = 0] = numbers.slice(at + 1, at + 5);
      at += kind === 2 ? 4 : 2;
      if (code === 38) grey = kind === 2 ? isGrey(first, second, third) : first === 8 || (first >= 240 && first <= 250);
    } else if (code === 90) grey = true;
    else if ((code >= 30 && code <= 37) || code === 39 || code > 90) grey = false;
  }
  return { dim, grey };
}

/** A grey between black and white, as clients use for hints. */
function isGrey(red: number, green: number, blue: number): boolean {
  const [low, high] = [Math.min(red, green, blue), Math.max(red, green, blue)];
  return high - low <= 12 && low >= 70 && high <= 175;
}

interface Cell {
  text: string;
  faint: boolean;
}

/** The second cell of a wide character. It has no text. */
const REST: Cell = { text: '', faint: false };
const BLANK: Cell = { text: ' ', faint: false };

// All that a program can write. An incomplete sequence waits for the next bytes.
/* oxlint-disable no-control-regex -- sequences begin with ESC. */
const CSI = /^\u001b\[([<=>?]?)([0-?]*)([ -/]*)([@-~])/;
const STRING = /^\u001b[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\)/;
const SHORT = /^\u001b([ -/]*)([0-~])/;
const TEXT = /^[^\u0000-\u001f\u007f]+/;
/* oxlint-enable no-control-regex */

const graphemes = new Intl.Segmenter();

/**
 * A model of a screen that is complete enough to see whether a composer is empty: text, cursor, faint text, erasing, scrolling and the
 * bracketed paste mode. It answers the queries that programs send to a terminal before they draw.
 */
export class ScreenModel {
  bracketed = false;
  #rows: Cell[][];
  #other: Cell[][] | null = null;
  #row = 0;
  #column = 0;
  #saved = { row: 0, column: 0 };
  #region: { top: number; bottom: number };
  #pen: Pen = PLAIN;
  #rest = '';

  constructor(
    public width: number,
    public height: number,
    /** Sends the terminal's answers to the program. */
    readonly answer: (text: string) => void = () => undefined,
  ) {
    this.#rows = this.#empty();
    this.#region = { top: 0, bottom: height - 1 };
  }

  write(text: string): void {
    let left = this.#rest + text;
    this.#rest = '';
    while (left !== '') {
      const taken = this.#takeOne(left);
      if (taken === 0) break;
      left = left.slice(taken);
    }
    // Give up on a sequence that is too long.
    this.#rest = left.length > 65_536 ? '' : left;
  }

  /** Cuts lines or fills them up, without wrapping them again: full-screen programs redraw after a resize. */
  resize(width: number, height: number): void {
    [this.width, this.height] = [width, height];
    // Drop the lines below the cursor first, then lines at the top.
    const over = Math.max(0, this.#row - height + 1);
    const fitted = (rows: Cell[][], from: number): Cell[][] => {
      const kept = rows.slice(from, from + height).map((cells) => [...cells, ...this.#blanks(width)].slice(0, width));
      return [...kept, ...this.#empty().slice(kept.length)];
    };
    this.#rows = fitted(this.#rows, over);
    if (this.#other) this.#other = fitted(this.#other, 0);
    this.#row -= over;
    this.#column = Math.min(this.#column, width - 1);
    this.#region = { top: 0, bottom: height - 1 };
  }

  screen(): Screen {
    const line = (cells: Cell[], show: (cell: Cell) => string): string => cells.map(show).join('').trimEnd();
    return {
      lines: this.#rows.map((cells) => line(cells, ({ text }) => text)),
      bright: this.#rows.map((cells) => line(cells, ({ text, faint }) => (faint ? ' '.repeat(text.length) : text))),
      cursor: { row: this.#row, column: Math.min(this.#column, this.width - 1) },
    };
  }

  /** How many characters were consumed; 0 if the sequence is not complete yet. */
  #takeOne(left: string): number {
    const [text] = TEXT.exec(left) ?? [];
    if (text) {
      for (const { segment } of graphemes.segment(text)) this.#put(segment);
      return text.length;
    }
    if (!left.startsWith('\u001b')) {
      this.#control(left[0] ?? '');
      return 1;
    }
    const csi = CSI.exec(left);
    if (csi) this.#sequence(csi[1] ?? '', csi[2] ?? '', csi[3] === '' ? (csi[4] ?? '') : '');
    const [string] = csi ? [] : (STRING.exec(left) ?? []);
    if (csi || string) return (csi?.[0] ?? string ?? '').length;
    if (/^.(?:$|[[\]PX^_])/s.test(left)) return 0;
    const short = SHORT.exec(left);
    if (short) this.#short(short[1] === '' ? (short[2] ?? '') : '');
    return short?.[0].length ?? 1;
  }

  #put(segment: string): void {
    const width = Math.max(1, Bun.stringWidth(segment));
    if (this.#column + width > this.width) [this.#column] = [0, this.#down()];
    const cells = this.#rows[this.#row] ?? [];
    cells[this.#column] = { text: segment, faint: isFaint(this.#pen) };
    if (width === 2) cells[this.#column + 1] = REST;
    this.#column += width;
  }

  #control(character: string): void {
    if (character === '\r') this.#column = 0;
    else if (character === '\n' || character === '\v' || character === '\f') this.#down();
    else if (character === '\b') this.#column = Math.max(0, this.#column - 1);
    else if (character === '\t') this.#column = Math.min(this.width - 1, (Math.floor(this.#column / 8) + 1) * 8);
  }

  #short(letter: string): void {
    if (letter === '7') this.#saved = { row: this.#row, column: this.#column };
    else if (letter === '8') ({ row: this.#row, column: this.#column } = this.#saved);
    else if (letter === 'D') this.#down();
    else if (letter === 'E') [this.#column] = [0, this.#down()];
    else if (letter === 'M') {
      if (this.#row === this.#region.top) this.#scroll(-1);
      else this.#row = Math.max(0, this.#row - 1);
    } else if (letter === 'c') {
      this.#rows = this.#empty();
      [this.#row, this.#column, this.#pen] = [0, 0, PLAIN];
    }
  }

  #sequence(kind: string, given: string, letter: string): void {
    if (kind === '?' && (letter === 'h' || letter === 'l')) return this.#modes(given, letter === 'h');
    if (letter === 'n' || letter === 'c') return this.#question(kind, given, letter);
    if (kind !== '' || letter === '') return;
    if (letter === 'm') return void (this.#pen = changed(this.#pen, given === '' ? '0' : given));
    const [first = 0, second = 0] = given.split(';').map(Number);
    const n = Math.max(1, first);
    const act = this.#acts[letter];
    if (act) act(n, first, second);
    this.#row = Math.max(0, Math.min(this.height - 1, this.#row));
    this.#column = Math.max(0, Math.min(this.width - 1, this.#column));
  }

  readonly #acts: Record<string, (n: number, first: number, second: number) => void> = {
    A: (n) => (this.#row -= n),
    B: (n) => (this.#row += n),
    C: (n) => (this.#column += n),
    D: (n) => (this.#column -= n),
    E: (n) => ([this.#row, this.#column] = [this.#row + n, 0]),
    F: (n) => ([this.#row, this.#column] = [this.#row - n, 0]),
    G: (n) => (this.#column = n - 1),
    '`': (n) => (this.#column = n - 1),
    d: (n) => (this.#row = n - 1),
    H: (n, _first, second) => ([this.#row, this.#column] = [n - 1, Math.max(1, second) - 1]),
    f: (n, _first, second) => ([this.#row, this.#column] = [n - 1, Math.max(1, second) - 1]),
    J: (_n, first) => this.#erase(first),
    K: (_n, first) => this.#eraseLine(first),
    L: (n) => this.#lines(n, true),
    M: (n) => this.#lines(n, false),
    P: (n) => this.#here().splice(this.#column, n, ...this.#blanks(0)),
    '@': (n) => this.#here().splice(this.#column, 0, ...this.#blanks(n)),
    X: (n) => this.#clear(this.#column, this.#column + n),
    S: (n) => this.#scroll(n),
    T: (n) => this.#scroll(-n),
    r: (n, _first, second) => {
      this.#region = { top: n - 1, bottom: Math.min(this.height, second || this.height) - 1 };
      [this.#row, this.#column] = [0, 0];
    },
    s: () => (this.#saved = { row: this.#row, column: this.#column }),
    u: () => ({ row: this.#row, column: this.#column } = this.#saved),
  };

  #modes(given: string, on: boolean): void {
    for (const mode of given.split(';')) {
      if (mode === '2004') this.bracketed = on;
      if (mode !== '1049' && mode !== '47' && mode !== '1047') continue;
      if (on && !this.#other) [this.#other, this.#rows] = [this.#rows, this.#empty()];
      if (!on && this.#other) [this.#rows, this.#other] = [this.#other, null];
    }
  }

  #question(kind: string, given: string, letter: string): void {
    if (letter === 'c' && kind === '') this.answer('\u001b[?62;22c');
    else if (letter === 'c' && kind === '>') this.answer('\u001b[>0;0;0c');
    else if (letter === 'n' && given === '5') this.answer('\u001b[0n');
    else if (letter === 'n' && given === '6') this.answer(`\u001b[${kind}${this.#row + 1};${this.#column + 1}R`);
  }

  #erase(how: number): void {
    this.#eraseLine(how === 3 ? 2 : how);
    const isMeant = (row: number): boolean => how >= 2 || (how === 0 ? row > this.#row : row < this.#row);
    this.#rows = this.#rows.map((cells, row) => (isMeant(row) ? this.#blanks(this.width) : cells));
  }

  #eraseLine(how: number): void {
    this.#clear(how === 0 ? this.#column : 0, how === 1 ? this.#column + 1 : this.width);
  }

  #clear(from: number, to: number): void {
    const cells = this.#here();
    for (let column = from; column < Math.min(to, this.width); column += 1) cells[column] = BLANK;
  }

  #down(): void {
    if (this.#row === this.#region.bottom) this.#scroll(1);
    else this.#row = Math.min(this.height - 1, this.#row + 1);
  }

  /** Scrolls the region up by this many lines, or down if negative. */
  #scroll(by: number): void {
    const { top, bottom } = this.#region;
    for (let count = Math.min(Math.abs(by), this.height); count > 0; count -= 1) {
      this.#rows.splice(by > 0 ? top : bottom, 1);
      this.#rows.splice(by > 0 ? bottom : top, 0, this.#blanks(this.width));
    }
  }

  #lines(n: number, inserted: boolean): void {
    const { bottom } = this.#region;
    for (let count = Math.min(n, this.height); count > 0; count -= 1) {
      this.#rows.splice(inserted ? bottom : this.#row, 1);
      this.#rows.splice(inserted ? this.#row : bottom, 0, this.#blanks(this.width));
    }
  }

  /** The line of the cursor, filled up to the width of the screen. */
  #here(): Cell[] {
    const cells = this.#rows[this.#row] ?? [];
    while (cells.length < this.width) cells.push(BLANK);
    cells.length = this.width;
    return cells;
  }

  #empty(): Cell[][] {
    return Array.from({ length: this.height }, () => this.#blanks(this.width));
  }

  #blanks(count: number): Cell[] {
    return Array.from({ length: count }, () => BLANK);
  }
}
