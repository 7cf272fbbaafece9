import { unlinkSync } from 'node:fs';
import { ifThere } from '../disk.ts';
import { writeKept } from './files-list.ts';
import { isSame } from './files-rows.ts';
import { linesIn } from './lines-file.ts';
import { withLock } from './lock.ts';
import type { StateFile } from './state-file.ts';
import { listIn, readBytes, readList, replaceFile } from './state-file.ts';

type Entry = Record<string, unknown>;

/**
 * Gives what waits for a session that is gone to another one. First a copy, then `clearMail` takes it out of the old place: killed
 * between the two it stands in both, under the same ids, and whoever comes next adds nothing twice. The caller holds the registry's
 * lock, so nobody registers or sends meanwhile; the two inbox locks are taken one after the other. What is in a reader's hand stands
 * under the alias and need not move. spec: c2c#moving
 */
export function copyMail(root: string, from: string, to: string): StateFile {
  const mail = withLock(lockOf(root, from), () => readList(pathOf(root, from)));
  if (mail.values.length > 0) withLock(lockOf(root, to), () => addTo(root, pathOf(root, to), mail));
  return mail;
}

/** Takes out what was copied, and nothing that came since. */
export function clearMail(root: string, from: string, copied: StateFile): void {
  if (copied.values.length === 0) return;
  withLock(lockOf(root, from), () => {
    const path = pathOf(root, from);
    const before = readList(path);
    const rest = without(before.values, copied.values);
    if (rest.length > 0 || before.broken) writeKept(root, path, rest, [before]);
    if (rest.length === 0) ifThere(() => unlinkSync(path));
  });
}

/** Mail that a sweep of another program set aside comes back to whom it was for. Returns how much that was. spec: c2c#dead-letters */
export function returnDeadLetters(root: string, sessionId: string, alias: string): number {
  const path = `${root}/dead-letter.jsonl`;
  if (readBytes(path) === null) return 0;
  return withLock(`${path}.lock`, () => {
    const lines = (readBytes(path) ?? Buffer.alloc(0)).toString('utf8').split('\n');
    const mine = new Set(lines.filter((line) => isFor(line, sessionId, alias)));
    if (mine.size === 0) return 0;
    const returned = lines.filter((line) => mine.has(line));
    const mail = listIn(Buffer.from(`[${returned.map(messageText).join(',')}]`));
    withLock(lockOf(root, sessionId), () => addTo(root, pathOf(root, sessionId), mail));
    const rest = lines.filter((line) => line !== '' && !mine.has(line));
    replaceFile(path, rest.map((line) => `${line}\n`).join(''));
    return returned.length;
  });
}

/** The message of a letter as it stands in its line: times keep their form. */
function messageText(line: string): string {
  const [, text] = /"message"\s*:\s*(\{.*\})\s*\}\s*$/.exec(line) ?? [];
  const [letter] = linesIn(Buffer.from(line)) as [Entry];
  const whole = JSON.stringify(letter['message']);
  return text !== undefined && JSON.stringify(linesIn(Buffer.from(text))[0]) === whole ? text : whole;
}

function isFor(line: string, sessionId: string, alias: string): boolean {
  const [letter] = linesIn(Buffer.from(line));
  const { from_session_id: session, message } = (letter ?? {}) as Entry;
  if (typeof message !== 'object' || message === null) return false;
  const { to_alias: to } = message as Entry;
  return session === sessionId || (typeof to === 'string' && isSame(to.replace(/#.*$/, ''), alias));
}

/** In the order of sending, as far as it is told; what is there already is not added again. */
function addTo(root: string, path: string, mail: StateFile): void {
  const before = readList(path);
  const added = without(mail.values, before.values);
  if (added.length > 0) writeKept(root, path, inOrder([...added, ...before.values]), [before, mail]);
}

function inOrder(entries: unknown[]): unknown[] {
  const timed = entries.map((entry) => ({ entry, time: Number((entry as Entry | null)?.['ts'] ?? 0) }));
  if (timed.some(({ time }) => !(time > 0))) return entries;
  return timed.sort((a, b) => a.time - b.time).map(({ entry }) => entry);
}

/** Of several that are equal, each stands for one. */
function without(entries: readonly unknown[], others: readonly unknown[]): unknown[] {
  const counts = new Map<string, number>();
  for (const other of others) counts.set(markOf(other), (counts.get(markOf(other)) ?? 0) + 1);
  return entries.filter((entry) => {
    const left = counts.get(markOf(entry)) ?? 0;
    counts.set(markOf(entry), left - 1);
    return left <= 0;
  });
}

/** An id with the same words of the same sender is one message, whatever else stands in it; without an id it is known by all of it. */
function markOf(entry: unknown): string {
  const { message_id: id, from_alias: from, content } = (entry ?? {}) as Entry;
  return typeof id === 'string' && id !== '' ? JSON.stringify([id, from, content]) : JSON.stringify(entry);
}

function pathOf(root: string, sessionId: string): string {
  return `${root}/${sessionId}.inbox.json`;
}

function lockOf(root: string, sessionId: string): string {
  return `${root}/${sessionId}.inbox.lock`;
}
