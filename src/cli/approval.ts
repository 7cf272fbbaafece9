import { lineForModel } from '../delivery/gate.ts';
import type { Who } from '../flow/desk.ts';
import { react } from '../flow/react.ts';
import type { Reaction } from '../flow/react.ts';
import type { Message } from '../protocol/message.ts';
import { SendKey, shortId } from '../protocol/names.ts';
import type { MessageId } from '../protocol/names.ts';
import { Refusal } from '../protocol/refusal.ts';
import { isSure, refuseWithoutPerson } from './consent.ts';
import type { Context } from './context.ts';
import { eventFrom } from './event.ts';
import { whole } from './words.ts';

/** What a person says to a request. */
interface Verdict {
  signal: 'agree' | 'declined';
  /** In the person's own words; may be empty. */
  note: string;
  /** Said so beforehand: do not ask once more. */
  sure: boolean;
}

/** How much of an exchange is looked at to see whether it was answered before. */
const EXCHANGE = 200;

/** A person's yes or no to a request for approval, typed at a terminal with the request before their eyes. */
export async function answerApproval(context: Context, prefix: string, verdict: Verdict): Promise<void> {
  refuseWithoutPerson(context);
  const { who, id } = await eventFrom(context, prefix);
  const request = await requestTo(who, id);
  const { signal } = verdict;
  const [word, verb] = signal === 'agree' ? (['approved', 'approve'] as const) : (['denied', 'deny'] as const);
  if ((await lastWord(who, request)) === signal) {
    if (context.json) return context.sayJson({ id, signal, first: false });
    return context.say(`you have ${word} ${shortId(id)} before; nothing was sent`);
  }
  context.note(whole({ message: request }, context.desk.now(), context.paint));
  const held = request.parley?.held;
  if (held)
    context.note(`a yes says this to ${lineForModel(held.to, 64)}, as @${request.from}; it was told in private`);
  const question = `Do you, @${who.name}, ${verb} this?`;
  if (!verdict.sure && !isSure(context, question))
    throw new Refusal('invalid_request', `nothing was said to @${request.from}; the request still waits`);
  const note = verdict.note.trim();
  // What a person types is one act, also if it was said before and taken back since.
  const key = SendKey.parse(`approval/${crypto.randomUUID()}`);
  const reaction: Reaction = { signal, key, ifUnknown: 'refuse', ...(note !== '' && { note }) };
  const { sent, disposition } = await react(context.desk, who, id, reaction);
  if (context.json)
    return context.sayJson({ id, signal, reaction: sent?.message.id ?? null, disposition, first: true });
  context.say(`${context.paint.green(word)} ${shortId(id)}; @${request.from} is told`);
}

/** The request, if it is one, and if it is this person who was asked. */
async function requestTo({ name, home }: Who, id: MessageId): Promise<Message> {
  const kind = (await home.directory.get(name))?.parley?.kind;
  if (kind !== 'human')
    throw new Refusal(
      'not_yours',
      `@${name} is an agent; only a person approves or denies: --as <the person's mailbox>`,
    );
  const message = await home.ledger.message(id);
  if (!message || !(await home.ledger.copy(name, id)))
    throw new Refusal('not_yours', `message ${shortId(id)} was not sent to @${name}`);
  if (message.parley?.intent !== 'approval')
    throw new Refusal(
      'invalid_request',
      `message ${shortId(id)} asks for no approval; answer it: parley reply ${shortId(id)} "…"`,
    );
  return message;
}

/** What this person said to it last. */
async function lastWord({ name, home }: Who, request: Message): Promise<string | undefined> {
  const root = request.parley?.lineage?.root ?? request.id;
  const said = (await home.ledger.exchange(root, EXCHANGE)).filter(
    ({ from, thread, parley }) => from === name && thread === request.id && parley?.signal !== undefined,
  );
  return said.at(-1)?.parley?.signal;
}
