import type { ReadMailbox } from '../core/mail/shared.ts';
import { receiptsOf } from '../core/mail/workspace.ts';
import type { Message } from '../core/message.ts';
import { MessageId } from '../core/names.ts';
import type { LiveSession, RecordedProof } from '../core/ports/live-session.ts';
import type { Attempt, Parcel, Way } from '../core/ports/way-in.ts';
import { receipt } from '../core/receipt.ts';
import { wantsAnswer } from './answers.ts';
import { idInFence } from './fit.ts';
import type { Handover } from './hand-over.ts';
import type { Hindrance } from './wake-budget.ts';

/** After this many texts, the next ones for a message have ids that are not made from its own. */
const MOST_OWN = 4;

export interface NudgesDeps {
  proofOf(handover: Handover): Promise<RecordedProof | null>;
  /** Why a session is not woken for a message now. */
  hindrance(mailbox: ReadMailbox, message: Message, session: string): Promise<Hindrance | null>;
  now(): number;
}

/** A message that the conversation of a session has, and that its model is not asked with until another turn begins. */
export interface Unasked {
  mailbox: ReadMailbox;
  handover: Handover;
}

export interface NudgeText extends Pick<Parcel, 'id' | 'text'> {
  /** It names this question only: the turn that it begins should be about that alone, so that its answer is known. Null: it names others. */
  asks: MessageId | null;
}

/**
 * Short texts that make an idle session ask its model again. They name mail that its conversation has and that got no answer, and repeat
 * nothing of it. One for all such mail of a session, and one for each time that a message was handed over. It is noted before it is tried.
 * It is tried again only if the client did not take it, or by a later process, and then only if the client's record shows that it did not
 * arrive.
 */
export class Nudges {
  /** Those that this process has tried. */
  readonly #tried = new Set<MessageId>();

  constructor(readonly deps: NudgesDeps) {}

  /** Notes the next one for a session; null if there is nothing to ask for. */
  async prepare(live: LiveSession, way: Way, all: readonly Unasked[]): Promise<NudgeText | null> {
    const due: Unasked[] = [];
    for (const one of all) if (await this.#isDue(live, one)) due.push(one);
    const [first, ...others] = due;
    if (!first) return null;
    const id = await this.#nextId([first, ...others]);
    this.#tried.add(id);
    const evidence = { way: way.name, client: live.client, session: live.id, nudge: id };
    for (const { mailbox, handover } of due)
      await mailbox.who.home.journal.record(
        mailbox.who.name,
        handover.id,
        receipt('knocked', this.deps.now(), { ...evidence, because: 'its request got no answer' }),
      );
    const asks = others.length === 0 && (await isQuestion(first)) ? first.handover.id : null;
    return { id, text: nudgeText(due.map(({ handover }) => handover.id)), asks };
  }

  /** Nothing went in: it may be tried again when the client's record agrees. */
  forget({ id }: NudgeText): void {
    this.#tried.delete(id);
  }

  /** One for a single message has an id that is made from the message's, so that a client's record tells what the turn is about. */
  async #nextId([{ mailbox, handover }, ...others]: readonly [Unasked, ...Unasked[]]): Promise<MessageId> {
    const before = (await receiptsOf(mailbox.who, handover.id)).filter(({ evidence }) => 'nudge' in evidence).length;
    const own = others.length === 0 ? nudgeIdsOf(handover.id)[before] : undefined;
    return own ?? MessageId.parse(crypto.randomUUID());
  }

  async #isDue(live: LiveSession, { mailbox, handover }: Unasked): Promise<boolean> {
    const receipts = await receiptsOf(mailbox.who, handover.id);
    const last = receipts.findLast(({ evidence, at }) => 'nudge' in evidence && Date.parse(at) >= handover.at);
    if (last) {
      const id = last.evidence['nudge'] as MessageId;
      if (this.#tried.has(id)) return false;
      const proof = await this.deps.proofOf({ ...handover, id, at: Date.parse(last.at) });
      if (proof?.step !== 'none' || !proof.isOver) return false;
    }
    const message = await mailbox.who.home.journal.message(handover.id);
    return message !== null && (await this.deps.hindrance(mailbox, message, live.id)) === null;
  }
}

/** Whether the final text of its turn is its answer. */
async function isQuestion({ mailbox: { who }, handover: { id } }: Unasked): Promise<boolean> {
  const [message, copy] = [await who.home.journal.message(id), await who.home.journal.copy(who.name, id)];
  return message !== null && copy !== null && wantsAnswer({ message, attention: copy.attention });
}

/** The ids of the texts that name only this message, in their order. */
export function nudgeIdsOf(id: MessageId): MessageId[] {
  return Array.from({ length: MOST_OWN }, (_, n) => {
    const hex = new Bun.CryptoHasher('sha256').update(`nudge ${n} ${id}`).digest('hex');
    return MessageId.parse(hex.replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*$/, '$1-$2-8$3-8$4-$5'));
  });
}

/** Hands it over. */
export function nudge(way: Way, { id, text }: NudgeText, signal: AbortSignal): Promise<Attempt> {
  return way.nudge?.(signal) ?? way.attempt([{ id, text, from: 'parley' }], signal);
}

function nudgeText(ids: readonly MessageId[]): string {
  const names = ids.map(idInFence).join(', ');
  const [what, it] = ids.length === 1 ? [`Message ${names} is`, 'it'] : [`Messages ${names} are`, 'them'];
  return `${what} above, and got no answer: a request to the model failed, or the client was started again. Go on with ${it} now.`;
}
