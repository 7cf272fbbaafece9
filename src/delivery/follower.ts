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
  /** The client's own record of what our hook printed in a session. */
  hookRecordOf: OfferedDeps['recordOf'];
  phrases(reader: Who, mail: readonly FittedMail[], now: number, hasTools: boolean): Promise<PushPhrases>;
  settings: { wakesPerHour: number; captureRemote: boolean };
  log: Log;
  limits?: Partial<FollowerLimits>;
}

export interface FollowerLimits extends PauseLimits {
  /** How often everything is looked at, if nothing is heard. */
  lookMs: number;
  /** How often leases, quiet times and what is late are looked at, and what was skipped is judged again. */
  tickMs: number;
}

const LIMITS: FollowerLimits = { lookMs: 5000, retryMs: 1000, longestRetryMs: 300_000, tickMs: 60_000 };

/**
 * Gives the running sessions of this home the mail that waits for them, and settles it when the client's own record proves that the
 * model was given it. One per home.
 *
 * It looks at everything when something may have changed, and every few seconds. In each look:
 *
 * 1. It lists the running sessions and their mailboxes.
 * 2. It asks the records what became of the mail that was handed over before. What is proven is settled. What the client cannot have any
 *    more waits again. Anything else stays held for its session.
 * 3. It does what is due by time.
 * 4. It wakes idle sessions whose model was not asked with the mail that they have.
 * 5. It hands over the mail that waits. Each attempt runs by itself, and its end begins another look.
 * 6. It sends the answers that the records show by now.
 */
export class Follower {
  readonly #limits: FollowerLimits;
  readonly #wakeup = new Wakeup();
  readonly #stop = new AbortController();
  readonly #watches: (() => void)[] = [];
  readonly #loop: Promise<void>;
  /** All running sessions, as of the last look. */
  #live: readonly LiveSession[] = [];
  /** Those that have a mailbox. */
  #sessions: readonly { live: LiveSession; mailboxes: readonly SessionMailbox[] }[] = [];
  readonly #mailboxes = new Map<AgentName, { who: Who; arrivals: Watch }>();
  /** Mailboxes in which a process before this one may have left handovers; null: not known yet. */
  #unrecovered: Set<AgentName> | null = null;
  /** When things that are due by time were looked at last, as performance.now() counts: a clock may be set back. */
  #tickedAt = -Infinity;
  /** Attempts that run, and the messages that they hand over. */
  readonly #running = new Set<Promise<void>>();
  readonly #trying = new Set<string>();
  /** Sessions that are being given a part of their mail. The next part waits for the end of that attempt. */
  readonly #inParts = new Set<string>();
  /** Mail that idle sessions have and are not asked about, by session, as of this look. */
  readonly #unasked = new Map<string, Unasked[]>();
  /** What went wrong since the last tick: it is said once. */
  readonly #complaints = new Set<string>();
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
      hindrance: (mailbox, message, session) => this.#wakes.hindrance(mailbox, message, session),
      now: () => deps.workspace.now(),
    });
    this.#answers = new Answers({
      workspace: deps.workspace,
      captureRemote: deps.settings.captureRemote,
      proofOf: (handover) => this.#proofOf(handover),
      // Kimi gives its session an id only with the first prompt.
      statusOf: ({ id, pid }) =>
        this.#sessions.find(({ live }) => live.id === id || (pid !== undefined && live.pid === pid))?.live.status ??
        null,
      lookIn: (ms) => this.#wakeup.notifyIn(ms),
      log: deps.log,
    });
    for (const sessions of deps.clients.values()) this.#watches.push(sessions.watch(() => this.#wakeup.notify()));
    this.#loop = this.#run();
  }

  /** How many running sessions have a mailbox, as of the last look. */
  get sessionCount(): number {
    return this.#sessions.length;
  }

  /** Whether anything is under way that a later look must end. */
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
        this.#complain('follow_trouble', error);
      }
      this.#wakeup.notifyIn(this.#limits.lookMs);
      if (!this.#stop.signal.aborted) await this.#wakeup.next();
    }
  }

  async #look(): Promise<void> {
    const found = await this.#list();
    this.#sessions = found;
    const reads = found.flatMap(({ live, mailboxes }) => mailboxes.map((mailbox) => ({ live, mailbox })));
    for (const { mailbox } of reads)
      await this.#apart('watch_trouble', { mailbox: mailbox.who.name }, () => this.#watchMailbox(mailbox.who));
    await this.#recover();
    await this.#printed?.settle(this.#live);
    this.#unasked.clear();
    for (const { who } of this.#mailboxes.values()) {
      await this.#apart('resolve_trouble', { mailbox: who.name }, () => this.#resolve(who));
      await this.#apart('digest_trouble', { mailbox: who.name }, () => this.#digests.refresh(who));
    }
    // Only now: it ends claims that ran out while the machine slept, also of what the client still has.
    await this.#apart('tick_trouble', {}, () => this.#tick());
    for (const { live } of found)
      await this.#apart('nudge_trouble', { client: live.client, session: live.id }, () => this.#nudge(live));
    for (const live of this.#live) if (live.compaction !== undefined) await this.#showAgain(live);
    for (const session of await this.#stuckMail.forgetEnded()) this.#pauses.end(session);
    const byMailbox = Map.groupBy(reads, ({ mailbox }) => mailbox.who.name);
    this.#forgetMailboxes(new Set(byMailbox.keys()));
    for (const [mailbox, sessions] of byMailbox)
      await this.#apart('push_trouble', { mailbox }, () => this.#push(sessions));
    await this.#answers.take();
  }

  /** A failure here does not stop the mail of others. */
  async #apart(event: string, facts: Record<string, string>, act: () => Promise<void>): Promise<void> {
    try {
      await act();
    } catch (error) {
      this.#complain(event, error, facts);
    }
  }

  async #list(): Promise<{ live: LiveSession; mailboxes: readonly SessionMailbox[] }[]> {
    const found: { live: LiveSession; mailboxes: readonly SessionMailbox[] }[] = [];
    const running: LiveSession[] = [];
    for (const [client, sessions] of this.deps.clients) {
      let all = this.#live.filter((one) => one.client === client);
      await this.#apart('client_trouble', { client }, async () => {
        all = await sessions.list();
        for (const live of all)
          await this.#apart('session_trouble', { client, session: live.id }, async () => {
            const mailboxes = await this.deps.mailboxesOf(live, all);
            if (mailboxes.length > 0) found.push({ live, mailboxes });
          });
      });
      running.push(...all);
    }
    this.#live = running;
    return found;
  }

  /** Wakes at what arrives there, and expects the answers that a process before this one was waiting for. */
  async #watchMailbox(who: Who): Promise<void> {
    if (this.#mailboxes.has(who.name)) return;
    const arrivals = who.home.mailboxes.watch(who.name, () => this.#wakeup.notify());
    this.#mailboxes.set(who.name, { who, arrivals });
    await this.#answers.expectOwed(who);
  }

  /** Those that no running session reads. What is being handed over to a session that has just ended is resolved by a later look. */
  #forgetMailboxes(read: ReadonlySet<AgentName>): void {
    for (const [name, { arrivals }] of this.#mailboxes) {
      if (read.has(name) || this.#isTryingIn(name)) continue;
      arrivals.close();
      this.#mailboxes.delete(name);
    }
  }

  /** What a process before this one handed over, also to sessions that have ended since. */
  async #recover(): Promise<void> {
    const [home] = this.deps.workspace.homes;
    if (!home || this.#unrecovered?.size === 0) return;
    if (this.#unrecovered === null) {
      this.#wakes.recall(await home.journal.receiptsSince(this.deps.workspace.now() - HOUR_MS, WAKE_STEPS));
      this.#unrecovered = new Set(await home.journal.mailboxesWithMail(''));
    }
    for (const name of this.#unrecovered)
      await this.#apart('recover_trouble', { mailbox: name }, async () => {
        await this.#resolve({ name, home });
        this.#unrecovered?.delete(name);
      });
  }

  /** Ends what was handed over and is proven, or known not to have arrived. */
  async #resolve(who: Who): Promise<void> {
    // An attempt that ends during this look is looked at in the next one.
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
      // A session that runs and did not keep it may lose it again at once.
      if (outcome === 'waits again' && this.#live.some((one) => one.id === id && one.pid === handover.to.pid))
        this.#pauses.pause(id);
    }
  }

  /** The model of this session answers again, and perhaps this message. */
  async #noteShown(who: Who, handover: Handover): Promise<void> {
    const { id } = handover.to;
    this.#stuckMail.recover(id, handover.at);
    if (!this.#stuckMail.isStuck(id)) this.#pauses.end(id);
    await this.#answers.expect(who, handover);
  }

  /** What cannot be noted now is noted at a later look, and does not stop the mail of others. */
  async #noteStuck(who: Who, handover: Handover, proof: Extract<RecordedProof, { step: 'accepted' }>): Promise<void> {
    await this.#apart('notice_trouble', { mailbox: who.name, session: handover.to.id }, async () => {
      if (await this.#stuckMail.note(who, handover, proof)) this.#pauses.hold(handover.to.id);
    });
  }

  /** A client that took a message long ago, and is idle without having shown it. */
  #mayBeStuck({ to, at }: Handover): boolean {
    const live = this.#live.find(({ client, id }) => client === to.client && id === to.id);
    return live?.status === 'idle' && Math.abs(this.deps.workspace.now() - at) > this.#limits.retryMs;
  }

  /** What the record of a client says; null if it cannot be read. */
  async #proofOf({ to, id, at }: Handover): Promise<RecordedProof | null> {
    const sessions = this.deps.clients.get(to.client);
    const live = this.#live.find((one) => one.client === to.client && one.id === to.id);
    try {
      // The process is the one that it was handed to, the state is that of now.
      return (await sessions?.proof({ ...live, ...to, status: live?.status ?? 'stopped' }, id, at)) ?? null;
    } catch (error) {
      // A record that cannot be read says nothing, and does not stop the mail of others.
      this.#complain('record_trouble', error, { client: to.client, session: to.id });
      return null;
    }
  }

  /**
   * What time does. Leases that ran out, and what dead hooks had, wait again; what the record shows of ended sessions is settled before. What
   * was shown and not answered in time goes to the owner.
   */
  async #tick(): Promise<void> {
    const { workspace } = this.deps;
    const [home] = workspace.homes;
    if (!home || performance.now() - this.#tickedAt < this.#limits.tickMs) return;
    this.#tickedAt = performance.now();
    this.#due.judgeAgain();
    this.#complaints.clear();
    this.#pauses.forget(new Set(this.#live.map(({ id }) => id)));
    await this.#printed?.settleAll();
    for (const { who } of this.#mailboxes.values()) if (this.#isTryingIn(who.name)) await keepClaimed(who);
    await home.mailboxes.heal();
    for (const { who } of this.#mailboxes.values())
      await this.#apart('quiet_trouble', { mailbox: who.name }, () => endQuiet(who, workspace.now()));
    await raiseLate(workspace, home, workspace.now(), (one) => this.#answers.isWorkedOn(one));
  }

  /** Wakes an idle session for mail that it has and that its model was not asked with. Not while its model does not answer. */
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
      this.#complain('nudge_trouble', error, { client, session });
    }
  }

  /** After a compaction the client waits for what its session owes, also if that is nothing. */
  async #showAgain(live: LiveSession): Promise<void> {
    const { mailboxes = [] } = this.#sessions.find((one) => one.live === live) ?? {};
    const own = mailboxes.find(({ taker }) => taker === undefined)?.who;
    const give = async (parcels: readonly Parcel[]): Promise<void> =>
      this.deps.clients.get(live.client)?.showAgain?.(live, parcels);
    const now = (): number => this.deps.workspace.now();
    await this.#apart('again_trouble', { client: live.client, session: live.id }, async () => {
      if (!own) return give([]);
      const count = await showAgain(own, live, { wrap: (mail) => this.#parcels(own, mail, live, false), give, now });
      if (count > 0) this.deps.log('mail_again', { mailbox: own.name, session: live.id, count });
    });
  }

  /** Gives one mailbox's mail to one of its sessions: an idle one if there is one, else one that works. */
  async #push(sessions: { live: LiveSession; mailbox: SessionMailbox }[]): Promise<void> {
    const areSpent = sessions.every(({ live }) => live.status === 'idle' && this.#wakes.isSpent(live.id));
    const idle = ({ mailbox }: { mailbox: SessionMailbox }): number => mailbox.idleSince ?? 0;
    for (const { live, mailbox } of sessions.toSorted((a, b) => rankOf(a.live) - rankOf(b.live) || idle(a) - idle(b))) {
      const [way] = rankOf(live) === LAST ? [] : (this.deps.clients.get(live.client)?.ways(live) ?? []);
      if (!way || this.#pauses.isPaused(live.id)) continue;
      const onlyUrgent = this.#answers.isAnswering(live.id) || this.#inParts.has(live.id);
      const { due, isMore } = await this.#due.next(mailbox, live, { areSpent, onlyUrgent });
      const ids = this.#together(live, due, this.#pauses.has(live.id));
      if (ids.length === 0) continue;
      if (live.status === 'idle') this.#wakes.note(live.id);
      if (this.#stuckMail.isStuck(live.id)) this.#pauses.hold(live.id);
      const hasNext = isMore || ids.length < due.length;
      if (hasNext) this.#inParts.add(live.id);
      for (const id of ids) this.#trying.add(keyOf(mailbox.who, id));
      const attempt = this.#hand(live, mailbox, ids, way).finally(() => {
        for (const id of ids) this.#trying.delete(keyOf(mailbox.who, id));
        if (hasNext) this.#inParts.delete(live.id);
        this.#running.delete(attempt);
        this.#wakeup.notify();
      });
      this.#running.add(attempt);
    }
  }

  /**
   * Those that go together. A question for an idle session goes alone, so that the turn that it begins is its own; what comes after it waits a
   * while for the end of that turn. After a failure one by one: what is wrong with one message must not hold up the others.
   */
  #together(live: LiveSession, due: readonly DueMessage[], isRetry: boolean): MessageId[] {
    const [first] = due;
    if (live.status === 'idle' && first?.wantsAnswer && !this.#answers.isAnswering(live.id)) {
      this.#answers.begin(live.id, first.id);
      return [first.id];
    }
    const next = live.status === 'idle' ? due.findIndex(({ wantsAnswer }) => wantsAnswer) : -1;
    const many = isRetry ? 1 : next < 0 ? due.length : next;
    return due.slice(0, many).map(({ id }) => id);
  }

  async #hand(live: LiveSession, { who, taker }: SessionMailbox, ids: MessageId[], way: Way): Promise<void> {
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
      const isNothingIn = reached.outcome === 'left' || reached.outcome === 'nothing';
      if (isNothingIn && live.status === 'idle') this.#wakes.undo(session);
      if (reached.outcome === 'nothing') {
        if (!this.#stuckMail.isStuck(session)) this.#pauses.end(session);
        return;
      }
      if (reached.outcome === 'left' && reached.retry) this.#pauses.pause(session);
      log(LOGGED[reached.outcome], { ...facts, because: reached.because });
    } catch (error) {
      for (const id of ids) this.#answers.end(session, id);
      this.#pauses.pause(session);
      this.#complain('hand_trouble', error, { mailbox: who.name, session });
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

  /** Says it once between two ticks, however often it is looked at. */
  #complain(event: string, error: unknown, facts: Record<string, string> = {}): void {
    const said = { ...facts, because: error instanceof Error ? error.message : String(error) };
    const key = JSON.stringify([event, said]);
    if (this.#complaints.has(key)) return;
    this.#complaints.add(key);
    this.deps.log(event, said);
  }
}

const LOGGED = { left: 'mail_left', declined: 'mail_declined', unproven: 'mail_unproven' } as const;
const LAST = 3;

function rankOf({ status }: LiveSession): number {
  return status === 'idle' ? 0 : status === 'active' ? 1 : status === 'waiting' ? 2 : LAST;
}

function keyOf({ name }: Who, id: MessageId): string {
  return `${name} ${id}`;
}
