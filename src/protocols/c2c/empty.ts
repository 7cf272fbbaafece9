import { readFileSync, readdirSync, statSync } from 'node:fs';
import type { Stats } from 'node:fs';
import { ifThere } from '../../core/disk.ts';
import type { Home } from '../../core/mail/workspace.ts';
import { platform } from '../../platform/os.ts';
import { replaceDurably } from './files.ts';

/** An inbox in which something waits is longer than this. */
const EMPTY_BYTES = 64;
/** A file system's clock may stand still this long: two changes within it can have the same time. */
const TICK_MS = 25;

/**
 * True if it is certain that nothing waits for this session, without a look into the ledger: its inbox is empty, no reader
 * holds mail, and the ledger has not changed since all accepted mail was found in an inbox.
 *
 * The last of these is what makes it right. A send that was killed after it was accepted has left its message in the ledger alone;
 * it wrote there, so the mark below no longer fits, and the next look opens the ledger and finishes the send. In doubt the
 * answer is no, which costs the time to open the ledger and nothing else. spec: c2c#empty
 */
export function isSurelyEmpty(root: string, sessionId: string): boolean {
  return isEmptyInbox(root, sessionId) && !isHeld(root) && isInOrder(root);
}

/** A process holds mail of this broker, and may have died. */
export function isHeld(root: string): boolean {
  return (ifThere(() => readdirSync(`${root}/held`)) ?? []).some((name) => name.endsWith('.held'));
}

export function isEmptyInbox(root: string, sessionId: string): boolean {
  const path = `${root}/${sessionId}.inbox.json`;
  const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  if (size === 0) return true;
  return size <= EMPTY_BYTES && /^\s*\[\s*\]\s*$/.test(ifThere(() => readFileSync(path, 'utf8')) ?? '[]');
}

/** Everything that was accepted is in an inbox, or there is no ledger and nothing was. */
export function isInOrder(root: string): boolean {
  const mark = markOf(root);
  return mark === null || mark === ifThere(() => readFileSync(noteOf(root), 'utf8'));
}

/**
 * Finishes what dead processes left half done, and notes that all is in order if it is. What comes into the ledger meanwhile is not
 * covered by the note: it is about the ledger as it was before.
 */
export async function bringIntoOrder(home: Home): Promise<void> {
  const before = markOf(home.root);
  await home.mailboxes.heal();
  if (before === null || Date.now() - changedAt(home.root) < TICK_MS) return;
  const { fresh, unexported } = await home.journal.troubles();
  if (fresh || unexported) return;
  replaceDurably(noteOf(home.root), before);
}

function noteOf(root: string): string {
  return `${root}/ledger.in-order`;
}

/**
 * Changes whenever anything is written into the ledger. Null without one. When anything else about its files was changed says
 * nothing: every connection that opens them sets their owner again.
 */
function markOf(root: string): string | null {
  const [ledger, log] = ledgerFiles(root).map((file) => (file ? `${file.ino}:${file.size}:${file.mtimeMs}` : '-'));
  // After a power cut a file can have its new content and its old time.
  return ledger === '-' ? null : [platform.bootId(), ledger, log].join(' ');
}

function changedAt(root: string): number {
  return Math.max(...ledgerFiles(root).map((file) => file?.mtimeMs ?? 0));
}

function ledgerFiles(root: string): (Stats | undefined)[] {
  return ['', '-wal'].map((part) => statSync(`${root}/ledger.db${part}`, { throwIfNoEntry: false }));
}
