import { readFileSync, readdirSync, statSync } from 'node:fs';
import type { Stats } from 'node:fs';
import { ifThere } from '../../core/disk.ts';
import type { Home } from '../../core/mail/workspace.ts';
import { platform } from '../../platform/os.ts';
import { replaceDurably } from './files.ts';

/** An inbox with a message is longer than this. */
const EMPTY_BYTES = 64;
/** The resolution of a file system's clock: two changes within this time may have the same time. */
const TICK_MS = 25;

/**
 * True if it is certain, without opening the ledger, that no mail waits for this session: its inbox is empty, no reader holds mail, and the
 * ledger has not changed since all accepted mail was found in an inbox.
 *
 * The last condition is needed because a send that was killed after the accept has its message only in the ledger. That send changed the
 * ledger, so the stored mark no longer matches, and the next look opens the ledger and finishes the send. In doubt the answer is false, which
 * only costs the time to open the ledger. spec: c2c#empty
 */
export function isSurelyEmpty(root: string, sessionId: string): boolean {
  return isEmptyInbox(root, sessionId) && !hasHeldMail(root) && isInOrder(root);
}

/** Whether a reader holds mail of this broker. That reader may be dead. */
export function hasHeldMail(root: string): boolean {
  return (ifThere(() => readdirSync(`${root}/held`)) ?? []).some((name) => name.endsWith('.held'));
}

export function isEmptyInbox(root: string, sessionId: string): boolean {
  const path = `${root}/${sessionId}.inbox.json`;
  const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  if (size === 0) return true;
  return size <= EMPTY_BYTES && /^\s*\[\s*\]\s*$/.test(ifThere(() => readFileSync(path, 'utf8')) ?? '[]');
}

/** Whether all accepted mail is in an inbox: the ledger matches its stored mark, or there is no ledger. */
export function isInOrder(root: string): boolean {
  const mark = markOf(root);
  return mark === null || mark === ifThere(() => readFileSync(noteOf(root), 'utf8'));
}

/**
 * Finishes the unfinished sends and takes of dead processes, and stores the mark of the ledger if all accepted mail is in an inbox. The mark is
 * of the ledger before this, so it does not cover changes made meanwhile.
 */
export async function healBroker(home: Home): Promise<void> {
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
 * A mark that changes whenever something is written to the ledger; null without a ledger. It leaves out the files' change times (ctime),
 * because every connection that opens the files sets their owner again.
 */
function markOf(root: string): string | null {
  const [ledger, log] = ledgerFiles(root).map((file) => (file ? `${file.ino}:${file.size}:${file.mtimeMs}` : '-'));
  // With the boot id, because after a power cut a file can have new content and its old time.
  return ledger === '-' ? null : [platform.bootId(), ledger, log].join(' ');
}

function changedAt(root: string): number {
  return Math.max(...ledgerFiles(root).map((file) => file?.mtimeMs ?? 0));
}

function ledgerFiles(root: string): (Stats | undefined)[] {
  return ['', '-wal'].map((part) => statSync(`${root}/ledger.db${part}`, { throwIfNoEntry: false }));
}
