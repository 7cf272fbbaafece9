// Compares the text on a page with the printed text. Ids, tokens, times, ages, process ids and ports may differ.

/**
 * Values that are new in each run and may appear again. The page has an example value; where it appears first, it is bound to the printed
 * value, and from then on it must stand for that value.
 */
const NAMED = [
  /\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/,
  /\bbch1-[\w-]+…?/,
  /(?<=\broom "?)[\w-]{8}(?="|\)|$)/,
  /(?<=\btoken: )[\w-]{4,}…?/,
  /\b[0-9a-f]{64}\b/,
  /(?<=\[parley )[0-9a-f]{10}\b/,
  /(?<=127\.0\.0\.1-7117-)[0-9a-f]{8}\b/,
  /(?<=bearer\.)[0-9a-f]{8}-[0-9a-f]{4}\b/,
  /\b[0-9a-f]{8}\b(?!-)/,
];
/** Values that differ in each run and are not compared, only their form. */
const UNBOUND = [
  /\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z?)?/,
  /(?<=[ \t])\d\d:\d\d:\d\d\b/,
  /\bjust now\b|\b\d+ (?:s|min|h) ago\b/,
  /(?<=\bpid )\d+/,
  /\b\d+\.\d s\b/,
  /(?<=up to )\d+(?= open files)/,
];
const VALUES = new RegExp([...NAMED, ...UNBOUND].map(({ source }) => `(${source})`).join('|'), 'gm');
const UUID_TAIL = /^[0-9a-f]{8}-[0-9a-f]{4}-/;
/** The port and the home folder in the examples of all pages. */
const PORT = '7117';
const HOME = '/home/you';

/** The example values of one page, and the printed values that they are bound to so far. */
export class Shown {
  /** Example value on the page → printed value. */
  readonly #values = new Map<string, string>();

  constructor(
    readonly home: string,
    readonly port: number,
  ) {}

  /** A command on the page with the values of this run in place of the examples. */
  typed(command: string): string {
    const names = [...this.#values.keys()].sort((a, b) => b.length - a.length);
    const known = names.reduce((text, name) => text.replaceAll(name, this.#values.get(name) ?? name), command);
    return known.replaceAll(PORT, String(this.port)).replaceAll(HOME, this.home);
  }

  /** True if the text on the page matches the printed text. Then binds its new example values. */
  matches(shows: string, printed: string): boolean {
    const found = new RegExp(`^${this.pattern(shows)}$`).exec(printed === '' ? '' : `${this.#local(printed)}\n`);
    if (!found) return false;
    const fresh = Object.entries(found.groups ?? {}).map(
      ([group, value]) => [this.#groups[Number(group.slice(1))] ?? '', value] as const,
    );
    return fresh.every(([name, value]) => this.#bind(name, value));
  }

  /** A pattern that matches the printed form of this text on the page. */
  printedPattern(shows: string): string {
    return this.pattern(shows).replaceAll(literal(HOME), literal(this.home)).replaceAll(PORT, String(this.port));
  }

  /** A pattern that matches this text with the home and the port of the page. A line with only `…` matches any number of lines. */
  pattern(shows: string): string {
    this.#groups = [];
    if (shows === '') return '';
    return shows
      .split('\n')
      .map((line) => (line.trim() === '…' ? '(?:.*\\n)*?' : `${this.#line(line)}\\n`))
      .join('');
  }
  #groups: string[] = [];

  #line(line: string): string {
    let pattern = '';
    let from = 0;
    const known = [...this.#values.keys()].map(literal);
    for (const found of line.matchAll(new RegExp([VALUES.source, ...known].join('|'), 'gm'))) {
      pattern += literal(line.slice(from, found.index));
      const [value] = found;
      pattern += isNamed(found) || this.#values.has(value) ? this.#name(value) : shape(value);
      from = found.index + value.length;
    }
    return pattern + literal(line.slice(from));
  }

  /** The pattern of an example value. */
  #name(name: string): string {
    const value = this.#values.get(name);
    if (value !== undefined) return literal(value);
    const again = this.#groups.indexOf(name);
    if (again >= 0) return `\\k<v${again}>`;
    const begins = UUID_TAIL.test(name) ? this.#values.get(name.slice(0, 8)) : undefined;
    const group = this.#groups.push(name) - 1;
    if (begins !== undefined) return `(?<v${group}>${begins}-[0-9a-f-]{27})`;
    return `(?<v${group}>${name.endsWith('…') || name.startsWith('bch1-') ? '[\\w-]+' : shape(name)})`;
  }

  /** Binds an example to a printed value. Returns false if another example is bound to that value already. */
  #bind(name: string, value: string): boolean {
    const other = [...this.#values].find(([, known]) => known === value)?.[0];
    if (other !== undefined && other !== name) return false;
    this.#values.set(name, value);
    if (!UUID_TAIL.test(name)) return true;
    const short = this.#values.get(name.slice(0, 8));
    return short === undefined ? this.#bind(name.slice(0, 8), value.slice(0, 8)) : short === value.slice(0, 8);
  }

  /** The printed text as the page should show it. New values are replaced by the page's examples, in order of appearance. */
  asPage(shows: string, printed: string): string {
    const local = this.#local(printed);
    const fresh = (text: string, known: (value: string) => boolean): string[] => [
      ...new Set(
        [...text.matchAll(VALUES)]
          .filter(isNamed)
          .map(([value]) => value)
          .filter((value) => !known(value)),
      ),
    ];
    const values = new Set(this.#values.values());
    const names = fresh(shows, (name) => this.#values.has(name));
    for (const [at, value] of fresh(local, (one) => values.has(one)).entries()) this.#bind(names[at] ?? value, value);
    return [...this.#values]
      .sort(([, a], [, b]) => b.length - a.length)
      .reduce((text, [name, value]) => text.replaceAll(value, name), local);
  }

  #local(printed: string): string {
    return printed
      .replaceAll(this.home, HOME)
      .replaceAll(new RegExp(`(?<=127\\.0\\.0\\.1[:-])${this.port}\\b`, 'g'), PORT);
  }
}

function isNamed(found: RegExpExecArray): boolean {
  return found.slice(1, NAMED.length + 1).some((group) => group !== undefined);
}

/** A pattern for any value of the same form. */
function shape(value: string): string {
  if (/now$| ago$/.test(value)) return '(?:just now|\\d+ (?:s|min|h) ago)';
  if (/^\d+$|^\d+\.\d s$/.test(value) && value.length < 8) return value.endsWith('s') ? '\\d+\\.\\d s' : '\\d+';
  if (/^\d{4}-\d\d-\d\d|^\d\d:/.test(value) && !UUID_TAIL.test(value))
    return value.replaceAll(/\d/g, '\\d').replaceAll('.', '\\.');
  if (/^[0-9a-f-]+$/.test(value)) return value.replaceAll(/[0-9a-f]/g, '[0-9a-f]');
  return `[\\w-]{${value.length}}`;
}

function literal(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\/]/g, '\\$&');
}
