import { byTime, readMessage } from '../core/message.ts';
import type { Message } from '../core/message.ts';
import { scopeMatches } from '../core/names.ts';
import type { MessageId } from '../core/names.ts';
import { allWaiting } from '../core/mail/deliver.ts';
import type { Who } from '../core/mail/workspace.ts';
import type { LiveSession, RecordedProof } from '../core/ports/live-session.ts';
import type { CopyRecord, WaitingCopy } from '../core/ports/journal.ts';
import { wantsAnswer } from './answers.ts';
import type { SessionMailbox } from './choose-session.ts';
import { resolveDoubt, handoverInDoubt, isPushed, isRefusedBy } from './hand-over.ts';
import type { Handover } from './hand-over.ts';
import { noteHoldReason } from './wake-budget.ts';
import type { WakeBudget } from './wake-budget.ts';
import type { WakeDigests } from './wake-digest.ts';

/** A longer body is not handed over: a hook prints a pointer, and the reader fetches the message. */
const MAX_BODY_CHARACTERS = 32_000;
/** Limits of what is handed over together: messages, and characters of their bodies. */
const MAX_BATCH = 50;
const MAX_BATCH_CHARACTERS = 100_000;
/** The most messages judged for one session in one look, so that a full mailbox does not delay the other sessions. */
const MAX_JUDGED = 200;
/** When that limit was reached, the next look comes after this time. */
const NEXT_LOOK_MS = 100;

/** A message that should be handed over now. */
export interface DueMessage {
  id: MessageId;
  wantsAnswer: boolean;
  isUrgent: boolean;
}

/** The messages that are handed over together, oldest first. `isMore`: more mail is due, which comes in a next part. */
export interface DuePart {
  due: DueMessage[];
  isMore: boolean;
}

export interface DueMailDeps {
  wakes: WakeBudget;
  digests: WakeDigests;
  /** Whether this message is being handed over now. */
  isTrying(who: Who, id: MessageId): boolean;
  proofOf(handover: Handover): Promise<RecordedProof | null>;
  now(): number;
  /** Asks for another look after this time, ms. */
  lookIn(ms: number): void;
}

/** `areSpent`: every session of this mailbox is idle and over its wake budget. `onlyUrgent`: other mail waits for the end of a turn. */
export interface DueMailOptions {
  areSpent: boolean;
  onlyUrgent: boolean;
}

/**
 * What happens to a waiting message now. `give`: it is handed over. `skip`: nothing, until `judgeAgain`; with `whileIdle` only as long as the
 * session is idle. `leave`: the next look judges it. `list`: it goes into a digest.
 */
type Verdict =
  | { do: 'give'; due: DueMessage }
  | { do: 'skip'; whileIdle?: boolean }
  | { do: 'leave' }
  | { do: 'list'; because: string };

/** Chooses the waiting mail that is handed over to a session now. */
export class DueMail {
  /** Messages that were skipped, with the session that they were judged for. */
  readonly #skipped = new Set<string>();
  /** `MAX_JUDGED` was reached since the last `judgeAgain`. */
  #isCut = false;

  constructor(readonly deps: DueMailDeps) {}

  /**
   * Lets skipped mail be judged again, because a copy can be raised and a quiet time can end. After `MAX_JUDGED` was reached it waits one
   * more call, so that mail which was not judged at all comes first.
   */
  judgeAgain(): void {
    if (!this.#isCut) this.#skipped.clear();
    this.#isCut = false;
  }

  /**
   * The next messages for this session, oldest first. Urgent messages are always among them. If all waiting mail was judged before, this
   * costs one listing. Mail over the wake budget goes into a digest, but not in a shared mailbox: only one of its sessions would see the
   * digest, and when that session ends, nobody would know of the listed mail.
   */
  async next(mailbox: SessionMailbox, live: LiveSession, options: DueMailOptions): Promise<DuePart> {
    const { who, taker } = mailbox;
    const keyFor = (id: MessageId): string => `${who.name} ${id} ${mailbox.match} ${live.id}`;
    const isSkipped = (id: MessageId): boolean =>
      this.#skipped.has(keyFor(id)) || (live.status === 'idle' && this.#skipped.has(`${keyFor(id)} idle`));
    const isUnjudged = (id: MessageId): boolean => !this.deps.isTrying(who, id) && !isSkipped(id);
    if (!(await who.home.mailboxes.ids(who.name, true)).some(isUnjudged)) return { due: [], isMore: false };
    await who.home.mailboxes.adopt(who.name);
    const unjudged = new Set((await who.home.mailboxes.ids(who.name, true)).filter(isUnjudged));

    const found: (DueMessage & Pick<Message, 'id' | 'ts'>)[] = [];
    const forDigest: Message[] = [];
    let [judged, length, spent, isMore] = [0, 0, '', false];
    for await (const copy of urgentFirst(who, options.onlyUrgent)) {
      if (unjudged.size === 0) break;
      if (!unjudged.delete(copy.id)) continue;
      if (judged === MAX_JUDGED) {
        this.#isCut = true;
        this.deps.lookIn(NEXT_LOOK_MS);
        break;
      }
      judged += 1;
      const message = readMessage(JSON.parse(copy.text));
      const record = await who.home.journal.copy(who.name, copy.id);
      if (!message || record?.state !== 'stored') continue;
      if (found.length === MAX_BATCH || (found.length > 0 && length + message.body.length > MAX_BATCH_CHARACTERS)) {
        isMore = true;
        break;
      }
      const verdict = await this.#judge(mailbox, live, message, record, options.areSpent && taker === undefined);
      if (verdict.do === 'skip') this.#skipped.add(verdict.whileIdle ? `${keyFor(copy.id)} idle` : keyFor(copy.id));
      if (verdict.do === 'list') {
        forDigest.push(message);
        spent = verdict.because;
      }
      if (verdict.do !== 'give') continue;
      found.push({ ...verdict.due, ts: message.ts });
      length += message.body.length;
    }
    if (forDigest.length > 0) await this.deps.digests.add(who, forDigest, spent);
    return { due: found.sort(byTime), isMore };
  }

  async #judge(
    mailbox: SessionMailbox,
    { id: session, status }: LiveSession,
    message: Message,
    copy: CopyRecord,
    makesDigest: boolean,
  ): Promise<Verdict> {
    const { who, match, waitMs } = mailbox;
    const { id, attention, attempt } = copy;
    const { deps } = this;
    if (!isPushed(copy) || message.body.length > MAX_BODY_CHARACTERS || !scopeMatches(message.scope, match))
      return { do: 'skip' };
    if (await isRefusedBy(who, id, session)) return { do: 'skip' };
    const doubt = attempt > 0 ? await handoverInDoubt(who, id, session) : null;
    if (doubt && !(await resolveDoubt(who, doubt, await deps.proofOf(doubt), deps.now()))) return { do: 'skip' };
    const left = (await waitMs?.(message)) ?? 0;
    // The session sent this message itself.
    if (left === Infinity) return { do: 'skip' };
    if (left > 0) {
      deps.lookIn(left);
      return { do: 'leave' };
    }
    const holdReason = await deps.wakes.holdReason(mailbox, message, session);
    if (holdReason?.isOverBudget && makesDigest && attention.reason !== 'digest')
      return { do: 'list', because: holdReason.because };
    if (holdReason && (status === 'idle' || !holdReason.whileIdle)) {
      await noteHoldReason(who, id, holdReason.because, deps.now());
      return { do: 'skip', whileIdle: holdReason.whileIdle };
    }
    const isUrgent = attention.injection === 'immediate';
    return { do: 'give', due: { id, isUrgent, wantsAnswer: wantsAnswer({ message, attention }) } };
  }
}

/** The waiting mail that is not quiet: first the urgent messages, then all messages in order of arrival. */
async function* urgentFirst(who: Who, onlyUrgent: boolean): AsyncGenerator<WaitingCopy> {
  yield* allWaiting(who, 'immediate');
  if (!onlyUrgent) yield* allWaiting(who, 'loud');
}
