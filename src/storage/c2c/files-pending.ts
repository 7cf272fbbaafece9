import { mkdirSync } from 'node:fs';
import { Refusal } from '../../protocol/refusal.ts';
import type { Pending } from './broker.ts';
import { isSame } from './files-rows.ts';
import { writeKept } from './files-list.ts';
import { withLock } from './lock.ts';
import { readList } from './state-file.ts';

/** So many questions may be open at once: of one alias, and of all. */
const MOST_OF_ONE = 16;
const MOST = 1024;

/** Notes a question that waits for people; those whose time is over go. spec: c2c#pending */
export function writePending(root: string, pending: Pending, now: number): void {
  const path = pathOf(root);
  mkdirSync(root, { recursive: true, mode: 0o700 });
  withLock(`${path}.lock`, () => {
    const before = readList(path);
    const open = before.values.filter((value) => !isOver(value, now));
    const rest = open.filter((value) => !isThe(value, pending));
    if (rest.some((value) => readPending(value)?.id === pending.id)) {
      throw new Refusal('name_taken', `${pending.id} is a question of another session; give this one another id`);
    }
    if (rest.length >= MOST || rest.filter((value) => isOf(value, pending.alias)).length >= MOST_OF_ONE) {
      throw new Refusal('busy', 'too many questions are open; wait until some are answered or their time is over');
    }
    writeKept(root, path, [...rest, written(pending)], [before]);
  });
}

/** A question that is still open; null if there is none of this id, or if its time is over. */
export function findPending(root: string, id: string, now: number): Pending | null {
  const found = readList(pathOf(root)).values.map((value) => (isOver(value, now) ? null : readPending(value)));
  return found.find((one) => one?.id === id) ?? null;
}

function pathOf(root: string): string {
  return `${root}/pending_permissions.json`;
}

function isThe(value: unknown, { id, sessionId }: Pending): boolean {
  const known = readPending(value);
  return known?.id === id && known.sessionId === sessionId;
}

function isOf(value: unknown, alias: string): boolean {
  const known = readPending(value);
  return known !== null && isSame(known.alias, alias);
}

/** Its time is over, or another program noted that somebody answered it. */
function isOver(value: unknown, now: number): boolean {
  const known = readPending(value);
  if (known === null) return false;
  return known.expiresAt <= now / 1000 || typeof (value as Record<string, unknown>)['resolved_at'] === 'number';
}

function written({ id, kind, sessionId, alias, supervisors, createdAt, expiresAt }: Pending): object {
  return {
    perm_id: id,
    kind,
    requester_session_id: sessionId,
    requester_alias: alias,
    supervisors,
    created_at: createdAt,
    expires_at: expiresAt,
    fallthrough_fired_at: supervisors.map(() => null),
    resolved_at: null,
    verdict: null,
  };
}

function readPending(value: unknown): Pending | null {
  if (typeof value !== 'object' || value === null) return null;
  const row = value as Record<string, unknown>;
  const text = (name: string): string => (typeof row[name] === 'string' ? row[name] : '');
  const time = (name: string): number => (typeof row[name] === 'number' ? row[name] : 0);
  const { supervisors } = row;
  if (text('perm_id') === '') return null;
  return {
    id: text('perm_id'),
    kind: text('kind'),
    sessionId: text('requester_session_id'),
    alias: text('requester_alias'),
    supervisors: Array.isArray(supervisors) ? supervisors.filter((one): one is string => typeof one === 'string') : [],
    createdAt: time('created_at'),
    expiresAt: time('expires_at'),
  };
}
