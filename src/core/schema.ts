import * as v from 'valibot';
import type { BaseIssue, GenericSchema, InferOutput } from 'valibot';

type Inner = GenericSchema<unknown, unknown>;

/** The result of parsing: the value, or the wrong part and what to do about it, in our own words. */
export type Parsed<T> = { success: true; data: T } | { success: false; path: string; why: string };

/**
 * The shape of a value that crosses a wire or a disk, and its type. It is built at its first use, so that a short command does not pay for
 * shapes that it does not use.
 */
export class Schema<S extends Inner> {
  #built: S | undefined;

  constructor(readonly build: () => S) {}

  /** The schema itself, to be used inside another one. */
  get inner(): S {
    this.#built ??= this.build();
    return this.#built;
  }

  safeParse(input: unknown): Parsed<InferOutput<S>> {
    const result = v.safeParse(this.inner, input, { abortEarly: true, message: adviceFor });
    if (result.success) return { success: true, data: result.output };
    const [issue] = result.issues;
    return { success: false, path: v.getDotPath(issue) ?? '', why: issue.message };
  }

  /** For a value that must fit: a mismatch is our bug, and throws a TypeError. */
  parse(input: unknown): InferOutput<S> {
    const parsed = this.safeParse(input);
    if (parsed.success) return parsed.data;
    throw new TypeError(`${parsed.path || 'value'}: ${parsed.why}`);
  }
}

/** The type that a schema describes. */
export type Described<T> = T extends Schema<infer S> ? InferOutput<S> : never;

/** The text for an issue if the schema has none. The library's own texts are for programmers and are never shown. */
function adviceFor({ type, expected, received, requirement, input, path }: BaseIssue<unknown>): string {
  const unit = Array.isArray(input) ? 'entries' : 'characters';
  switch (type) {
    case 'picklist':
    case 'literal':
    case 'union':
    case 'variant':
      return `use ${choices(expected)}`;
    case 'object':
    case 'loose_object':
    case 'strict_object':
      if (expected === 'never') return 'leave it out';
      return received === 'undefined' && path ? 'it is missing' : 'use an object';
    case 'min_length':
      return requirement === 1 ? 'it is empty' : `use at least ${String(requirement)} ${unit}`;
    case 'max_length':
      return `use at most ${String(requirement)} ${unit}`;
    case 'min_value':
      return `use ${String(requirement)} or more`;
    case 'max_value':
      return `use at most ${String(requirement)}`;
    default:
      return `use ${KINDS[type] ?? 'another value'}`;
  }
}

const KINDS: Partial<Record<string, string>> = {
  string: 'a text',
  number: 'a number',
  integer: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  tuple: 'a list',
  record: 'an object',
  iso_timestamp: 'an ISO time, such as 2026-11-17T08:30:00Z',
};

/** `("a" | "b" | string)` as `a, b or a text`. */
function choices(expected: string | null): string {
  const all = (expected ?? '').replace(/^\(|\)$/g, '').split(' | ');
  const words = all.map((one) => KINDS[one] ?? one.replace(/^"(.*)"$/, '$1'));
  const last = words.pop() ?? '';
  return words.length > 0 ? `${words.join(', ')} or ${last}` : last;
}
