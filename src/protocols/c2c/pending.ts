import { mkdirSync } from 'node:fs';
import { Refusal } from '../../core/refusal.ts';
import type { Broker } from './broker.ts';
import { isObject, readList, writeList } from './files.ts';
import { withLock } from './lock.ts';
import { noAlias } from './sessions.ts';
import { isSameAlias, readAlias } from './shapes.ts';

/** How long a question to people stays open by default, in seconds. */
export const QUESTION_S = 600;
/** The most open questions of one alias, and of all. */
const MAX_OF_ONE = 16;
const MAX_OPEN = 1024;

/** A question to people that a session waits for, as a row of `pending_permissions.json`. Times are seconds since 1970. */
export interface Pending {
  perm_id: string;
  kind: string;
  requester_session_id: string;
  requester_alias: string;
  supervisors: readonly string[];
  created_at: number;
  expires_at: number;
}

/** A question as the client asks it. */
export interface Question {
  id: string;
  kind: string;
  supervisors: readonly string[];
  /** In seconds. */
  ttl: number;
}

/** Records that a session waits for an answer, and who may give it. spec: c2c#pending */
export async function openQuestion(broker: Broker, sessionId: string, question: Question, now: number) {
  const { id, kind, ttl } = question;
  if (!/^[^\p{Cc}]{1,200}$/u.test(id))
    throw new Refusal('invalid_request', 'an id is one line of at most 200 characters');
  if (kind !== 'permission' && kind !== 'question') {
    throw new Refusal('invalid_request', '--kind is permission or question');
  }
  const known = await broker.session(sessionId);
  if (!known) throw noAlias();
  const pending: Pending = {
    perm_id: id,
    kind,
    requester_session_id: sessionId,
    requester_alias: known.row.alias,
    supervisors: question.supervisors.map(readAlias),
    created_at: now / 1000,
    expires_at: now / 1000 + ttl,
  };
  writePending(broker.root, pending, now);
  return { ok: true, perm_id: id, kind, ttl_seconds: ttl, expires_at: pending.expires_at };
}

/**
 * Whether this alias may answer that question: only if the question names it and the user made it a supervisor by hand. Any session can write to
 * another, and a yes can start anything. spec: c2c#pending
 */
export async function mayAnswer(broker: Broker, id: string, from: string, namedByHand: readonly string[]) {
  const question = findPending(broker.root, id, broker.now());
  if (!question) return answer(false, null, `no question ${id} is open: it is unknown, answered or too old`);
  const { requester_session_id: sessionId, requester_alias: alias } = question;
  const holder = await broker.byAlias(from);
  if (isSameName(from, alias) || holder?.row.session_id === sessionId) {
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

/** Compares aliases without case. `other` is unchecked input, so it must be ASCII: some other letters have an ASCII lower case. */
function isSameName(one: string, other: string): boolean {
  return one.length === other.length && isSameAlias(one, other) && /^[\0-\x7f]*$/.test(other);
}

/** Stores an open question, and removes those that have ended. */
export function writePending(root: string, pending: Pending, now: number): void {
  const path = pathOf(root);
  const { perm_id: id, requester_session_id: sessionId, requester_alias: alias, supervisors } = pending;
  mkdirSync(root, { recursive: true, mode: 0o700 });
  withLock(`${path}.lock`, () => {
    const before = readList(path);
    const isReplaced = (one: unknown): boolean =>
      isPending(one) && one.perm_id === id && one.requester_session_id === sessionId;
    const rest = before.values.filter((one) => !isOver(one, now) && !isReplaced(one));
    const known = rest.filter(isPending);
    if (known.some((one) => one.perm_id === id)) {
      throw new Refusal('name_taken', `${id} is a question of another session; give this one another id`);
    }
    if (
      rest.length >= MAX_OPEN ||
      known.filter((one) => isSameAlias(one.requester_alias, alias)).length >= MAX_OF_ONE
    ) {
      throw new Refusal('busy', 'too many questions are open; wait until some are answered or their time is over');
    }
    const unanswered = { fallthrough_fired_at: supervisors.map(() => null), resolved_at: null, verdict: null };
    writeList(root, path, [...rest, { ...pending, ...unanswered }], before);
  });
}

/** The open question with this id; null if there is none, or if it has expired or was answered. */
export function findPending(root: string, id: string, now: number): Pending | null {
  const open = readList(pathOf(root)).values.filter((one) => !isOver(one, now));
  return open.filter(isPending).find((one) => one.perm_id === id) ?? null;
}

function pathOf(root: string): string {
  return `${root}/pending_permissions.json`;
}

/** Whether a question has expired, or another program recorded an answer. False for a value that is not a question, so that it is kept. */
function isOver(value: unknown, now: number): boolean {
  return isPending(value) && (value.expires_at <= now / 1000 || typeof value['resolved_at'] === 'number');
}

function isPending(value: unknown): value is Pending & Record<string, unknown> {
  if (!isObject(value) || value['perm_id'] === '' || typeof value['expires_at'] !== 'number') return false;
  const { supervisors } = value;
  const texts = ['perm_id', 'requester_session_id', 'requester_alias'];
  const isAsked = Array.isArray(supervisors) && supervisors.every((one) => typeof one === 'string');
  return isAsked && texts.every((name) => typeof value[name] === 'string');
}
