import { masked } from '../core/attention/secrets.ts';
import type { Attention } from '../core/attention/attention.ts';
import { lineForModel } from '../core/gate.ts';
import type { Who, Workspace } from '../core/mail/workspace.ts';
import { AgentName } from '../core/names.ts';
import type { MessageId } from '../core/names.ts';
import { post, sendKeyOf } from '../core/obligations/owners.ts';
import type { RecordedProof } from '../core/ports/live-session.ts';
import type { Handover } from './hand-over.ts';

const LONGEST_WORDS = 200;

/** Worth seeing, and not to be answered: Parley wrote it. */
const NOTICE: Attention = {
  directedness: 'to_me',
  policy: 'must_not_respond',
  injection: 'buffered',
  reason: 'direct_message',
};

type Accepted = Extract<RecordedProof, { step: 'accepted' }>;

/**
 * Sessions whose client has a message and cannot ask its model: no quota, no login, no network. The message stays with the client, which
 * shows it when its model answers again. Meanwhile the session gets no further mail, and each sender is told once.
 */
export class StuckMail {
  /** Messages that are stuck, and the sessions that have them. */
  readonly #stuck = new Map<string, string>();

  constructor(readonly workspace: Workspace) {}

  /** Notes what the client's record says. True if that is new. */
  async note(who: Who, { id, to }: Handover, { evidence, trouble }: Accepted): Promise<boolean> {
    const key = `${who.name} ${id}`;
    if (trouble === undefined || this.#stuck.has(key)) return false;
    this.#stuck.set(key, to.id);
    const because = lineForModel(masked(trouble), LONGEST_WORDS);
    const copy = (await who.home.journal.trace(id))?.copies.find(({ mailbox }) => mailbox === who.name);
    // A process before this one may have noted it.
    if (copy?.receipts.some(({ step, evidence: known }) => step === 'accepted' && known['because'] === because))
      return true;
    const at = new Date(this.workspace.now()).toISOString();
    await who.home.journal.record(who.name, id, { step: 'accepted', at, evidence: { ...evidence, because } });
    await this.#tellSender(who, id, because);
    return true;
  }

  isStuck(session: string): boolean {
    return [...this.#stuck.values()].includes(session);
  }

  /** It was shown, or waits again. True if it was stuck. */
  end(who: Who, id: MessageId): boolean {
    return this.#stuck.delete(`${who.name} ${id}`);
  }

  async #tellSender({ name, home }: Who, id: MessageId, because: string): Promise<void> {
    const message = await home.journal.message(id);
    const from = AgentName.safeParse(message?.from);
    // A sender elsewhere has no mailbox here.
    if (!from.success || home.remote || !(await home.directory.get(from.data))) return;
    const body =
      `@${name} has message ${id.slice(0, 8)}, but its model does not answer: ${because}. ` +
      'It is shown when the model answers again; you need not send it again.';
    const key = sendKeyOf(`stuck/${name}/${id}`);
    await post(
      this.workspace,
      home,
      { to: `@${from.data}`, body, key, thread: id, intent: 'status' },
      from.data,
      NOTICE,
    );
  }
}
