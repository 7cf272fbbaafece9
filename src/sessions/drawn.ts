/** Lines as a terminal draws them: the text, and the same with everything faint left out. */
export interface Drawn {
  lines: string[];
  bright: string[];
}

// oxlint-disable-next-line no-control-regex -- colours begin with ESC.
const SEQUENCE = /\u001b\[([0-9;:]*)m|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)|\u001b[()].|[\u000e\u000f]/g;

/** Reads lines with colour sequences. How a line ends is how the next begins: a terminal repeats nothing that did not change. */
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

/** As far as it matters whether something is drawn faint. */
export interface Pen {
  dim: boolean;
  grey: boolean;
}

export const PLAIN: Pen = { dim: false, grey: false };

export function isFaint(pen: Pen): boolean {
  return pen.dim || pen.grey;
}

/** The pen after a colour sequence, given what stands between `ESC[` and `m`. */
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

/** Between black and white, and neither: what designers take for hints. */
function isGrey(red: number, green: number, blue: number): boolean {
  const [low, high] = [Math.min(red, green, blue), Math.max(red, green, blue)];
  return high - low <= 12 && low >= 70 && high <= 175;
}
