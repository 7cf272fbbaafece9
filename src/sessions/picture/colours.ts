/** The colours where a program chose none. */
export const DEFAULT_COLOURS = { text: '#d4d4d4', background: '#1e1e1e' };

const BASIC = [
  ['#000000', '#cd3131', '#0dbc79', '#e5e510', '#2472c8', '#bc3fbc', '#11a8cd', '#e5e5e5'],
  ['#666666', '#f14c4c', '#23d18b', '#f5f543', '#3b8eea', '#d670d6', '#29b8db', '#ffffff'],
].flat();

const LEVELS = [0, 95, 135, 175, 215, 255];

/** The 256 colours of a terminal: 16 basic ones, a cube of 6 × 6 × 6, and 24 greys. */
export const COLOURS: readonly string[] = [
  ...BASIC,
  ...LEVELS.flatMap((red) => LEVELS.flatMap((green) => LEVELS.map((blue) => hex([red, green, blue])))),
  ...Array.from({ length: 24 }, (_, at) => hex([8 + 10 * at, 8 + 10 * at, 8 + 10 * at])),
];

/** Half way between two colours: faint text. */
export function mixed(one: string, other: string): string {
  const [from, to] = [partsOf(one), partsOf(other)];
  return hex(from.map((value, at) => Math.round((value + (to[at] ?? 0)) / 2)));
}

function partsOf(colour: string): number[] {
  return [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16));
}

function hex(parts: readonly number[]): string {
  return `#${parts.map((value) => value.toString(16).padStart(2, '0')).join('')}`;
}
