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
import { endDoubt, handoverInDoubt, isPushed, isRefusedBy } from './hand-over.ts';
import type { Handover } from './hand-over.ts';
import { noteHindrance } from './wake-budget.ts';
import type { WakeBudget } from './wake-budget.ts';
import type { WakeDigests } from './wake-digest.ts';

/** A longer body is not pushed: a hook points to it, and its reader fetches it. */
const LONGEST_BODY = 32_000;
/** At most this many messages, and characters of their bodies, are handed over together. */
const MOST_TOGETHER = 50;
const LONGEST_TOGETHER = 100_000;
/** At most this many messages are judged for one session in one look, so that much mail of one does not hold up the others. */
const MOST_JUDGED = 200;
/** The next look after that, ms. */
const GO_ON_MS = 100;

/** A message that should be handed over now. */
export interface DueMessage {
  id: MessageId;
  wantsAnswer: boolean;
  isUrgent: boolean;
}

/** What goes together, oldest first. `isMore`: there is a next part. */
export interface DuePart {
  due: DueMessage[];
  isMore: boolean;
}

export interface DueMailDeps {
  wakes: WakeBudget;
  digests: WakeDigests;
  /** Whether it is being handed over now. */
  isTrying(who: Who, id: MessageId): boolean;
  proofOf(handover: Handover): Promise<RecordedProof | null>;
  now(): number;
  /** Asks for another look after this time, ms. */
  lookIn(ms: number): void;
}

/** `areSpent`: no session of this mailbox may be woken again yet. `onlyUrgent`: the rest waits for the end of a turn. */
export interface DueMailOptions {
  areSpent: boolean;
  onlyUrgent: boolean;
}

/** What a message that waits does now. `skip`: nothing, until it is judged again. `leave`: the next look judges it. */
type Verdict =
  | { do: 'give'; due: DueMessage }
  | { do: 'skip'; whileIdle?: boolean }
  | { do: 'leave' }
  | { do: 'list'; because: string };

/** Which of the mail that waits should be handed over to a session now. */
export class DueMail {
  /** Messages that were judged and not handed over, by session. */
  readonly #skipped = new Set<string>();
  /** There was more to judge than one look may. */
  #isCut = false;

  constructor(readonly deps: DueMailDeps) {}

  /** Everything is judged again: a copy can be raised, a quiet time ends. What was not judged at all yet comes first. */
  judgeAgain(): void {
    if (!this.#isCut) this.#skipped.clear();
    this.#isCut = false;
  }

  /**
   * The next messages for this session, oldest first; the urgent ones are among them, however much waits before them. What was judged before
   * costs one listing. What is over the wake budget goes into a digest, but not in a shared mailbox: only one of its sessions would see
   * that, and what it lists would wait for nobody when that session ends.
   */
  async next(mailbox: SessionMailbox, live: LiveSession, options: DueMailOptions): Promise<DuePart> {
    const { who, taker } = mailbox;
    const place = (id: MessageId): string => `${who.name} ${id} ${mailbox.match} ${live.id}`;
    const isSkipped = (id: MessageId): boolean =>
      this.#skipped.has(place(id)) || (live.status === 'idle' && this.#skipped.has(`${place(id)} idle`));
    const isNews = (id: MessageId): boolean => !this.deps.isTrying(who, id) && !isSkipped(id);
    if (!(await who.home.mailboxes.ids(who.name, true)).some(isNews)) return { due: [], isMore: false };
    await who.home.mailboxes.adopt(who.name);
    const news = new Set((await who.home.mailboxes.ids(who.name, true)).filter(isNews));

    const found: (DueMessage & Pick<Message, 'id' | 'ts'>)[] = [];
    const forDigest: Message[] = [];
    let [judged, length, spent, isMore] = [0, 0, '', false];
    for await (const copy of urgentFirst(who, options.onlyUrgent)) {
      if (news.size === 0) break;
      if (!news.delete(copy.id)) continue;
      if (judged === MOST_JUDGED) {
        this.#isCut = true;
        this.deps.lookIn(GO_ON_MS);
        break;
      }
      judged += 1;
      const message = readMessage(JSON.parse(copy.text));
      const record = await who.home.journal.copy(who.name, copy.id);
      if (!message || record?.state !== 'stored') continue;
      if (found.length === MOST_TOGETHER || (found.length > 0 && length + message.body.length > LONGEST_TOGETHER)) {
        isMore = true;
        break;
      }
      const verdict = await this.#judge(mailbox, live, message, record, options.areSpent && taker === undefined);
      if (verdict.do === 'skip') this.#skipped.add(verdict.whileIdle ? `${place(copy.id)} idle` : place(copy.id));
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
    if (!isPushed(copy) || message.body.length > LONGEST_BODY || !scopeMatches(message.scope, match))
      return { do: 'skip' };
    if (await isRefusedBy(who, id, session)) return { do: 'skip' };
    const doubt = attempt > 0 ? await handoverInDoubt(who, id, session) : null;
    if (doubt && !(await endDoubt(who, doubt, await deps.proofOf(doubt), deps.now()))) return { do: 'skip' };
    const left = (await waitMs?.(message)) ?? 0;
    // Its own words are never its own mail.
    if (left === Infinity) return { do: 'skip' };
    if (left > 0) {
      deps.lookIn(left);
      return { do: 'leave' };
    }
    const hindrance = await deps.wakes.hindrance(mailbox, message, session);
    if (hindrance?.isOverBudget && makesDigest && attention.reason !== 'digest')
      return { do: 'list', because: hindrance.because };
    if (hindrance && (status === 'idle' || !hindrance.whileIdle)) {
      await noteHindrance(who, id, hindrance.because, deps.now());
      return { do: 'skip', whileIdle: hindrance.whileIdle };
    }
    const isUrgent = attention.injection === 'immediate';
    return { do: 'give', due: { id, isUrgent, wantsAnswer: wantsAnswer({ message, attention }) } };
  }
}

/** What waits and is not quiet: first what is urgent, then all in order of arrival. */
async function* urgentFirst(who: Who, onlyUrgent: boolean): AsyncGenerator<WaitingCopy> {
  yield* allWaiting(who, 'immediate');
  if (!onlyUrgent) yield* allWaiting(who, 'loud');
}
