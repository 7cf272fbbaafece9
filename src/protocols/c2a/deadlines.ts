import { receiptsOf } from '../../core/mail/workspace.ts';
import { silenceOutcome } from '../../core/attention/reply-rules.ts';
import { isMessageId } from '../../core/names.ts';
import { claimOn } from '../../core/obligations/claim.ts';
import { tick } from '../../core/obligations/tick.ts';
import { isAnswerWaiting } from './turns.ts';
import { dropSession } from './restore.ts';
import { Alarm, RepeatingTask } from './tasks.ts';
import type { HostContext } from './context.ts';
import { deadlineMs } from './frames.ts';
import { keyOf } from './item.ts';
import type { Item } from './item.ts';
import type { Runner } from './runner.ts';

/** At least this often a round enters obligations of new messages, and notices what other processes ended. */
const LOOK_MS = 5000;
const RENEW_MS = 5 * 60 * 1000;
/** How many open events of one session are handled in one round. */
const EVENTS_PER_ROUND = 200;
const DROP_EVERY_MS = 60 * 60 * 1000;
const DROP_AFTER_MS = 7 * 24 * 60 * 60 * 1000;

/** Acts on deadlines: an owed event is sent again, escalates or expires; an event that needs no answer ends in silence. */
export class Deadlines {
  readonly #rounds: RepeatingTask;
  readonly #alarm: Alarm;
  /** How many of a session's open events were handled in this pass. */
  readonly #places = new WeakMap<Runner['session'], number>();
  #renewAt = 0;
  #dropAt = 0;

  constructor(
    readonly context: HostContext,
    readonly runners: Map<string, Runner>,
  ) {
    this.#rounds = new RepeatingTask(context.tasks, 'time', () => this.#round());
    this.#alarm = new Alarm(context.deps, () => this.#rounds.ask());
  }

  start(): void {
    this.#rounds.ask();
  }

  close(): void {
    this.#alarm.close();
  }

  async #round(): Promise<void> {
    const { workspace, home, now } = this.context.deps;
    try {
      await home.mailboxes.heal();
      const next = await tick(workspace, home, now(), { redeliver: (obligation) => this.#redeliver(obligation) });
      for (const { session } of this.runners.values())
        for (const item of this.#someOf(session)) await this.#endIfOver(session, item);
      for (const runner of this.runners.values())
        for (const item of runner.deliveries.underWay()) await this.#callOff(runner, item);
      await this.#renew();
      await this.#dropOld();
      this.#alarm.at(Math.max(now() + 1, Math.min(next ?? Infinity, now() + LOOK_MS)));
    } catch (error) {
      this.#alarm.at(now() + LOOK_MS);
      throw error;
    }
  }

  /** Sends an event again: over the session that has it, else over any session that reads its mailbox. */
  async #redeliver(obligation: Parameters<Runner['redeliver']>[1]): Promise<boolean> {
    const readers = [...this.runners.values()].flatMap((runner) => {
      const who = runner.session.whos.find(({ name }) => name === obligation.mailbox);
      return who && runner.session.link ? [{ runner, who }] : [];
    });
    const has = (runner: Runner): number => Number(runner.session.open.has(`${obligation.id}:${obligation.mailbox}`));
    for (const { runner, who } of readers.toSorted((a, b) => has(b.runner) - has(a.runner))) {
      if (await runner.redeliver(who, obligation)) return true;
    }
    return false;
  }

  /** The next open events of a session. Few sessions have so many that they take more than one round. */
  #someOf(session: Runner['session']): Item[] {
    const { size } = session.open;
    const from = this.#places.get(session) ?? 0;
    const some = [...session.open.values()].slice(from, from + EVENTS_PER_ROUND);
    this.#places.set(session, from + EVENTS_PER_ROUND < size ? from + EVENTS_PER_ROUND : 0);
    return some;
  }

  /** Stops sending an event that was withdrawn or edited meanwhile. */
  async #callOff(runner: Runner, { who, message }: Item): Promise<void> {
    const cancelled = (await receiptsOf(who, message.id)).find(({ step }) => step === 'cancelled');
    const obligation = await who.home.journal.obligation(who.name, message.id);
    if (!cancelled || (obligation && !obligation.ended)) return;
    const { replaced } = cancelled.evidence;
    await runner.supersede(who, message.id, isMessageId(replaced) ? { replaced } : { withdrawn: true });
  }

  /** Ends an open event if another process ended it, or if its deadline passed without an answer. */
  async #endIfOver(session: Runner['session'], item: Item): Promise<void> {
    const { who, message, attention } = item;
    const copy = await who.home.journal.copy(who.name, message.id);
    if (copy?.owner !== session.owner) {
      session.open.delete(keyOf(item));
      return;
    }
    const obligation = await who.home.journal.obligation(who.name, message.id);
    // No answer is wanted now, and nothing is owed: the event was withdrawn or edited.
    const isCalledOff = !obligation && copy.attention.policy === 'must_not_respond';
    if (obligation?.ended || isCalledOff) {
      const { as, by } = obligation?.ended ?? {
        as: 'superseded' as const,
        by: { because: 'it was edited or deleted' },
      };
      await session.end(item, as, by);
      if (as === 'superseded') await session.cancel(item, 'Message was edited or deleted before response');
      return;
    }
    if (obligation || attention.policy === 'must_respond') return;
    const now = this.context.deps.now();
    if (now < Date.parse(message.ts) + deadlineMs(message)) return;
    if (await isAnswerWaiting(item)) return;
    // The reader has claimed the event and works on it.
    if ((await claimOn(who.home, message, now))?.holder === who.name) return;
    await session.end(item, silenceOutcome(attention.policy), { because: 'nothing was said in time' });
  }

  /** Deletes sessions that were not continued for a week, unless they still hold copies. */
  async #dropOld(): Promise<void> {
    const now = this.context.deps.now();
    if (now < this.#dropAt) return;
    this.#dropAt = now + DROP_EVERY_MS;
    for (const [id, runner] of this.runners) {
      const { session } = runner;
      if (session.link) continue;
      // Another process may serve this session.
      const seen = (await this.context.deps.home.journal.session(id))?.seen ?? 0;
      if (session.inHand > 0 || seen > now - DROP_AFTER_MS) continue;
      runner.close();
      this.runners.delete(id);
      await dropSession(this.context.deps, session.record);
    }
  }

  async #renew(): Promise<void> {
    const now = this.context.deps.now();
    if (now < this.#renewAt) return;
    this.#renewAt = now + RENEW_MS;
    for (const { session } of this.runners.values()) {
      if (!session.link) continue;
      await session.renew();
      session.record = { ...session.record, seen: now };
      await this.context.deps.home.journal.saveSession(session.record);
    }
  }
}
