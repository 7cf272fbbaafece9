import type { Who, Workspace } from '../core/mail/workspace.ts';
import { takenBy } from '../core/mail/shared.ts';
import type { AgentName, MessageId } from '../core/names.ts';
import { asOwedNow } from '../core/obligations/owed.ts';
import { raiseLate } from '../core/obligations/tick.ts';
import type { LiveSession, LiveSessions, RecordedProof } from '../core/ports/live-session.ts';
import type { Watch } from '../core/ports/mailboxes.ts';
import type { Parcel, Way } from '../core/ports/way-in.ts';
import type { Log } from '../core/service.ts';
import { Wakeup } from '../core/wait.ts';
import { Answers, parcelsOf } from './answers.ts';
import type { SessionMailbox } from './choose-session.ts';
import { DueMail } from './due-mail.ts';
import type { DueMessage } from './due-mail.ts';
import type { FittedMail, PushPhrases } from './fit.ts';
import { handOver, keepClaimed, resolveHandover, unprovenCopies } from './hand-over.ts';
import type { Handover } from './hand-over.ts';
import type { OfferedDeps } from './hook-offered.ts';
import { nudge, Nudges } from './nudges.ts';
import type { NudgeText, Unasked } from './nudges.ts';
import { showAgain } from './owed-again.ts';
import { Pauses } from './pauses.ts';
import type { PauseLimits } from './pauses.ts';
import { PrintedTexts } from './printed-texts.ts';
import { StuckMail } from './stuck-mail.ts';
import { endQuiet, HOUR_MS, WAKE_STEPS, WakeBudget } from './wake-budget.ts';
import { WakeDigests } from './wake-digest.ts';

export interface FollowerDeps {
  workspace: Workspace;
  /** The clients, by their names. */
  clients: ReadonlyMap<string, LiveSessions>;
  /** The mailboxes that a running session reads, its own first. `all`: every session that its client runs. */
  mailboxesOf(live: LiveSession, all: readonly LiveSession[]): Promise<readonly SessionMailbox[]>;
  /** Reads the client's own record of what our hook printed in a session. */
  hookRecordOf: OfferedDeps['recordOf'];
  phrases(reader: Who, mail: readonly FittedMail[], now: number, hasTools: boolean): Promise<PushPhrases>;
  settings: { wakesPerHour: number; captureRemote: boolean };
  log: Log;
  limits?: Partial<FollowerLimits>;
}

export interface FollowerLimits extends PauseLimits {
  /** The longest time between two looks, if no event comes. */
  lookMs: number;
  /** How often leases, quiet times and deadlines are checked, and skipped mail is judged again. */
  tickMs: number;
}

const LIMITS: FollowerLimits = { lookMs: 5000, retryMs: 1000, longestRetryMs: 300_000, tickMs: 60_000 };

/**
 * Gives the running sessions of this home the mail that waits for them, and settles it when the client's own record proves that the
 * model was given it. One per home.
 *
 * The follower looks at all sessions and mailboxes when something may have changed, and every few seconds. Each look does this, in order:
 *
 * 1. List the running sessions and their mailboxes.
 * 2. Ask the clients' records what became of the mail that was handed over before. Settle what is proven. Mail that the client cannot have
 *    any more waits again. Other mail stays held for its session.
 * 3. Check what is due by time: leases, quiet times, deadlines.
 * 4. Nudge idle sessions that have mail in their conversation, but whose model was not asked with it.
 * 5. Hand over the mail that waits. Each attempt runs in the background, and the next look begins when it ends.
 * 6. Send the captured answers that the records show by now.
 */
export class Follower {
  readonly #limits: FollowerLimits;
  readonly #wakeup = new Wakeup();
  readonly #stop = new AbortController();
  readonly #watches: (() => void)[] = [];
  readonly #loop: Promise<void>;
  /** All running sessions, as of the last look; also those without a mailbox. */
  #live: readonly LiveSession[] = [];
  /** The running sessions that have a mailbox, as of the last look. */
  #sessions: readonly { live: LiveSession; mailboxes: readonly SessionMailbox[] }[] = [];
  readonly #mailboxes = new Map<AgentName, { who: Who; arrivals: Watch }>();
  /** Mailboxes in which an earlier follower may have left handovers; null: not listed yet. */
  #unrecovered: Set<AgentName> | null = null;
  /** The time of the last tick, by performance.now(): the clock of the machine may be set back. */
  #tickedAt = -Infinity;
  /** Attempts under way. */
  readonly #running = new Set<Promise<void>>();
  /** The messages that these attempts hand over (`keyOf`). */
  readonly #trying = new Set<string>();
  /** Sessions that are getting one part of their mail. Except for urgent mail, the next part waits for the end of that attempt. */
  readonly #inParts = new Set<string>();
  /** By session: mail in its conversation that its model was not asked with, as of this look. */
  readonly #unasked = new Map<string, Unasked[]>();
  /** Failures that were logged since the last tick. Each is logged once. */
  readonly #loggedFailures = new Set<string>();
  readonly #due: DueMail;
  readonly #pauses: Pauses;
  readonly #wakes: WakeBudget;
  readonly #digests: WakeDigests;
  readonly #stuckMail: StuckMail;
  readonly #nudges: Nudges;
  readonly #answers: Answers;
  readonly #printed: PrintedTexts | null;

  constructor(readonly deps: FollowerDeps) {
    this.#limits = { ...LIMITS, ...deps.limits };
    this.#pauses = new Pauses(this.#limits, deps.workspace.now, (ms) => this.#wakeup.notifyIn(ms));
    const [home] = deps.workspace.homes;
    this.#printed = home ? new PrintedTexts(home, deps.hookRecordOf, deps.log) : null;
    this.#stuckMail = new StuckMail(deps.workspace);
    this.#wakes = new WakeBudget(deps.settings.wakesPerHour, () => deps.workspace.now());
    this.#digests = new WakeDigests(deps.workspace);
    this.#due = new DueMail({
      wakes: this.#wakes,
      digests: this.#digests,
      isTrying: (who, id) => this.#trying.has(keyOf(who, id)),
      proofOf: (handover) => this.#proofOf(handover),
      now: () => deps.workspace.now(),
      lookIn: (ms) => this.#wakeup.notifyIn(ms),
    });
    this.#nudges = new Nudges({
      proofOf: (handover) => this.#proofOf(handover),
      holdReason: (mailbox, message, session) => this.#wakes.holdReason(mailbox, message, session),
      now: () => deps.workspace.now(),
    });
    this.#answers = new Answers({
      workspace: deps.workspace,
      captureRemote: deps.settings.captureRemote,
      proofOf: (handover) => this.#proofOf(handover),
      // Also by pid: Kimi gives its session an id only with the first prompt.
      statusOf: ({ id, pid }) =>
        this.#sessions.find(({ live }) => live.id === id || (pid !== undefined && live.pid === pid))?.live.status ??
        null,
      lookIn: (ms) => this.#wakeup.notifyIn(ms),
      log: deps.log,
    });
    for (const sessions of deps.clients.values()) this.#watches.push(sessions.watch(() => this.#wakeup.notify()));
    this.#loop = this.#run();
  }

  /** The number of running sessions that have a mailbox, as of the last look. */
  get sessionCount(): number {
    return this.#sessions.length;
  }

  /** Whether a session with a mailbox runs, an attempt is under way, or an answer is expected. */
  get isBusy(): boolean {
    return this.#sessions.length > 0 || this.#trying.size > 0 || this.#answers.isWaiting;
  }

  async close(): Promise<void> {
    this.#stop.abort();
    this.#wakeup.notify();
    for (const stop of this.#watches) stop();
    await this.#loop;
    await Promise.all(this.#running);
    this.#answers.close();
    for (const { arrivals } of this.#mailboxes.values()) arrivals.close();
    for (const sessions of this.deps.clients.values()) await sessions.close();
    this.#wakeup.close();
  }

  async #run(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      try {
        await this.#look();
      } catch (error) {
        this.#logOnce('follow_trouble', error);
      }
      this.#wakeup.notifyIn(this.#limits.lookMs);
      if (!this.#stop.signal.aborted) await this.#wakeup.next();
    }
  }

  async #look(): Promise<void> {
    const found = await this.#listSessions();
    this.#sessions = found;
    const reads = found.flatMap(({ live, mailboxes }) => mailboxes.map((mailbox) => ({ live, mailbox })));
    for (const { mailbox } of reads)
      await this.#isolated('watch_trouble', { mailbox: mailbox.who.name }, () => this.#watchMailbox(mailbox.who));
    await this.#recover();
    await this.#printed?.settle(this.#live);
    this.#unasked.clear();
    for (const { who } of this.#mailboxes.values()) {
      await this.#isolated('resolve_trouble', { mailbox: who.name }, () => this.#resolve(who));
      await this.#isolated('digest_trouble', { mailbox: who.name }, () => this.#digests.refresh(who));
    }
    // Only after the records were asked: a tick also ends claims that ran out while the machine slept and the client still has the mail.
    await this.#isolated('tick_trouble', {}, () => this.#tick());
    for (const { live } of found)
      await this.#isolated('nudge_trouble', { client: live.client, session: live.id }, () => this.#nudge(live));
    for (const live of this.#live) if (live.compaction !== undefined) await this.#showAgain(live);
    for (const session of await this.#stuckMail.forgetEnded()) this.#pauses.end(session);
    const byMailbox = Map.groupBy(reads, ({ mailbox }) => mailbox.who.name);
    this.#forgetMailboxes(new Set(byMailbox.keys()));
    for (const [mailbox, sessions] of byMailbox)
      await this.#isolated('push_trouble', { mailbox }, () => this.#push(sessions));
    await this.#answers.take();
  }

  /** Runs one step. A failure is logged as this event, and does not stop the mail of other sessions. */
  async #isolated(event: string, facts: Record<string, string>, act: () => Promise<void>): Promise<void> {
    try {
      await act();
    } catch (error) {
      this.#logOnce(event, error, facts);
    }
  }

  async #listSessions(): Promise<{ live: LiveSession; mailboxes: readonly SessionMailbox[] }[]> {
    const found: { live: LiveSession; mailboxes: readonly SessionMailbox[] }[] = [];
    const running: LiveSession[] = [];
    for (const [client, sessions] of this.deps.clients) {
      let all = this.#live.filter((one) => one.client === client);
      await this.#isolated('client_trouble', { client }, async () => {
        all = await sessions.list();
        for (const live of all)
          await this.#isolated('session_trouble', { client, session: live.id }, async () => {
            const mailboxes = await this.deps.mailboxesOf(live, all);
            if (mailboxes.length > 0) found.push({ live, mailboxes });
          });
      });
      running.push(...all);
    }
    this.#live = running;
    return found;
  }

  /** Begins another look when mail arrives there. Expects the answers that an earlier follower was waiting for. */
  async #watchMailbox(who: Who): Promise<void> {
    if (this.#mailboxes.has(who.name)) return;
    const arrivals = who.home.mailboxes.watch(who.name, () => this.#wakeup.notify());
    this.#mailboxes.set(who.name, { who, arrivals });
    await this.#answers.expectOwed(who);
  }

  /** Stops watching the mailboxes that no running session reads. One with an attempt under way stays until a later look has resolved that. */
  #forgetMailboxes(read: ReadonlySet<AgentName>): void {
    for (const [name, { arrivals }] of this.#mailboxes) {
      if (read.has(name) || this.#isTryingIn(name)) continue;
      arrivals.close();
      this.#mailboxes.delete(name);
    }
  }

  /** Resolves what an earlier follower handed over, also to sessions that have ended since. */
  async #recover(): Promise<void> {
    const [home] = this.deps.workspace.homes;
    if (!home || this.#unrecovered?.size === 0) return;
    if (this.#unrecovered === null) {
      this.#wakes.recall(await home.journal.receiptsSince(this.deps.workspace.now() - HOUR_MS, WAKE_STEPS));
      this.#unrecovered = new Set(await home.journal.mailboxesWithMail(''));
    }
    for (const name of this.#unrecovered)
      await this.#isolated('recover_trouble', { mailbox: name }, async () => {
        await this.#resolve({ name, home });
        this.#unrecovered?.delete(name);
      });
  }

  /** Ends each handover of this mailbox that the client's record proves, or that the client cannot have any more. */
  async #resolve(who: Who): Promise<void> {
    // A handover whose attempt ends during this look is resolved in the next one.
    const trying = new Set(this.#trying);
    for (const handover of await unprovenCopies(who, (id) => trying.has(keyOf(who, id)))) {
      const isTrying = trying.has(keyOf(who, handover.id));
      if (isTrying && !this.#mayBeStuck(handover)) continue;
      const proof = await this.#proofOf(handover);
      if (proof?.step === 'accepted') await this.#noteStuck(who, handover, proof);
      if (proof?.step === 'accepted' && proof.needsTurn) {
        const unasked = { mailbox: { who, ...takenBy(handover.taker) }, handover };
        this.#unasked.set(handover.to.id, [...(this.#unasked.get(handover.to.id) ?? []), unasked]);
      }
      if (!proof || isTrying) continue;
      const outcome = await resolveHandover(who, handover, proof, this.deps.workspace.now());
      if (outcome === 'unknown') continue;
      const { client, id } = handover.to;
      if (this.#stuckMail.end(who, handover.id)) this.#pauses.end(id);
      this.deps.log('mail_resolved', { mailbox: who.name, message: handover.id, client, session: id, outcome });
      if (outcome === 'shown') await this.#noteShown(who, handover);
      // A running session that lost the message may lose it again at once.
      if (outcome === 'waits again' && this.#live.some((one) => one.id === id && one.pid === handover.to.pid))
        this.#pauses.pause(id);
    }
  }

  /** The session was shown this message, so its model answers requests again. Its answer to this message may follow. */
  async #noteShown(who: Who, handover: Handover): Promise<void> {
    const { id } = handover.to;
    this.#stuckMail.recover(id, handover.at);
    if (!this.#stuckMail.isStuck(id)) this.#pauses.end(id);
    await this.#answers.expect(who, handover);
  }

  /** Notes that the model of this session does not answer. If that fails, a later look tries again. */
  async #noteStuck(who: Who, handover: Handover, proof: Extract<RecordedProof, { step: 'accepted' }>): Promise<void> {
    await this.#isolated('notice_trouble', { mailbox: who.name, session: handover.to.id }, async () => {
      if (await this.#stuckMail.note(who, handover, proof)) this.#pauses.hold(handover.to.id);
    });
  }

  /** Whether the client took this message more than `retryMs` ago, and is idle. */
  #mayBeStuck({ to, at }: Handover): boolean {
    const live = this.#live.find(({ client, id }) => client === to.client && id === to.id);
    return live?.status === 'idle' && Math.abs(this.deps.workspace.now() - at) > this.#limits.retryMs;
  }

  /** What the record of a client says; null if it cannot be read. */
  async #proofOf({ to, id, at }: Handover): Promise<RecordedProof | null> {
    const sessions = this.deps.clients.get(to.client);
    const live = this.#live.find((one) => one.client === to.client && one.id === to.id);
    try {
      // The process is the one that got the message; the status is that of the last look.
      return (await sessions?.proof({ ...live, ...to, status: live?.status ?? 'stopped' }, id, at)) ?? null;
    } catch (error) {
      // An unreadable record proves nothing, and does not stop the mail of other sessions.
      this.#logOnce('record_trouble', error, { client: to.client, session: to.id });
      return null;
    }
  }

  /**
   * Does what is due by time, once per `tickMs`. First settles what the records of ended sessions show. Then copies whose lease ran out, or
   * whose hook died, wait again. Questions that were shown and not answered in time go to the owner.
   */
  async #tick(): Promise<void> {
    const { workspace } = this.deps;
    const [home] = workspace.homes;
    if (!home || performance.now() - this.#tickedAt < this.#limits.tickMs) return;
    this.#tickedAt = performance.now();
    this.#due.judgeAgain();
    this.#loggedFailures.clear();
    this.#pauses.forget(new Set(this.#live.map(({ id }) => id)));
    await this.#printed?.settleAll();
    for (const { who } of this.#mailboxes.values()) if (this.#isTryingIn(who.name)) await keepClaimed(who);
    await home.mailboxes.heal();
    for (const { who } of this.#mailboxes.values())
      await this.#isolated('quiet_trouble', { mailbox: who.name }, () => endQuiet(who, workspace.now()));
    await raiseLate(workspace, home, workspace.now(), (one) => this.#answers.isWorkedOn(one));
  }

  /** Nudges an idle session that has mail which its model was not asked with. Does nothing while the session is paused. */
  async #nudge(live: LiveSession): Promise<void> {
    const unasked = this.#unasked.get(live.id);
    const [way] = unasked && live.status === 'idle' ? (this.deps.clients.get(live.client)?.ways(live) ?? []) : [];
    if (!unasked || !way || this.#pauses.isPaused(live.id)) return;
    const next = await this.#nudges.prepare(live, way, unasked);
    if (!next) return;
    this.#wakes.note(live.id);
    if (next.asks) this.#answers.begin(live.id, next.asks);
    if (this.#stuckMail.isStuck(live.id)) this.#pauses.hold(live.id);
    const attempt = this.#tryNudge(live, way, next).finally(() => this.#running.delete(attempt));
    this.#running.add(attempt);
  }

  async #tryNudge({ client, id: session }: LiveSession, way: Way, next: NudgeText): Promise<void> {
    try {
      const said = await nudge(way, next, this.#stop.signal);
      if (said.outcome === 'left') {
        this.#wakes.undo(session);
        if (next.asks) this.#answers.end(session, next.asks);
      }
      if (said.outcome === 'left' && said.retry) {
        this.#nudges.forget(next);
        this.#pauses.pause(session);
      }
      this.deps.log('mail_nudged', { client, session, way: way.name, outcome: said.outcome });
    } catch (error) {
      if (next.asks) this.#answers.end(session, next.asks);
      this.#logOnce('nudge_trouble', error, { client, session });
    }
  }

  /** Shows a session again what it owes after a compaction. The client waits for that, so it is also called with nothing. */
  async #showAgain(live: LiveSession): Promise<void> {
    const { mailboxes = [] } = this.#sessions.find((one) => one.live === live) ?? {};
    const own = mailboxes.find(({ taker }) => taker === undefined)?.who;
    const give = async (parcels: readonly Parcel[]): Promise<void> =>
      this.deps.clients.get(live.client)?.showAgain?.(live, parcels);
    const now = (): number => this.deps.workspace.now();
    await this.#isolated('again_trouble', { client: live.client, session: live.id }, async () => {
      if (!own) return give([]);
      const count = await showAgain(own, live, { wrap: (mail) => this.#parcels(own, mail, live, false), give, now });
      if (count > 0) this.deps.log('mail_again', { mailbox: own.name, session: live.id, count });
    });
  }

  /** Hands the mail of one mailbox over to its sessions: idle ones first, the one that is idle longest before the others. */
  async #push(sessions: { live: LiveSession; mailbox: SessionMailbox }[]): Promise<void> {
    const areSpent = sessions.every(({ live }) => live.status === 'idle' && this.#wakes.isSpent(live.id));
    const idle = ({ mailbox }: { mailbox: SessionMailbox }): number => mailbox.idleSince ?? 0;
    for (const { live, mailbox } of sessions.toSorted((a, b) => rankOf(a.live) - rankOf(b.live) || idle(a) - idle(b))) {
      const [way] = rankOf(live) === UNREACHABLE_RANK ? [] : (this.deps.clients.get(live.client)?.ways(live) ?? []);
      if (!way || this.#pauses.isPaused(live.id)) continue;
      const onlyUrgent = this.#answers.isAnswering(live.id) || this.#inParts.has(live.id);
      const { due, isMore } = await this.#due.next(mailbox, live, { areSpent, onlyUrgent });
      const ids = this.#nextBatch(live, due, this.#pauses.has(live.id));
      if (ids.length === 0) continue;
      if (live.status === 'idle') this.#wakes.note(live.id);
      if (this.#stuckMail.isStuck(live.id)) this.#pauses.hold(live.id);
      const hasNext = isMore || ids.length < due.length;
      if (hasNext) this.#inParts.add(live.id);
      for (const id of ids) this.#trying.add(keyOf(mailbox.who, id));
      const attempt = this.#handOver(live, mailbox, ids, way).finally(() => {
        for (const id of ids) this.#trying.delete(keyOf(mailbox.who, id));
        if (hasNext) this.#inParts.delete(live.id);
        this.#running.delete(attempt);
        this.#wakeup.notify();
      });
      this.#running.add(attempt);
    }
  }

  /**
   * The messages that go out together now. A question for an idle session goes alone, so that it has the turn that it begins for itself;
   * later mail waits a while for the end of that turn. After a failure, messages go one at a time, so that a bad one does not stop the others.
   */
  #nextBatch(live: LiveSession, due: readonly DueMessage[], isRetry: boolean): MessageId[] {
    const [first] = due;
    if (live.status === 'idle' && first?.wantsAnswer && !this.#answers.isAnswering(live.id)) {
      this.#answers.begin(live.id, first.id);
      return [first.id];
    }
    const next = live.status === 'idle' ? due.findIndex(({ wantsAnswer }) => wantsAnswer) : -1;
    const many = isRetry ? 1 : next < 0 ? due.length : next;
    return due.slice(0, many).map(({ id }) => id);
  }

  async #handOver(live: LiveSession, { who, taker }: SessionMailbox, ids: MessageId[], way: Way): Promise<void> {
    const { workspace, log } = this.deps;
    const { id: session, client } = live;
    const at = workspace.now();
    const handoverOf = (id: MessageId): Handover => ({ id, to: live, at, way: way.name, taker });
    const facts = { mailbox: who.name, client, session, way: way.name };
    try {
      const reader = { name: taker ?? who.name, home: who.home };
      const reached = await handOver(who, ids, {
        way,
        session: live,
        taker,
        wrap: async (copies) => this.#parcels(reader, await asOwedNow(who, copies), live),
        proof: (id) => this.#proofOf(handoverOf(id)),
        now: workspace.now,
        signal: this.#stop.signal,
      });
      if (reached.outcome === 'shown') {
        log('mail_shown', { ...facts, count: reached.ids.length });
        for (const id of reached.ids) await this.#noteShown(who, handoverOf(id));
        return;
      }
      for (const id of ids) this.#answers.end(session, id);
      const hasNothingArrived = reached.outcome === 'left' || reached.outcome === 'nothing';
      if (hasNothingArrived && live.status === 'idle') this.#wakes.undo(session);
      if (reached.outcome === 'nothing') {
        if (!this.#stuckMail.isStuck(session)) this.#pauses.end(session);
        return;
      }
      if (reached.outcome === 'left' && reached.retry) this.#pauses.pause(session);
      log(LOGGED[reached.outcome], { ...facts, because: reached.because });
    } catch (error) {
      for (const id of ids) this.#answers.end(session, id);
      this.#pauses.pause(session);
      this.#logOnce('hand_trouble', error, { mailbox: who.name, session });
    }
  }

  async #parcels(
    reader: Who,
    mail: readonly FittedMail[],
    live: LiveSession,
    isIdle = live.status === 'idle',
  ): Promise<Parcel[]> {
    return parcelsOf(await this.deps.phrases(reader, mail, this.deps.workspace.now(), !live.hasNoTools), mail, isIdle);
  }

  #isTryingIn(mailbox: AgentName): boolean {
    return [...this.#trying].some((key) => key.startsWith(`${mailbox} `));
  }

  /** Logs a failure, at most once between two ticks. */
  #logOnce(event: string, error: unknown, facts: Record<string, string> = {}): void {
    const said = { ...facts, because: error instanceof Error ? error.message : String(error) };
    const key = JSON.stringify([event, said]);
    if (this.#loggedFailures.has(key)) return;
    this.#loggedFailures.add(key);
    this.deps.log(event, said);
  }
}

const LOGGED = { left: 'mail_left', declined: 'mail_declined', unproven: 'mail_unproven' } as const;
const UNREACHABLE_RANK = 3;

function rankOf({ status }: LiveSession): number {
  return status === 'idle' ? 0 : status === 'active' ? 1 : status === 'waiting' ? 2 : UNREACHABLE_RANK;
}

function keyOf({ name }: Who, id: MessageId): string {
  return `${name} ${id}`;
}
