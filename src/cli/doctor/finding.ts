/** One thing that `doctor` checked, its state, and what to do about it. */
export interface Finding {
  level: 'ok' | 'warn' | 'bad';
  about: string;
  what: string;
  next?: string;
  /** True if `--fix` has just repaired it. */
  fixed?: true;
}

/** The three kinds of finding on one subject. */
export function on(about: string): {
  ok: (what: string) => Finding;
  warn: (what: string, next: string) => Finding;
  bad: (what: string, next: string) => Finding;
  fixed: (what: string) => Finding;
} {
  return {
    ok: (what) => ({ level: 'ok', about, what }),
    warn: (what, next) => ({ level: 'warn', about, what, next }),
    bad: (what, next) => ({ level: 'bad', about, what, next }),
    fixed: (what) => ({ level: 'ok', about, what, fixed: true }),
  };
}

/** `1 file`, `2 files`. */
export function counted(n: number, one: string, many = `${one}s`): string {
  return `${n} ${n === 1 ? one : many}`;
}
