import { masked } from '../core/attention/secrets.ts';
import type { Attention } from '../core/attention/attention.ts';
import { lineForModel } from '../core/gate.ts';
import type { Who, Workspace } from '../core/mail/workspace.ts';
import { AgentName } from '../core/names.ts';
import type { MessageId } from '../core/names.ts';
import { Refusal } from '../core/refusal.ts';
import { post, sendKeyOf } from '../core/obligations/owners.ts';
import type { RecordedProof } from '../core/ports/live-session.ts';
import type { Handover } from './hand-over.ts';

const MAX_REASON_CHARACTERS = 200;

/** The notice to a sender is shown to its model and needs no answer: Parley wrote it. */
const NOTICE: Attention = {
  directedness: 'to_me',
  policy: 'must_not_respond',
  injection: 'buffered',
  reason: 'direct_message',
};

type Accepted = Extract<RecordedProof, { step: 'accepted' }>;

/**
 * Messages that are stuck in a client which cannot reach its model: no quota, no login, no network. A stuck message stays with the client,
 * which shows it when its model answers again. Meanwhile the session gets no further mail, and the sender of each stuck message gets one
 * notice.
 */
export class StuckMail {
  /** Stuck messages, with their handover. `isOver`: the model of that session answers again. */
  readonly #stuck = new Map<string, { who: Who; handover: Handover; isOver: boolean }>();

  constructor(readonly workspace: Workspace) {}

  /**
   * Records that a message is stuck, after its sender got the notice. True if that is new. The notice has a key: if we die between the two,
   * it is not sent a second time.
   */
  async note(who: Who, handover: Handover, { evidence, trouble }: Accepted): Promise<boolean> {
    const { id } = handover;
    const key = `${who.name} ${id}`;
    if (trouble === undefined || this.#stuck.has(key)) return false;
    const because = lineForModel(masked(trouble), MAX_REASON_CHARACTERS);
    const copy = (await who.home.journal.trace(id))?.copies.find(({ mailbox }) => mailbox === who.name);
    // An earlier follower may have recorded it.
    if (!copy?.receipts.some(({ step, evidence: known }) => step === 'accepted' && known['because'] === because)) {
      await this.#notifySender(who, id, because);
      const at = new Date(this.workspace.now()).toISOString();
      await who.home.journal.record(who.name, id, { step: 'accepted', at, evidence: { ...evidence, because } });
    }
    this.#stuck.set(key, { who, handover, isOver: false });
    return true;
  }

  isStuck(session: string): boolean {
    return [...this.#stuck.values()].some(({ handover, isOver }) => handover.to.id === session && !isOver);
  }

  /** A message that was handed to this session at `at` was shown: its model answers again. */
  recover(session: string, at: number): void {
    for (const one of this.#stuck.values())
      if (one.handover.to.id === session && one.handover.at <= at) one.isOver = true;
  }

  /**
   * Forgets stuck messages that ended in another way: the reader answered, or the sender withdrew. Returns the sessions that have no stuck
   * message any more.
   */
  async forgetEnded(): Promise<string[]> {
    const ended: string[] = [];
    for (const [key, { who, handover }] of this.#stuck) {
      if ((await who.home.journal.copy(who.name, handover.id))?.state === 'held') continue;
      this.#stuck.delete(key);
      ended.push(handover.to.id);
    }
    return ended.filter((session) => !this.isStuck(session));
  }

  /** The message was shown, or waits again. True if it was stuck. */
  end(who: Who, id: MessageId): boolean {
    return this.#stuck.delete(`${who.name} ${id}`);
  }

  async #notifySender({ name, home }: Who, id: MessageId, because: string): Promise<void> {
    const message = await home.journal.message(id);
    const from = AgentName.safeParse(message?.from);
    // The sender has no mailbox here, for example at a relay.
    if (!from.success || home.remote || !(await home.directory.get(from.data))) return;
    const body =
      `@${name} has message ${id.slice(0, 8)}, but its model does not answer: ${because}. ` +
      'It is shown when the model answers again; you need not send it again.';
    const key = sendKeyOf(`stuck/${name}/${id}`);
    const notice = { to: `@${from.data}`, body, key, thread: id, intent: 'status' } as const;
    try {
      await post(this.workspace, home, notice, from.data, NOTICE);
    } catch (error) {
      // The notice was refused, for example by a full mailbox. The message is stuck all the same.
      if (!(error instanceof Refusal)) throw error;
    }
  }
}
