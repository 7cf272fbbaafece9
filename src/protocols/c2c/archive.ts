import { mkdirSync, readdirSync } from 'node:fs';
import { explained, ifThere } from '../../core/disk.ts';
import { flushFolder } from '../../platform/files.ts';
import { readEntry } from './entry.ts';
import type { BrokerEntry } from './entry.ts';
import { appendLines, readFileLines, readObjects, replaceDurably } from './files.ts';
import { jsonValue } from './json-list.ts';
import { withLock } from './lock.ts';
import { readSessionId } from './shapes.ts';

/** A line of an archive. Our lines have the time of sending (`ts`) and the id; lines of other programs may lack both. */
export type ArchiveLine = Record<string, unknown> & { drained_at: number };

/** A message that was taken. */
export interface Archived {
  entry: BrokerEntry;
  /** Seconds since 1970. */
  drainedAt: number;
}

/**
 * Appends lines to a session's archive, and flushes them. The caller may hold an inbox lock. Never take an inbox lock while holding the lock of
 * an archive. spec: c2c#archive
 */
export function appendArchive(root: string, sessionId: string, lines: readonly ArchiveLine[]): void {
  if (lines.length === 0) return;
  try {
    if (mkdirSync(`${root}/archive`, { recursive: true, mode: 0o700 })) flushFolder(root);
  } catch (error) {
    throw explained(error, `${root}/archive`, 'nothing was taken');
  }
  withLock(lockPath(root, sessionId), () => appendLines(archivePath(root, sessionId), lines));
}

/** The last `limit` messages that a session took, oldest first. Each message once, however often it was taken. */
export function readArchive(root: string, sessionId: string, limit = Infinity): Archived[] {
  const taken: Archived[] = [];
  const known = new Set<string>();
  for (const line of readObjects(archivePath(root, readSessionId(sessionId))).filter(isArchiveLine)) {
    const { drained_at: drainedAt, ...fields } = line;
    const entry = readEntry(fields);
    const id = entry?.message_id;
    if (!entry || (id !== undefined && known.has(id))) continue;
    if (id !== undefined) known.add(id);
    taken.push({ entry, drainedAt });
  }
  return limit > 0 ? taken.slice(-limit) : [];
}

/** A message that was taken, in the JSON form of `history`. */
export function archivedJson({ entry, drainedAt }: Archived) {
  const { from_alias, to_alias, content, ts, message_id } = entry;
  return { drained_at: drainedAt, from_alias, to_alias, content, ts, message_id };
}

/** Removes, or only counts, the messages taken before a time (seconds since 1970), in every archive. Keeps lines that it cannot read. */
export function pruneArchives(root: string, before: number, how: 'remove' | 'count'): number {
  const names = ifThere(() => readdirSync(`${root}/archive`)) ?? [];
  const sessions = names.flatMap((name) => /^([A-Za-z0-9_-][A-Za-z0-9._-]*)\.jsonl$/.exec(name)?.[1] ?? []);
  return sessions.reduce((sum, session) => sum + prune(root, session, before, how), 0);
}

function prune(root: string, sessionId: string, before: number, how: 'remove' | 'count'): number {
  const path = archivePath(root, sessionId);
  return withLock(lockPath(root, sessionId), () => {
    const all = readFileLines(path);
    const kept = all.filter((line) => {
      const value = jsonValue(line);
      return !isArchiveLine(value) || value.drained_at >= before;
    });
    if (how === 'remove' && kept.length < all.length) replaceDurably(path, kept.map((line) => `${line}\n`).join(''));
    return all.length - kept.length;
  });
}

function isArchiveLine(value: unknown): value is ArchiveLine {
  return typeof value === 'object' && value !== null && typeof (value as ArchiveLine).drained_at === 'number';
}

function archivePath(root: string, sessionId: string): string {
  return `${root}/archive/${sessionId}.jsonl`;
}

function lockPath(root: string, sessionId: string): string {
  return `${root}/archive/${sessionId}.lock`;
}
