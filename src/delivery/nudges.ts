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
import type { HoldReason } from './wake-budget.ts';

/** The number of nudges for one message whose ids are derived from the id of that message. Later ones have random ids. */
const DERIVED_IDS = 4;

export interface NudgesDeps {
  proofOf(handover: Handover): Promise<RecordedProof | null>;
  /** Why a session is not woken for a message now. */
  holdReason(mailbox: ReadMailbox, message: Message, session: string): Promise<HoldReason | null>;
  now(): number;
}

/** A message that is in the conversation of a session, and that its model is not asked with until another turn begins. */
export interface Unasked {
  mailbox: ReadMailbox;
  handover: Handover;
}

export interface NudgeText extends Pick<Parcel, 'id' | 'text'> {
  /** Set if the nudge names one question only: that question has the turn for itself, so its answer can be captured. */
  asks: MessageId | null;
}

/**
 * A nudge is a short text that makes an idle session ask its model again. It names the mail in the conversation that got no answer, and
 * repeats nothing of that mail.
 *
 * One nudge names all such mail of a session. Each handover of a message is nudged once, and the nudge is recorded before it is tried. It is
 * tried again only if the client did not take it, or by a later process, and then only if the client's record shows that it did not arrive.
 */
export class Nudges {
  /** The nudges that this process has tried. */
  readonly #tried = new Set<MessageId>();

  constructor(readonly deps: NudgesDeps) {}

  /** Makes and records the next nudge for a session; null if none is due. */
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

  /** The client did not take the nudge. It may be tried again when the client's record shows that it did not arrive. */
  forget({ id }: NudgeText): void {
    this.#tried.delete(id);
  }

  /** A nudge for one message has an id derived from that message's id: the client's record then tells which message the turn is about. */
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
    return message !== null && (await this.deps.holdReason(mailbox, message, live.id)) === null;
  }
}

async function isQuestion({ mailbox: { who }, handover: { id } }: Unasked): Promise<boolean> {
  const [message, copy] = [await who.home.journal.message(id), await who.home.journal.copy(who.name, id)];
  return message !== null && copy !== null && wantsAnswer({ message, attention: copy.attention });
}

/** The derived ids of the nudges that name only this message, in order. */
export function nudgeIdsOf(id: MessageId): MessageId[] {
  return Array.from({ length: DERIVED_IDS }, (_, n) => {
    const hex = new Bun.CryptoHasher('sha256').update(`nudge ${n} ${id}`).digest('hex');
    return MessageId.parse(hex.replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*$/, '$1-$2-8$3-8$4-$5'));
  });
}

/** Hands a nudge over: in the client's own form if the way has one, else as a text. */
export function nudge(way: Way, { id, text }: NudgeText, signal: AbortSignal): Promise<Attempt> {
  return way.nudge?.(signal) ?? way.attempt([{ id, text, from: 'parley' }], signal);
}

function nudgeText(ids: readonly MessageId[]): string {
  const names = ids.map(idInFence).join(', ');
  const [what, it] = ids.length === 1 ? [`Message ${names} is`, 'it'] : [`Messages ${names} are`, 'them'];
  return `${what} above, and got no answer: a request to the model failed, or the client was started again. Go on with ${it} now.`;
}
