// Draws a recording as one SVG that moves by itself: two terminals side by side, and below them what happens. Each row of
// a screen is drawn once for the time in which it looked so; CSS shows and hides it. Without motion it is the last frame.
import { DEFAULT_COLOURS } from '../../../src/sessions/picture/colours.ts';
import type { Cell } from '../../../src/sessions/picture/grid.ts';
import type { Event, Frame, Recording } from './record.ts';

const CELL = { width: 9, height: 18, baseline: 13.5 };
const FONT_SIZE = 14.949;
const MONO = "'DejaVu Sans Mono',Menlo,Consolas,'Liberation Mono',monospace";
const SANS = "system-ui,-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif";
const PAD = 12;
const BAR = 30;
const GAP = 16;
const FOOT = 84;
/** Of two grounds, so that no line shows between them. */
const OVERLAP = 0.5;
/** A pause in which nothing happens is cut to this, ms; while the clients start, to the shorter one. */
const LONGEST_MS = { starting: 250, later: 1000 };
/** How long the end stays, ms. */
const HOLD_MS = 4500;

/** What is said below while this part of the run is shown. */
const WORDS: Record<Event['name'], string> = {
  start: 'Two terminals, one folder. Nothing is set up, and no settings file is changed.',
  asked: 'You ask Claude Code to ask the other agent.',
  woken: 'Codex was idle. The mail wakes it, without a key touched there.',
  answered: 'What Codex says in its window goes back, and wakes Claude Code.',
  read: 'Read. Each step is said only when it is proven, by the clients’ own records:',
  end: '',
};
/** In their order; what the run has no proof of is not drawn. */
const STEPS = ['stored', 'offered', 'accepted', 'shown', 'settled'];
/** A grey that is made for text is too bright for a ground. */
const SOFTER: Record<string, string> = { '#666666': '#333333' };

/** How large a terminal is, in cells. */
export interface Shape {
  columns: number;
  rows: number;
}

interface Span {
  from: number;
  to: number;
  svg: string;
}

export function drawn(recording: Recording, shape: Shape): string {
  const { columns, rows } = shape;
  const film = shortened(recording);
  const size = { width: columns * CELL.width + 2 * PAD, height: BAR + rows * CELL.height + PAD };
  const whole = { width: 2 * size.width + GAP, height: size.height + GAP + FOOT };
  const times = new Times(film.length);
  const panels = [
    { title: 'parley run claude', frames: film.left, x: 0 },
    { title: 'parley run codex', frames: film.right, x: size.width + GAP },
  ].map(
    ({ title, frames, x }) =>
      `<g transform="translate(${x} 0)">${windowOf(title, size)}<g transform="translate(${PAD} ${BAR})" font-family="${MONO}" font-size="${FONT_SIZE}">` +
      `${spansOf(frames, shape, film.length)
        .map((span) => times.shown(span))
        .join('')}</g></g>`,
  );
  // Its own ground: a page may be light or dark, whatever the system is.
  const ground = `<rect width="${whole.width}" height="${FOOT}" rx="8" fill="${DEFAULT_COLOURS.background}" stroke="#3d444d"/>`;
  const foot = `<g transform="translate(0 ${size.height + GAP})" font-family="${SANS}">${ground}${footOf(
    film,
    whole.width,
  )
    .map((span) => times.shown(span))
    .join('')}</g>`;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="-1 -1 ${whole.width + 2} ${whole.height + 2}" role="img" aria-labelledby="t d">`,
    '<title id="t">Claude Code and Codex talk through Parley</title>',
    `<desc id="d">A recording of the real programs with scripted models. ${Object.values(WORDS).join(' ').trim()} ${stepsIn(film).join(', ')}.</desc>`,
    '<style>text{white-space:pre}.w{fill:#f0f6fc}.s{fill:#9198a1}.o{fill:#0c2d4d;stroke:#4493f8}.e{fill:#0f3d1e;stroke:#3fb950}',
    `${times.css}@media (prefers-reduced-motion:reduce){*{animation:none!important}}</style>`,
    ...panels,
    foot,
    '</svg>\n',
  ].join('\n');
}

/** Rules that show something for a part of the time. Without motion what is there at the end is seen. */
class Times {
  readonly #rules = new Map<string, string>();

  constructor(readonly length: number) {}

  shown({ from, to, svg }: Span): string {
    if (from <= 0 && to >= this.length) return svg;
    const [begin, end] = [from, to].map((ms) => `${Number(((100 * ms) / this.length).toFixed(2))}%`);
    const key = `${begin} ${end}`;
    const name = this.#rules.get(key)?.split('{')[0]?.slice(1) ?? `a${this.#rules.size}`;
    const isLast = to >= this.length;
    const steps = [
      ...(from > 0 ? ['0%{visibility:hidden}', `${begin}{visibility:visible}`] : ['0%{visibility:visible}']),
      ...(isLast ? [] : [`${end}{visibility:hidden}`]),
      ...(isLast ? ['to{visibility:visible}'] : ['to{visibility:hidden}']),
    ];
    this.#rules.set(
      key,
      `.${name}{animation:${name} ${(this.length / 1000).toFixed(1)}s step-end infinite${isLast ? '' : ';visibility:hidden'}}@keyframes ${name}{${steps.join('')}}`,
    );
    return `<g class="${name}">${svg}</g>`;
  }

  get css(): string {
    return [...this.#rules.values()].join('\n');
  }
}

type Film = Recording & { length: number };

/** The same without long pauses, and with the end for longer. */
function shortened({ left, right, events, steps }: Recording): Film {
  const asked = events.find(({ name }) => name === 'asked')?.ms ?? 0;
  const marks = [...new Set([...left, ...right, ...events].map(({ ms }) => ms))].sort((a, b) => a - b);
  const moved = new Map<number, number>();
  let now = 0;
  for (const [at, ms] of marks.entries()) {
    const pause = ms - (marks[at - 1] ?? ms);
    now += Math.min(pause, ms <= asked ? LONGEST_MS.starting : LONGEST_MS.later);
    moved.set(ms, Math.round(now));
  }
  const at = <T extends { ms: number }>(one: T): T => ({ ...one, ms: moved.get(one.ms) ?? 0 });
  return { left: left.map(at), right: right.map(at), events: events.map(at), steps, length: Math.round(now) + HOLD_MS };
}

/** Each row, for as long as it looks the same. */
function spansOf(frames: readonly Frame[], { columns, rows }: Shape, length: number): Span[] {
  return Array.from({ length: rows }, (_, row) => {
    const spans: Span[] = [];
    for (const [at, { ms, grid }] of frames.entries()) {
      const svg = rowOf(grid.rows[row] ?? [], row, columns);
      const last = spans.at(-1);
      const to = frames[at + 1]?.ms ?? length;
      if (last && last.svg === svg) last.to = to;
      else spans.push({ from: at === 0 ? 0 : ms, to, svg });
    }
    return spans.filter(({ svg, from, to }) => svg !== '' && to > from);
  }).flat();
}

function rowOf(row: readonly Cell[], at: number, columns: number): string {
  const y = at * CELL.height;
  const fills = runsOf(
    row.filter(({ background }) => background !== DEFAULT_COLOURS.background),
    (one, next) => one.background === next.background && one.column + one.width === next.column,
  ).map((run) => {
    const [first] = run;
    // Where a client fills a row to its end, tmux has only the cells with text.
    const isWhole = first?.column === 0 && (run.length > 1 || first.background in SOFTER);
    const width = isWhole ? columns * CELL.width : undefined;
    return rect(run, y, CELL.height + OVERLAP, SOFTER[first?.background ?? ''] ?? first?.background ?? '', width);
  });
  const isRule = ({ text }: Cell): boolean => text === '─';
  const rules = runsOf(
    row.filter(isRule),
    (one, next) => one.colour === next.colour && one.column + one.width === next.column,
  ).map((run) => rect(run, y + CELL.height / 2, 1, run[0]?.colour ?? ''));
  const isPlain = ({ text }: Cell): boolean => /^[!-~]$/.test(text);
  // Words of one look are one text: it has the width of its cells, whatever font draws it.
  const texts = runsOf(
    row.filter((cell) => cell.text !== '' && !isRule(cell)),
    (one, next) => isPlain(one) && isPlain(next) && looksOf(one) === looksOf(next) && next.column - one.column <= 2,
  ).map((run) => {
    const [first] = run;
    if (!first) return '';
    // Few fonts have it.
    if (first.text === '⏵')
      return `<path d="M${first.column * CELL.width + 1.5} ${y + 5}l7 4.5-7 4.5z"${looksOf(first)}/>`;
    let words = '';
    for (const cell of run) words = words.padEnd(cell.column - first.column) + cell.text;
    const width = words.length > 1 ? ` textLength="${words.length * CELL.width}"` : '';
    return `<text x="${first.column * CELL.width}" y="${y + CELL.baseline}"${width}${looksOf(first)}>${escaped(words)}</text>`;
  });
  return [...fills, ...rules, ...texts].join('');
}

function runsOf(cells: readonly Cell[], isAlike: (one: Cell, next: Cell) => boolean): Cell[][] {
  const runs: Cell[][] = [];
  for (const cell of cells) {
    const last = runs.at(-1)?.at(-1);
    if (last && isAlike(last, cell)) runs.at(-1)?.push(cell);
    else runs.push([cell]);
  }
  return runs;
}

function rect(run: readonly Cell[], y: number, height: number, colour: string, whole?: number): string {
  const width = whole ?? run.reduce((sum, cell) => sum + cell.width, 0) * CELL.width;
  return `<rect x="${(run[0]?.column ?? 0) * CELL.width}" y="${y}" width="${width}" height="${height}" fill="${colour}"/>`;
}

function looksOf({ colour, isBold, isItalic }: Cell): string {
  return ` fill="${colour}"${isBold ? ' font-weight="bold"' : ''}${isItalic ? ' font-style="italic"' : ''}`;
}

/** A terminal of no vendor: a bar with its title, and a dark ground. */
function windowOf(title: string, { width, height }: { width: number; height: number }): string {
  return (
    `<rect width="${width}" height="${height}" rx="8" fill="${DEFAULT_COLOURS.background}" stroke="#3d444d"/>` +
    ['#ff5f57', '#febc2e', '#28c840']
      .map((fill, at) => `<circle cx="${18 + at * 18}" cy="15" r="5" fill="${fill}"/>`)
      .join('') +
    `<text x="${width / 2}" y="19.5" font-family="${SANS}" font-size="13" fill="#9198a1" text-anchor="middle">${title}</text>`
  );
}

/** What happens, in words; at the end the steps that were proven. */
function footOf(film: Film, width: number): Span[] {
  const { events, length } = film;
  const words = events
    .filter(({ name }) => WORDS[name] !== '')
    .map(({ ms, name }, at, all) => {
      const isEnd = name === 'read';
      const y = isEnd ? 33 : 48;
      return {
        from: at === 0 ? 0 : ms,
        to: all[at + 1]?.ms ?? length,
        svg: `<text class="w" x="${width / 2}" y="${y}" font-size="19" text-anchor="middle">${escaped(WORDS[name])}</text>${isEnd ? ladder(stepsIn(film), width) : ''}`,
      };
    });
  return words;
}

function stepsIn({ steps }: Film): string[] {
  return STEPS.filter((step) => steps.includes(step));
}

function ladder(steps: readonly string[], width: number): string {
  const [box, gap] = [104, 30];
  const left = (width - steps.length * box - (steps.length - 1) * gap) / 2;
  return steps
    .map((step, at) => {
      const x = left + at * (box + gap);
      const arrow =
        at === 0 ? '' : `<text class="s" x="${x - gap / 2}" y="65" font-size="17" text-anchor="middle">→</text>`;
      return (
        `${arrow}<rect class="${at >= steps.length - 2 ? 'e' : 'o'}" x="${x}" y="47" width="${box}" height="27" rx="13.5"/>` +
        `<text class="w" x="${x + box / 2}" y="65.5" font-size="15" text-anchor="middle">${step}</text>`
      );
    })
    .join('');
}

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

function escaped(text: string): string {
  return text.replace(/[\p{Cc}]/gu, '').replace(/[&<>"]/g, (character) => ENTITIES[character] ?? '');
}
