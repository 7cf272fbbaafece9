import type { GenericSchema, InferOutput } from 'valibot';
import { v } from './shapes.ts';

type Inner = GenericSchema<unknown, unknown>;

/** What came of parsing: the value, or what is wrong with which part. */
export type Parsed<T> = { success: true; data: T } | { success: false; path: string; why: string };

/**
 * The shape of something that crosses a wire or a disk, and its type. It is built when it is first used: a short command
 * should not pay for shapes that it never meets.
 */
export class Schema<S extends Inner> {
  #built: S | undefined;

  /** `isPlain` is a cheap look that knows most of what the schema would return as it is; it need not know all. */
  constructor(
    readonly build: () => S,
    readonly isPlain?: (input: unknown) => boolean,
  ) {}

  /** The schema itself, to stand inside another one. */
  get inner(): S {
    this.#built ??= this.build();
    return this.#built;
  }

  safeParse(input: unknown): Parsed<InferOutput<S>> {
    if (this.isPlain?.(input)) return { success: true, data: input as InferOutput<S> };
    const result = v.safeParse(this.inner, input, { abortEarly: true });
    if (result.success) return { success: true, data: result.output };
    const [issue] = result.issues;
    return { success: false, path: v.getDotPath(issue) ?? '', why: issue.message };
  }

  parse(input: unknown): InferOutput<S> {
    return this.isPlain?.(input) ? input : v.parse(this.inner, input);
  }
}

/** The type that a schema describes. */
export type Described<T> = T extends Schema<infer S> ? InferOutput<S> : never;
