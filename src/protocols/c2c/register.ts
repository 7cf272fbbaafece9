import { unlinkSync } from 'node:fs';
import { AgentName } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import { HOST_NAME } from '../../core/signal.ts';
import { ifThere } from '../../core/disk.ts';
import { flushFolder } from '../../platform/files.ts';
import { idOf, isEntry } from './entry.ts';
import { isObject, readFileLines, replaceDurably, withFloats } from './files.ts';
import { inboxEntry, merged, readInbox, writeInbox } from './inbox.ts';
import type { InboxEntry } from './inbox.ts';
import { jsonValue } from './json-list.ts';
import { withLock } from './lock.ts';
import { processFields, whyHeld } from './registry.ts';
import type { Kept } from './registry.ts';
import { AliasTaken, isSameAlias } from './shapes.ts';
import type { SessionRow } from './shapes.ts';

/** A session that asks to be registered. Without an alias it keeps the one it has. */
export interface Registration {
  sessionId: string;
  alias?: AgentName | undefined;
  pid?: number | undefined;
  clientType?: string | undefined;
}

/** The new content of the registry after a session got its alias. */
interface Registered {
  row: SessionRow;
  /** All rows, the new one first, as other programs write it. */
  rows: unknown[];
  /** The ids of ended sessions that had the alias: their mail goes to this session. */
  ended: string[];
  /** The former alias of this session, if it was another one. */
  before: string | undefined;
}

type Fields = Record<string, unknown>;
type IsAlive = (row: SessionRow) => boolean | null;

/** Fields of the ended process. The other fields of its row are inherited with the alias. */
const OF_THE_PROCESS = [
  'pid',
  'pid_start_time',
  'compacting',
  'confirmed_at',
  'last_activity_ts',
  'client_type',
  'plugin_version',
  'automated_delivery',
  'cwd',
];

/** Decides who has an alias, and refuses a taken one. Writes nothing: the caller does, and holds the registry's lock. spec: c2c#aliases */
export function registered(kept: readonly Kept[], wish: Registration, now: number, isAlive: IsAlive): Registered {
  const mine = kept.find(({ row }) => row?.session_id === wish.sessionId);
  const wanted = wish.alias ?? mine?.row?.alias;
  if (wanted === undefined) {
    throw new Refusal('no_identity', 'this session has no alias yet; give one: `c2c register <alias>`');
  }
  const holders = kept.filter((one) => one !== mine && one.row !== null && isSameAlias(one.row.alias, wanted));
  refuseReserved(kept, wanted);
  for (const { row } of holders) {
    const why = row && whyHeld(row, isAlive(row), now);
    if (row && why) throw new AliasTaken(row.alias, row.session_id, freeAlias(kept, wanted), why);
  }
  // Keep the spelling under which the alias was first registered, because held mail and the ledger use it.
  const named = mine?.row && isSameAlias(mine.row.alias, wanted) ? mine : holders[0];
  const alias = named?.row?.alias ?? wanted;
  // Roles, quiet times and the token belong to the alias, whichever session has it.
  const { parley, tokenHash } = fieldsOf(named);
  const value: Fields = {
    ...(mine ? fieldsOf(mine) : inherited(holders[0])),
    ...(parley !== undefined && { parley }),
    ...(tokenHash !== undefined && { tokenHash }),
    ...freshFields(mine, wish, isAlive),
    session_id: wish.sessionId,
    alias,
    registered_at: now / 1000,
    last_activity_ts: now / 1000,
    ...(wish.clientType !== undefined && { client_type: wish.clientType }),
  };
  // A session that registers here gets an attention policy; rows of other programs have none.
  value['parley'] ??= { v: 1, kind: 'agent', roles: [] };
  const others = kept.filter((one) => one !== mine && !holders.includes(one)).map((one) => one.value);
  return {
    row: value as SessionRow,
    rows: [value, ...others],
    ended: holders.flatMap(({ row }) => row?.session_id ?? []),
    before: mine?.row && !isSameAlias(mine.row.alias, alias) ? mine.row.alias : undefined,
  };
}

function refuseReserved(kept: readonly Kept[], wanted: string): void {
  if (wanted.toLowerCase() === HOST_NAME) {
    throw new Refusal('name_taken', `under "${HOST_NAME}" Parley itself writes; pick another alias`);
  }
  for (const { alias, parley } of kept.map(fieldsOf)) {
    const roles = isObject(parley) ? parley['roles'] : null;
    if (!Array.isArray(roles) || !roles.includes(wanted)) continue;
    throw new Refusal('name_taken', `"${wanted}" is a role of ${String(alias)}; pick another alias`);
  }
}

/** A free alias: the wanted one with a number appended; null if all numbers are taken. */
function freeAlias(kept: readonly Kept[], wanted: string): string | null {
  const taken = kept.map((one) => String(fieldsOf(one)['alias']).toLowerCase());
  for (let number = 2; number < 100; number += 1) {
    const free = `${wanted.slice(0, 61)}-${number}`;
    if (!taken.includes(free.toLowerCase()) && AgentName.safeParse(free).success) return free;
  }
  return null;
}

function fieldsOf(kept: Kept | undefined): Fields {
  return { ...(kept?.value as Fields | null | undefined) };
}

function inherited(holder: Kept | undefined): Fields {
  return Object.fromEntries(Object.entries(fieldsOf(holder)).filter(([name]) => !OF_THE_PROCESS.includes(name)));
}

/** The process fields: of the process that was named; else the row's own, if that process may still run. */
function freshFields(mine: Kept | undefined, { pid }: Registration, isAlive: IsAlive): Fields {
  const named = processFields(pid);
  if (named.pid !== undefined) return { pid_start_time: undefined, ...named };
  const keeps = mine?.row?.pid !== undefined && isAlive(mine.row) !== false;
  return keeps ? {} : { pid: undefined, pid_start_time: undefined };
}

/**
 * Copies the waiting mail of an ended session to another one; `clearMail` then removes it from the old inbox. After a crash between the two the
 * mail is in both inboxes, and the next call adds nothing twice. The caller holds the registry's lock, so no process registers or sends meanwhile.
 * The two inbox locks are taken one after the other. Held mail is stored by alias and need not move. spec: c2c#moving
 */
export function copyMail(root: string, from: string, to: string): InboxEntry[] {
  const { entries } = withInbox(root, from, readInbox);
  if (entries.length > 0) addMail(root, to, entries);
  return entries;
}

/** Removes the copied mail from the old inbox. Keeps mail that came since. */
export function clearMail(root: string, from: string, copied: readonly InboxEntry[]): void {
  if (copied.length === 0) return;
  withInbox(root, from, (path) => {
    const { entries, broken } = readInbox(path);
    const rest = without(entries, copied);
    if (rest.length > 0 || broken !== undefined) writeInbox(root, path, rest, broken);
    if (rest.length === 0) ifThere(() => unlinkSync(path));
  });
}

/** Moves dead letters of this session back into its inbox: a sweep of another program had moved them out. spec: c2c#dead-letters */
export function returnDeadLetters(root: string, sessionId: string, alias: string): void {
  const path = `${root}/dead-letter.jsonl`;
  if (readFileLines(path).length === 0) return;
  withLock(`${path}.lock`, () => {
    const lines = readFileLines(path);
    const found = lines.map((line) => letterFor(line, sessionId, alias));
    const returned = found.filter((one) => one !== null);
    if (returned.length === 0) return;
    addMail(root, sessionId, returned);
    const rest = lines.filter((_, at) => found[at] === null);
    replaceDurably(path, rest.map((line) => `${line}\n`).join(''));
  });
}

/** The message of a dead letter, if it is for this session or this alias. */
function letterFor(line: string, sessionId: string, alias: string): InboxEntry | null {
  const letter = jsonValue(line);
  const message = isObject(letter) ? letter['message'] : null;
  if (!isObject(letter) || !isEntry(message)) return null;
  const isMine = letter['from_session_id'] === sessionId || isSameAlias(message.to_alias.replace(/#.*$/, ''), alias);
  return isMine ? inboxEntry(message, withFloats(message)) : null;
}

/** Adds mail to an inbox, in the order of sending. Skips entries that are there. */
function addMail(root: string, to: string, mail: readonly InboxEntry[]): void {
  withInbox(root, to, (path) => {
    const { entries, broken } = readInbox(path);
    const added = without(mail, entries);
    if (added.length > 0) writeInbox(root, path, merged(added, entries), broken);
  });
  flushFolder(root);
}

/** The entries without the others. Each of the others removes one equal entry. */
function without(entries: readonly InboxEntry[], others: readonly InboxEntry[]): InboxEntry[] {
  const counts = new Map<string, number>();
  for (const key of others.map(keyOf)) counts.set(key, (counts.get(key) ?? 0) + 1);
  return entries.filter((one) => {
    const left = counts.get(keyOf(one)) ?? 0;
    counts.set(keyOf(one), left - 1);
    return left <= 0;
  });
}

/** Identifies a message: by its id, sender and text; without an id, by the whole entry. */
function keyOf({ entry }: InboxEntry): string {
  const { message_id: id, from_alias: from, content } = entry;
  return JSON.stringify(idOf(entry) ? [id, from, content] : entry);
}

function withInbox<T>(root: string, sessionId: string, act: (path: string) => T): T {
  return withLock(`${root}/${sessionId}.inbox.lock`, () => act(`${root}/${sessionId}.inbox.json`));
}
