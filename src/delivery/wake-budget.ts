import { isAgent, isQuietAt } from '../core/mail/attend.ts';
import type { ReadMailbox } from '../core/mail/shared.ts';
import { receiptsOf } from '../core/mail/workspace.ts';
import type { Who } from '../core/mail/workspace.ts';
import type { Message } from '../core/message.ts';
import type { MessageId } from '../core/names.ts';
import type { Receipt } from '../core/receipt.ts';
import { allOwed } from '../core/obligations/owed.ts';

/** The wakes of this time count against the budget. */
export const HOUR_MS = 60 * 60 * 1000;
/** The receipts that `recall` needs to find the wakes. */
export const WAKE_STEPS: readonly Receipt['step'][] = ['offered', 'released', 'knocked'];
/** The most waiting messages that `whyWaiting` reads. */
const MAX_READ = 100;

/** Why a message is not handed over now. `whileIdle`: it must not begin a turn of the session, but may join its next one. */
export interface HoldReason {
  because: string;
  whileIdle: boolean;
  /** The wake budget of the session is the only reason. */
  isOverBudget?: true;
}

/** Decides which mail may wake an idle session, and how often. */
export class WakeBudget {
  /** When each session was woken in the last hour (ms). */
  readonly #times = new Map<string, number[]>();

  constructor(
    readonly perHour: number,
    readonly now: () => number,
  ) {}

  /** The sessions whose wakes are kept. */
  get sessions(): string[] {
    return [...this.#times.keys()];
  }

  /**
   * Takes over the wakes of an earlier follower from the receipts of the last hour. The messages of one wake have the same time. An attempt
   * after which nothing went in (`released` with its way) was no wake.
   */
  recall(receipts: readonly (Receipt & { mailbox: string; id: string })[]): void {
    const wakes = new Map<string, Map<string, number>>();
    const left = new Set<string>();
    for (const { step, at, evidence, mailbox, id } of receipts.toReversed()) {
      const copy = `${mailbox} ${id}`;
      if (step === 'released' && 'way' in evidence) left.add(copy);
      const isWake = step === 'offered' && !left.delete(copy) && evidence['woke'] === true;
      if (!isWake && !('nudge' in evidence)) continue;
      const session = String(evidence['session']);
      const known = wakes.get(session) ?? new Map<string, number>();
      wakes.set(session, known.set(String(evidence['nudge'] ?? at), Date.parse(at)));
    }
    for (const [session, times] of wakes)
      this.#times.set(
        session,
        [...times.values()].toSorted((x, y) => x - y),
      );
  }

  /** Whether the session has used up its wakes of this hour. False if mail never wakes it: then mail comes whole with its turns. */
  isSpent(session: string): boolean {
    return this.perHour > 0 && this.#lastHour(session).length >= this.perHour;
  }

  /** Counts a wake: the session is about to be woken. */
  note(session: string): void {
    for (const known of this.#times.keys()) if (this.#lastHour(known).length === 0) this.#times.delete(known);
    this.#times.set(session, [...this.#lastHour(session), this.now()]);
  }

  /** Takes back the last wake: nothing went in. */
  undo(session: string): void {
    this.#times.set(session, this.#lastHour(session).slice(0, -1));
  }

  /**
   * Why this message is not handed over now; null: it may go out. An urgent message of a person always may. Mail waits during a quiet time of
   * its reader. Mail does not wake a session if its deadline has passed, if it is not owed any more, or if the session's budget is spent. For
   * a shared mailbox the quiet time of the taker counts, too.
   */
  async holdReason({ who, taker }: ReadMailbox, message: Message, session: string): Promise<HoldReason | null> {
    const { directory, journal } = who.home;
    if (message.priority === 'urgent' && !(await isAgent(who.home, message.from))) return null;
    for (const name of taker === undefined ? [who.name] : [who.name, taker]) {
      const quiet = (await directory.get(name))?.parley?.quiet;
      if (!quiet || !(await isQuietAt(quiet, this.now()))) continue;
      return { because: 'its reader wants quiet; it waits until that ends', whileIdle: false };
    }
    const deadline = message.parley?.deadline;
    if (deadline !== undefined && Date.parse(deadline) < this.now())
      return { because: 'its deadline has passed; it comes with the next turn', whileIdle: true };
    if ((await journal.obligation(who.name, message.id))?.ended)
      return { because: 'no answer is owed any more; it comes with the next turn', whileIdle: true };
    const count = this.#lastHour(session).length;
    if (count < this.perHour) return null;
    if (count === 0) return { because: 'mail never wakes the session; it comes with the next turn', whileIdle: true };
    const often = count === 1 ? 'once' : `${count} times`;
    const because = `the session was woken ${often} in the last hour; it comes with the next turn`;
    return { because, whileIdle: true, isOverBudget: true };
  }

  #lastHour(session: string): number[] {
    return (this.#times.get(session) ?? []).filter((at) => Math.abs(this.now() - at) < HOUR_MS);
  }
}

/** Makes mail that came in a quiet time and must be answered loud again, when the quiet time has ended. */
export async function endQuiet(who: Who, now: number): Promise<void> {
  const { directory, journal, mailboxes } = who.home;
  const quiet = (await directory.get(who.name))?.parley?.quiet;
  if (quiet && (await isQuietAt(quiet, now))) return;
  for await (const { id } of allOwed(who)) {
    const copy = await journal.copy(who.name, id);
    // Only the rule of quiet times decides both `tool_mailbox` and `must_respond`. spec: c2a#quiet-times
    if (copy?.state !== 'stored' || copy.attention.injection !== 'tool_mailbox') continue;
    if (copy.attention.policy !== 'must_respond') continue;
    await journal.reconsider(who.name, id, { ...copy.attention, injection: 'buffered' });
    await mailboxes.raise(who.name, id);
    await noteHoldReason(who, id, 'the quiet time of its reader has ended', now);
  }
}

/** Records why a message waits, for `parley trace`. Each reason is recorded once. */
export async function noteHoldReason(who: Who, id: MessageId, because: string, now: number): Promise<void> {
  const isNoted = (await receiptsOf(who, id)).some(({ evidence }) => evidence['because'] === because);
  if (isNoted) return;
  await who.home.journal.record(who.name, id, {
    step: 'reconsidered',
    at: new Date(now).toISOString(),
    evidence: { because },
  });
}

/** Why the mail of a mailbox waits: the reason recorded for the first message that has one; null: none. */
export async function whyWaiting({ name, home }: Who): Promise<string | null> {
  for (const id of (await home.mailboxes.ids(name, true)).slice(0, MAX_READ)) {
    const copy = (await home.journal.trace(id))?.copies.find(({ mailbox }) => mailbox === name);
    const last = copy?.receipts.at(-1);
    const because = last?.step === 'reconsidered' ? last.evidence['because'] : undefined;
    if (copy?.state === 'stored' && typeof because === 'string') return because;
  }
  return null;
}
