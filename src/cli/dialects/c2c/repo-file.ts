import { mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { Refusal } from '../../../protocol/refusal.ts';
import { gitTop } from '../../origin.ts';

/** What the user says about a repository, by hand. No installer writes it. spec: c2c#repo */
export function repoFile(cwd: string): string {
  return `${gitTop(cwd) ?? cwd}/.c2c/repo.json`;
}

export function readRepo(path: string): Record<string, unknown> {
  const found = statSync(path, { throwIfNoEntry: false });
  if (!found) return {};
  // In a folder that several accounts can write to, anybody can leave one.
  const isMine = found.uid === process.getuid?.() || found.uid === 0;
  if (!isMine) throw new Refusal('bad_config', `${path} belongs to another account, so it is not believed`);
  if ((found.mode & 0o002) !== 0) {
    throw new Refusal('bad_config', `every account can write ${path}, so it is not believed: chmod o-w it`);
  }
  try {
    const values = JSON.parse(readFileSync(path, 'utf8')) as unknown;
    if (typeof values === 'object' && values !== null && !Array.isArray(values)) return { ...values };
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
  }
  throw new Refusal('bad_config', `${path} is no JSON object; mend it first`);
}

/** Whom the user named as those who may answer for them. Nobody unless they did; nobody too if the file cannot be believed. */
export function supervisors(cwd: string): string[] {
  try {
    return supervisorsIn(readRepo(repoFile(cwd)));
  } catch (error) {
    if (error instanceof Refusal) return [];
    throw error;
  }
}

export function supervisorsIn(values: Record<string, unknown>): string[] {
  const { supervisors: named, permission_supervisors: others } = values;
  return [named, others].flatMap((list) => (Array.isArray(list) ? list : [])).filter((one) => typeof one === 'string');
}

/** Changes one field, and leaves all others as they are. Undefined takes it out. */
export function writeRepo(path: string, field: string, value: unknown): void {
  const values = { ...readRepo(path), [field]: value };
  mkdirSync(path.slice(0, path.lastIndexOf('/')), { recursive: true, mode: 0o755 });
  const draft = `${path}.${process.pid}`;
  writeFileSync(draft, `${JSON.stringify(values, null, 2)}\n`, { flush: true, mode: 0o644 });
  renameSync(draft, path);
}
