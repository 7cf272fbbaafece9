import { readAlias } from '../../protocol/c2c.ts';
import { Refusal } from '../../protocol/refusal.ts';
import type { Broker } from '../../storage/c2c/broker.ts';

/** How long a question to people stays open unless the user says otherwise, in seconds. */
export const QUESTION_S = 600;

/** A question that a session asks people about, by the words of its client. */
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
  const createdAt = now / 1000;
  await broker.openPending({
    id,
    kind,
    sessionId,
    alias: known.row.alias,
    supervisors: question.supervisors.map(readAlias),
    createdAt,
    expiresAt: createdAt + ttl,
  });
  return { ok: true, perm_id: id, kind, ttl_seconds: ttl, expires_at: createdAt + ttl };
}

/**
 * May this one answer that question? Only who was asked, and of those only whom the user named by hand: anybody can write to a session,
 * and a yes can start anything. spec: c2c#pending
 */
export async function mayAnswer(broker: Broker, id: string, from: string, namedByHand: readonly string[]) {
  const question = await broker.pending(id);
  if (!question) return answer(false, null, `no question ${id} is open: it is unknown, answered or too old`);
  const holder = await broker.called(from);
  if (isSame(from, question.alias) || holder?.row.session_id === question.sessionId) {
    return answer(false, question.sessionId, `${from} asked it; the session that asked cannot answer`);
  }
  const isIn = (names: readonly string[]): boolean => names.some((name) => isSame(name, from));
  if (!isIn(question.supervisors)) return answer(false, question.sessionId, `${from} was not asked`);
  if (isIn(namedByHand)) return answer(true, question.sessionId, null);
  return answer(
    false,
    question.sessionId,
    `${from} is no supervisor here; the user names them: \`c2c repo set supervisors ${from}\` (\`c2c repo show\` says who counts)`,
  );
}

function answer(valid: boolean, session: string | null, error: string | null) {
  return { valid, requester_session_id: session, error };
}

/** Small and large letters of an alias are the same; letters that merely become one of them are not. */
function isSame(one: string, other: string): boolean {
  return one.length === other.length && one.toLowerCase() === other.toLowerCase() && /^[\0-\x7f]*$/.test(other);
}
