import { mkdirSync } from 'node:fs';
import { readAlias, readSessionId, SessionRow } from '../../protocol/c2c.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { explained } from '../disk.ts';
import { stampOf } from '../file-stamp.ts';
import { writeKept } from './files-list.ts';
import { withLock } from './lock.ts';
import { readList } from './state-file.ts';

/** One element of the registry: what stands there, and what we make of it. Null: it cannot be read, and stays as it is. */
export interface Kept {
  value: unknown;
  row: SessionRow | null;
}

/** What a change of the registry makes of it. Without `rows` it stays as it is. */
export interface Changed<T> {
  rows?: readonly unknown[];
  answer: T;
}

/** `registry.json`: the sessions of a broker, shared with other programs. Each change reads it anew, under its lock. spec: c2c#registry */
export class RegistryFile {
  readonly path: string;
  #known: { mark: string; kept: Kept[]; isBroken: boolean } | undefined;

  constructor(readonly root: string) {
    this.path = `${root}/registry.json`;
  }

  /** Everything that stands there, in its order. */
  all(): Kept[] {
    const mark = stampOf(this.path, true);
    if (this.#known?.mark === mark) return this.#known.kept;
    const { values, broken } = mark === '' ? { values: [] } : readList(this.path);
    const kept = values.map((value) => ({ value, row: readRow(value) }));
    this.#known = { mark, kept, isBroken: broken !== undefined };
    return kept;
  }

  /** Keeps a copy of what another program left broken, and writes what can be saved of it in its place. */
  mend(): void {
    this.all();
    if (this.#known?.isBroken) this.change((kept) => ({ rows: kept.map(({ value }) => value), answer: null }));
  }

  rows(): SessionRow[] {
    return this.all().flatMap(({ row }) => row ?? []);
  }

  /** Nobody else changes the registry meanwhile, also while `after` finishes what hangs on it. Nothing inside may await. */
  change<T>(act: (kept: Kept[]) => Changed<T>, after: (answer: T) => void = () => {}): T {
    try {
      mkdirSync(this.root, { recursive: true, mode: 0o700 });
      return withLock(`${this.path}.lock`, () => {
        const answer = this.#change(act);
        after(answer);
        return answer;
      });
    } catch (error) {
      throw explained(error, this.root, 'nothing was changed');
    }
  }

  /** Changes one row; the others, and what we do not know in it, stay as they were written. Null if there is none. */
  amend(
    isIt: (row: SessionRow) => boolean,
    change: (row: SessionRow) => Record<string, unknown> | null,
  ): SessionRow | null {
    return this.change((kept) => {
      const at = kept.findIndex(({ row }) => row !== null && isIt(row));
      const found = kept[at];
      if (!found?.row) return { answer: null };
      const changes = change(found.row);
      if (!changes) return { answer: found.row };
      const value = withFields(found.value, changes);
      return { rows: kept.map((one, n) => (n === at ? value : one.value)), answer: readRow(value) };
    });
  }

  #change<T>(act: (kept: Kept[]) => Changed<T>): T {
    const before = readList(this.path);
    const { rows, answer } = act(before.values.map((value) => ({ value, row: readRow(value) })));
    if (!rows) return answer;
    writeKept(this.root, this.path, rows, [before]);
    this.#known = undefined;
    return answer;
  }
}

/** A row that others wrote. Its session becomes a file name: one that could leave its place is nobody's. */
function readRow(value: unknown): SessionRow | null {
  const row = SessionRow.safeParse(value);
  if (!row.success) return null;
  try {
    readSessionId(row.data.session_id);
    readAlias(row.data.alias);
    return row.data;
  } catch (error) {
    if (error instanceof Refusal) return null;
    throw error;
  }
}

/** Undefined takes a field out. */
export function withFields(value: unknown, changes: Record<string, unknown>): Record<string, unknown> {
  return { ...(value as Record<string, unknown>), ...changes };
}

/** Two aliases that differ only by case are one. */
export function isSame(one: string, other: string): boolean {
  return one.toLowerCase() === other.toLowerCase();
}
