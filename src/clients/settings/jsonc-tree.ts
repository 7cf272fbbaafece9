import { NotEditable } from './not-editable.ts';

/** A value of a JSON text and where it stands. An object and an array have items, anything else has none. */
export interface Node {
  kind: 'object' | 'array' | 'leaf';
  start: number;
  end: number;
  items: Item[];
  value: unknown;
}

/** A member of an object, or an element of an array: where it begins (at its key, if it has one), and the comma after it. */
export interface Item {
  key?: string;
  start: number;
  node: Node;
  comma?: number;
}

interface Token {
  text: string;
  start: number;
}

/** Reads JSON in which people may write comments and trailing commas, as Claude Code, Codex and others allow in their settings. */
export function readTree(text: string): Node {
  const reader = new Reader(tokensOf(text));
  const root = reader.value();
  reader.end();
  return root;
}

/** One match per token. What is no token (a stray character, a comment or string without its end) matches nothing. */
const TOKEN = /[ \t\r\n]+|\/\/[^\r\n]*|\/\*[\s\S]*?\*\/|"(?:\\.|[^"\\\r\n])*"|[{}[\],:]|[^\s{}[\],:"/]+/y;
const BOM = '\ufeff';

function tokensOf(text: string): Token[] {
  const tokens: Token[] = [];
  TOKEN.lastIndex = text.startsWith(BOM) ? BOM.length : 0;
  while (TOKEN.lastIndex < text.length) {
    const start = TOKEN.lastIndex;
    const [token] = TOKEN.exec(text) ?? [];
    if (token === undefined) throw new NotEditable('is not valid JSON');
    if (!/^[ \t\r\n/]/.test(token)) tokens.push({ text: token, start });
  }
  return tokens;
}

class Reader {
  #at = 0;

  constructor(readonly tokens: Token[]) {}

  value(): Node {
    const token = this.#next();
    if (token.text === '{') return this.#list(token, 'object', '}');
    if (token.text === '[') return this.#list(token, 'array', ']');
    return { kind: 'leaf', start: token.start, end: endOf(token), items: [], value: scalar(token.text) };
  }

  /** Nothing but comments may follow. */
  end(): void {
    if (this.#peek() !== undefined) throw new NotEditable('is not valid JSON');
  }

  #list({ start }: Token, kind: 'object' | 'array', close: string): Node {
    const items: Item[] = [];
    while (this.#peek() !== close) {
      const item = kind === 'object' ? this.#member() : this.#element();
      items.push(item);
      if (this.#peek() === ',') item.comma = this.#next().start;
      else if (this.#peek() !== close) throw new NotEditable('is not valid JSON');
    }
    const value =
      kind === 'array'
        ? items.map(({ node }) => node.value)
        : Object.fromEntries(items.map(({ key = '', node }) => [key, node.value]));
    return { kind, start, end: endOf(this.#next()), items, value };
  }

  #member(): Item {
    const { text, start } = this.#next();
    if (!text.startsWith('"') || this.#next().text !== ':') throw new NotEditable('is not valid JSON');
    return { key: String(scalar(text)), start, node: this.value() };
  }

  #element(): Item {
    const node = this.value();
    return { start: node.start, node };
  }

  #peek(): string | undefined {
    return this.tokens[this.#at]?.text;
  }

  #next(): Token {
    const token = this.tokens[this.#at];
    if (!token) throw new NotEditable('is not valid JSON');
    this.#at += 1;
    return token;
  }
}

function endOf({ text, start }: Token): number {
  return start + text.length;
}

function scalar(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new NotEditable('is not valid JSON');
  }
}
