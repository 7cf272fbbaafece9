import type { Workspace } from '../../flow/workspace.ts';
import { send } from '../../flow/send.ts';
import type { Sent } from '../../flow/send.ts';
import { Extras } from '../../protocol/message.ts';
import type { Draft, Intent, Priority } from '../../protocol/message.ts';
import { SendKey, shortId } from '../../protocol/names.ts';
import type { AgentName, MessageId, Scope } from '../../protocol/names.ts';
import { isSenderId } from '../../protocol/sender-id.ts';
import type { Fields } from './fields.ts';
import { badRequest, Declined } from './phrases.ts';
import { ENVELOPE, jsonText } from './relay.ts';
import type { Asked, Relay } from './relay.ts';

/** Accepts a message. Who sends it is known from the token; what a client says about that is dropped. spec: relay#send */
export async function sendMessage(relay: Relay, c: Asked): Promise<Response> {
  const draft = draftFrom(await relay.fields(c), c.request);
  refuseLargeEnvelope(draft);
  const { name } = c.who;
  const { workspace, quota } = c.room;
  const chosen = idIn(c.request, name, draft);
  const id = chosen !== null && (await isShortIdTaken(workspace, chosen)) ? null : chosen;
  const sent = await quota.within(workspace, (admitting) => sendUnder(id, admitting, name, draft));
  if (sent.first) {
    relay.figures.accepted += 1;
    relay.figures.copies += sent.copies.length;
  }
  return jsonText(c, sent.text ?? JSON.stringify(sent.message), 200, headersFor(relay, sent));
}

/** Under the sender's own id, if it chose one and has not used it for another message. spec: relay#ids */
async function sendUnder(id: MessageId | null, workspace: Workspace, from: AgentName, draft: Draft): Promise<Sent> {
  if (id === null) return send(workspace, from, draft);
  const sent = await send({ ...workspace, newId: () => id, givenIds: true }, from, draft);
  const { message, first } = sent;
  if (first || (message.from === from && message.parley?.key === draft.key)) return sent;
  return send(workspace, from, draft);
}

/** Our own clients choose the id together with a key. Any other id is not theirs to choose, and is dropped. */
function idIn(request: Request, from: AgentName, { key }: Draft): MessageId | null {
  const text = request.headers.get('x-parley-id');
  return text !== null && key !== undefined && isSenderId(text, from) ? text : null;
}

/** People and models name a message by its short id: no sender may make that of another's message ambiguous. */
async function isShortIdTaken({ homes }: Workspace, id: MessageId): Promise<boolean> {
  const alike = await Promise.all(homes.map(({ ledger }) => ledger.idsLike(shortId(id))));
  return alike.flat().some((one) => one !== id);
}

/** The body has a limit of its own, and escapes are no fault of its writer; all the rest together is small. spec: relay#limits */
function refuseLargeEnvelope(draft: Draft): void {
  if (isSurelySmall(draft)) return;
  const { body: _body, ...rest } = draft;
  const size = Buffer.byteLength(JSON.stringify(rest));
  if (size <= ENVELOPE) return;
  throw new Declined(
    413,
    `the message has ${size} bytes beside its body, the limit is ${ENVELOPE} — shorten its refs, thread and scope`,
  );
}

/** Without references, a character of the rest has six bytes at most: nearly no envelope need be written to be measured. */
function isSurelySmall({ to, priority, scope, thread, refs, key }: Draft): boolean {
  const named = to.length + priority.length;
  const optional = (scope?.length ?? 0) + (thread?.length ?? 0) + (key?.length ?? 0);
  return refs === undefined && (named + optional) * 6 < ENVELOPE / 2;
}

function headersFor(relay: Relay, sent: Sent): Record<string, string> | undefined {
  const { keepWaitingMs } = relay.deps.settings;
  if (keepWaitingMs === null && !sent.leftOut) return undefined;
  const headers: Record<string, string> = {};
  if (keepWaitingMs !== null) {
    headers['x-parley-expires'] = new Date(Date.parse(sent.message.ts) + keepWaitingMs).toISOString();
  }
  if (sent.leftOut) headers['x-parley-full'] = sent.leftOut.slice(0, 100).join(', ');
  return headers;
}

/** Scope, thread and refs are the senders' own words: stored as they are, never a path and never looked up by force. */
function draftFrom(fields: Fields, request: Request): Draft {
  const { intent, deadline } = extrasIn(fields);
  return {
    to: fields.text('to'),
    body: fields.text('body'),
    // Other words than ours are stored and passed on, as the original does.
    priority: (fields.optionalText('priority') ?? 'normal') as Priority,
    scope: (fields.optionalText('scope') || undefined) as Scope | undefined,
    thread: (fields.optionalText('thread') || undefined) as MessageId | undefined,
    refs: fields.texts('refs'),
    intent,
    deadline,
    key: keyIn(request),
    firstTried: firstTriedIn(request),
  };
}

/** What our own clients add. What does not fit is dropped, as a relay drops it that does not know it. */
function extrasIn({ values: { intent, deadline } }: Fields): { intent: Intent; deadline: string | undefined } {
  if (intent === undefined && deadline === undefined) return { intent: 'none', deadline: undefined };
  const extras = Extras.safeParse({ v: 1, intent, deadline });
  return extras.success
    ? { intent: extras.data.intent ?? 'none', deadline: extras.data.deadline }
    : { intent: 'none', deadline: undefined };
}

function keyIn(request: Request): SendKey | undefined {
  const text = request.headers.get('idempotency-key');
  if (text === null) return undefined;
  const key = SendKey.safeParse(text);
  if (key.success) return key.data;
  throw badRequest('Idempotency-Key must have 1 to 200 characters, none of them a control character');
}

function firstTriedIn(request: Request): string | undefined {
  const text = request.headers.get('x-parley-first-tried');
  if (text === null) return undefined;
  const at = Date.parse(text);
  if (Number.isNaN(at)) throw badRequest('x-parley-first-tried must be an ISO time');
  return new Date(at).toISOString();
}
