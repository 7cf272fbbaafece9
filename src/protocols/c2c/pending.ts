import { mkdirSync } from 'node:fs';
import { Refusal } from '../../protocol/refusal.ts';
import type { Broker } from './broker.ts';
import { isObject, readList, writeList } from './files.ts';
import { withLock } from './lock.ts';
import { isSame, readAlias } from './shapes.ts';

/** How long a question to people stays open unless the user says otherwise, in seconds. */
export const QUESTION_S = 600;
/** How many questions may be open at once: of one alias, and of all. */
const MAX_OF_ONE = 16;
const MAX_OPEN = 1024;

/** A question to people that a session waits for, and who may answer it. Times are seconds since 1970. */
export interface Pending {
  id: string;
  kind: string;
  sessionId: string;
  alias: string;
  supervisors: readonly string[];
  createdAt: number;
  expiresAt: number;
}

/** A question in the words of the client that asks it. */
export interface Question {
  id: string;
  kind: string;
  supervisors: readonly string[];
  /** In seconds. */
  ttl: number;
}

/** Notes that a session waits for an answer, so that it can be checked later who may give it. spec: c2c#pending */
export async function openQuestion(broker: Broker, sessionId: string, question: Question, now: number) {
  const { id, kind, ttl } = question;
  if (!/^[^\p{Cc}]{1,200}$/u.test(id))
    throw new Refusal('invalid_request', 'an id is one line of at most 200 characters');
  if (kind !== 'permission' && kind !== 'question') {
    throw new Refusal('invalid_request', '--kind is permission or question');
  }
  const known = await broker.session(sessionId);
  if (!known) throw new Refusal('no_identity', 'this session has no alias; run `c2c register <alias>` first');
  const { alias } = known.row;
  const supervisors = question.supervisors.map(readAlias);
  const createdAt = now / 1000;
  const expiresAt = createdAt + ttl;
  writePending(broker.root, { id, kind, sessionId, alias, supervisors, createdAt, expiresAt }, now);
  return { ok: true, perm_id: id, kind, ttl_seconds: ttl, expires_at: expiresAt };
}

/**
 * May this one answer that question? Only an alias that was asked, and of those only one that the user named by hand: anybody can write
 * to a session, and a yes can start anything. spec: c2c#pending
 */
export async function mayAnswer(broker: Broker, id: string, from: string, namedByHand: readonly string[]) {
  const question = findPending(broker.root, id, broker.now());
  if (!question) return answer(false, null, `no question ${id} is open: it is unknown, answered or too old`);
  const { sessionId } = question;
  const holder = await broker.called(from);
  if (isSameName(from, question.alias) || holder?.row.session_id === sessionId) {
    return answer(false, sessionId, `${from} asked it; the session that asked cannot answer`);
  }
  const isIn = (names: readonly string[]): boolean => names.some((name) => isSameName(name, from));
  if (!isIn(question.supervisors)) return answer(false, sessionId, `${from} was not asked`);
  if (isIn(namedByHand)) return answer(true, sessionId, null);
  return answer(
    false,
    sessionId,
    `${from} is no supervisor here; the user names them: \`c2c repo set supervisors ${from}\` (\`c2c repo show\` says who counts)`,
  );
}

function answer(valid: boolean, session: string | null, error: string | null) {
  return { valid, requester_session_id: session, error };
}

/** `from` is not checked to be an alias: other letters may become the same small letter. */
function isSameName(one: string, other: string): boolean {
  return one.length === other.length && isSame(one, other) && /^[\0-\x7f]*$/.test(other);
}

/** Notes an open question, and removes those that are over. */
export function writePending(root: string, pending: Pending, now: number): void {
  const path = pathOf(root);
  mkdirSync(root, { recursive: true, mode: 0o700 });
  withLock(`${path}.lock`, () => {
    const before = readList(path);
    const open = before.values.map((value) => ({ value, known: readPending(value) }));
    const rest = open.filter(({ value, known }) => {
      const isReplaced = known?.id === pending.id && known.sessionId === pending.sessionId;
      return !isReplaced && !isOver(value, now);
    });
    if (rest.some(({ known }) => known?.id === pending.id)) {
      throw new Refusal('name_taken', `${pending.id} is a question of another session; give this one another id`);
    }
    const ofThisAlias = rest.filter(({ known }) => known && isSame(known.alias, pending.alias));
    if (rest.length >= MAX_OPEN || ofThisAlias.length >= MAX_OF_ONE) {
      throw new Refusal('busy', 'too many questions are open; wait until some are answered or their time is over');
    }
    writeList(root, path, [...rest.map(({ value }) => value), written(pending)], before);
  });
}

/** A question that is still open; null if there is none of this id, or if its time is over. */
export function findPending(root: string, id: string, now: number): Pending | null {
  const open = readList(pathOf(root)).values.filter((value) => !isOver(value, now));
  return open.map(readPending).find((one) => one?.id === id) ?? null;
}

function pathOf(root: string): string {
  return `${root}/pending_permissions.json`;
}

/** Its time is over, or another program noted an answer. */
function isOver(value: unknown, now: number): boolean {
  const known = readPending(value);
  if (!known || !isObject(value)) return false;
  return known.expiresAt <= now / 1000 || typeof value['resolved_at'] === 'number';
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
  if (!isObject(value) || typeof value['perm_id'] !== 'string' || value['perm_id'] === '') return null;
  const text = (name: string): string => (typeof value[name] === 'string' ? value[name] : '');
  const time = (name: string): number => (typeof value[name] === 'number' ? value[name] : 0);
  const { supervisors } = value;
  return {
    id: value['perm_id'],
    kind: text('kind'),
    sessionId: text('requester_session_id'),
    alias: text('requester_alias'),
    supervisors: Array.isArray(supervisors) ? supervisors.filter((one) => typeof one === 'string') : [],
    createdAt: time('created_at'),
    expiresAt: time('expires_at'),
  };
}
