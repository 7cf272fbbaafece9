import type { ReadMailbox } from '../core/mail/shared.ts';
import { receiptsOf } from '../core/mail/workspace.ts';
import { MessageId } from '../core/names.ts';
import type { LiveSession, RecordedProof } from '../core/ports/live-session.ts';
import type { Attempt, Way } from '../core/ports/way-in.ts';
import { receipt } from '../core/receipt.ts';
import { idInFence } from './fit.ts';
import type { Handover } from './hand-over.ts';
import type { Hindrance } from './wake-budget.ts';

export interface NudgesDeps {
  proofOf(handover: Handover): Promise<RecordedProof | null>;
  /** Why a session is not woken for a message now. */
  hindrance(mailbox: ReadMailbox, id: MessageId, session: string): Promise<Hindrance | null>;
  now(): number;
}

/** A message that the conversation of a session has, and that its model is not asked with until another turn begins. */
export interface Unasked {
  mailbox: ReadMailbox;
  handover: Handover;
}

/**
 * Short texts that make an idle session ask its model again. They name mail that its conversation has and that got no answer, and repeat
 * nothing of it. One for all such mail of a session, and one for each time that a message was handed over. It is noted before it is tried;
 * a later process tries it again only if the client's record shows that it did not arrive.
 */
export class Nudges {
  /** Those that this process has tried. */
  readonly #tried = new Set<MessageId>();

  constructor(readonly deps: NudgesDeps) {}

  /** Notes the next one for a session; null if there is nothing to ask for. */
  async prepare(live: LiveSession, way: Way, all: readonly Unasked[]): Promise<{ id: MessageId; text: string } | null> {
    const due: Unasked[] = [];
    for (const one of all) if (await this.#isDue(live, one)) due.push(one);
    if (due.length === 0) return null;
    const id = MessageId.parse(crypto.randomUUID());
    this.#tried.add(id);
    const evidence = { way: way.name, client: live.client, session: live.id, nudge: id };
    for (const { mailbox, handover } of due)
      await mailbox.who.home.journal.record(
        mailbox.who.name,
        handover.id,
        receipt('knocked', this.deps.now(), { ...evidence, because: 'its request got no answer' }),
      );
    return { id, text: nudgeText(due.map(({ handover }) => handover.id)) };
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
    return (await this.deps.hindrance(mailbox, handover.id, live.id)) === null;
  }
}

/** Hands it over. */
export function nudge(way: Way, { id, text }: { id: MessageId; text: string }, signal: AbortSignal): Promise<Attempt> {
  return way.nudge?.(signal) ?? way.attempt([{ id, text, from: 'parley' }], signal);
}

function nudgeText(ids: readonly MessageId[]): string {
  const names = ids.map(idInFence).join(', ');
  const [what, it] = ids.length === 1 ? [`Message ${names} is`, 'it'] : [`Messages ${names} are`, 'them'];
  return `${what} above, and got no answer: a request to the model failed, or the client was started again. Go on with ${it} now.`;
}
