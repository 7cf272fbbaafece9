import { mkdirSync } from 'node:fs';
import { explained } from '../disk.ts';
import { appendLines, linesIn } from './lines-file.ts';
import { withLock } from './lock.ts';
import { flushFolder, readBytes, replaceFile } from './state-file.ts';

/** A line of an archive, as it stands there: our own have the time of sending (`ts`) and the id; those of others may lack both. */
export type ArchiveLine = Record<string, unknown> & { drained_at: number };

export function archivePath(root: string, sessionId: string): string {
  return `${root}/archive/${sessionId}.jsonl`;
}

function lockPath(root: string, sessionId: string): string {
  return `${root}/archive/${sessionId}.lock`;
}

/** Adds lines to what a session took, and flushes them. An inbox lock may be held meanwhile, never the other way round. spec: c2c#archive */
export function appendArchive(root: string, sessionId: string, lines: readonly ArchiveLine[]): void {
  if (lines.length === 0) return;
  try {
    if (mkdirSync(`${root}/archive`, { recursive: true, mode: 0o700 })) flushFolder(root);
  } catch (error) {
    throw explained(error, `${root}/archive`, 'nothing was taken');
  }
  withLock(lockPath(root, sessionId), () => appendLines(archivePath(root, sessionId), lines));
}

/** Everything that a session took, oldest first, as it stands. Lines that are none are passed over. */
export function readArchive(root: string, sessionId: string): ArchiveLine[] {
  return linesIn(readBytes(archivePath(root, sessionId)) ?? Buffer.alloc(0)).filter(isArchiveLine);
}

/** Takes out, or only counts, what was taken before then (seconds since 1970). Lines that are none stay. */
export function pruneArchive(root: string, sessionId: string, before: number, how: 'remove' | 'count'): number {
  const path = archivePath(root, sessionId);
  if (readBytes(path) === null) return 0;
  return withLock(lockPath(root, sessionId), () => {
    const all = (readBytes(path) ?? Buffer.alloc(0))
      .toString('utf8')
      .split('\n')
      .filter((line) => line !== '');
    const kept = all.filter((line) => !isBefore(line, before));
    if (how === 'remove' && kept.length < all.length) replaceFile(path, kept.map((line) => `${line}\n`).join(''));
    return all.length - kept.length;
  });
}

function isBefore(line: string, before: number): boolean {
  const [value] = linesIn(Buffer.from(line));
  return isArchiveLine(value) && value.drained_at < before;
}

function isArchiveLine(value: unknown): value is ArchiveLine {
  return typeof value === 'object' && value !== null && typeof (value as ArchiveLine).drained_at === 'number';
}
