import { mkdirSync, writeFileSync } from 'node:fs';
import { Refusal } from '../../protocol/refusal.ts';
import { codeOf } from '../disk.ts';
import type { LateCopies, TrayPlace } from '../ledger/late.ts';
import type { Acceptance, Entry } from '../ledger/ledger.ts';
import { filerLock } from './late-files.ts';
import { hasTray, isOfAnother, removeTray, setTrayAside, sheetsAfter } from './in-tray-log.ts';
import type { TrayLog } from './in-tray-log.ts';

/** One who put something, and waits for an answer. */
export interface Sender {
  entry: Entry;
  resolve: (accepted: Acceptance) => void;
  reject: (error: unknown) => void;
}

/** What was written to the log together. */
export interface Laid {
  group: Sender[];
  place: TrayPlace;
}

/** What the ledger says of each; undefined: no ledger can take it, and it is set aside. */
export type Outcome = Acceptance | Refusal | undefined;

/** What SQLite says of a row that it can never take. Whatever else it says may be over in a moment. */
const NEVER = /^SQLITE_(?:CONSTRAINT|TOOBIG|MISMATCH)/;

/**
 * Enters what lay in the tray up to a place, as one act. If there is an entry that no ledger can ever take, they go one by one: it must
 * not keep all behind it from being read. Any other trouble is thrown, and nothing is taken from the tray.
 */
export async function enter(
  root: string,
  ledger: LateCopies,
  entries: Entry[],
  upTo: TrayPlace,
  onTrouble: (error: unknown) => void,
): Promise<Outcome[]> {
  try {
    return await ledger.acceptTogether(entries, upTo);
  } catch (error) {
    if (!NEVER.test(codeOf(error) ?? '')) throw error;
    onTrouble(error);
  }
  const outcomes: Outcome[] = [];
  for (const entry of entries) outcomes.push(await enterOne(root, ledger, entry, onTrouble));
  await ledger.acceptTogether([], upTo);
  return outcomes;
}

async function enterOne(
  root: string,
  ledger: LateCopies,
  entry: Entry,
  onTrouble: (error: unknown) => void,
): Promise<Outcome> {
  try {
    return (await ledger.acceptTogether([entry]))[0];
  } catch (error) {
    if (!NEVER.test(codeOf(error) ?? '')) throw error;
    const folder = `${root}/aside/tray`;
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    writeFileSync(`${folder}/${entry.message.id}.json`, JSON.stringify(entry), { mode: 0o600 });
    onTrouble(new Error(`a message could not be entered and was set aside in ${folder}: ${String(error)}`));
    return undefined;
  }
}

/**
 * Enters what a dead process left in its tray. Only for who holds the keeper's lock. Before the tray goes, the ledger is flushed, whoever
 * has entered it: what it says may not be on disk.
 */
export async function enterLeftovers(
  root: string,
  ledger: LateCopies,
  onTrouble: (error: unknown) => void = () => {},
): Promise<void> {
  if (!hasTray(root)) return;
  const { life, place } = await ledger.tray();
  for (const sheet of sheetsAfter(root, life, place)) {
    await enter(root, ledger, sheet.entries, sheet.place, onTrouble);
    await breath();
  }
  await ledger.flush();
  if (isOfAnother(root, life)) setTrayAside(root);
  else removeTray(root);
}

/** The same for anybody: a tray of somebody alive is left alone. */
export async function enterTrayOfDead(root: string, ledger: LateCopies): Promise<void> {
  if (!hasTray(root)) return;
  const lock = filerLock(root);
  if (!lock) return;
  try {
    await enterLeftovers(root, ledger);
  } finally {
    lock.release();
  }
}

/**
 * Before something is written to a tray that has nothing else. Another ledger may be in its place by now, or the same as it was before: whoever
 * enters the tray after our death asks that one where to begin. Returns the ledger's life.
 */
export async function followLedger(log: TrayLog, ledger: LateCopies): Promise<string> {
  const { life, place } = await ledger.tray();
  if (log.isFoundAfter(life, place)) return life;
  const after = log.unusedAfter(place);
  await ledger.acceptTogether([], after);
  await ledger.flush();
  log.follow(life, after);
  return life;
}

/** For who waits for the ledger's word: the message is safe, and the word is not there. */
export function notYet(error: unknown): Refusal {
  const why = error instanceof Error ? error.message : String(error);
  return new Refusal(
    'storage_failed',
    `it is written down and will be stored later, but it could not be entered yet: send it again under the same key, or not at all (${why})`,
  );
}

/** Between two bites others are heard. */
export function breath(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}
