import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { Refusal } from '../protocol/refusal.ts';
import { explained } from '../storage/disk.ts';
import { locked } from '../storage/lock-file.ts';

/** A small JSON object in Parley's home that only the user's own commands change. */
export type Table = Record<string, unknown>;

/** Missing or broken: empty. Nothing may count because a file could not be read. */
export function readTable(path: string): Table {
  try {
    return tableIn(readFileSync(path, 'utf8')) ?? {};
  } catch {
    return {};
  }
}

/** Changes the table as one act: a reader sees it before or after, and two writers follow one another. A table that stays the same is not written. */
export function changeTable(path: string, change: (table: Table) => Table): void {
  try {
    mkdirSync(path.slice(0, path.lastIndexOf('/')), { recursive: true, mode: 0o700 });
    locked(`${path}.lock`, () => {
      const before = existsSync(path) ? tableIn(readFileSync(path, 'utf8')) : {};
      if (!before) throw new Refusal('bad_config', `${path} is not a JSON object; correct or remove it first`);
      const after = change(before);
      if (Bun.deepEquals(before, after)) return;
      const draft = `${path}.${process.pid}`;
      writeFileSync(draft, `${JSON.stringify(after, null, 2)}\n`, { mode: 0o600, flush: true });
      renameSync(draft, path);
    });
  } catch (error) {
    if (error instanceof Refusal) throw error;
    throw explained(error, path, 'nothing was changed');
  }
}

function tableIn(text: string): Table | null {
  try {
    const value = JSON.parse(text) as unknown;
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : null;
  } catch {
    return null;
  }
}
