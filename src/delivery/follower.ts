import type { Delivered } from '../core/mail/deliver.ts';
import type { Who, Workspace } from '../core/mail/workspace.ts';
import { takenBy } from '../core/mail/shared.ts';
import { byTime } from '../core/message.ts';
import type { Message } from '../core/message.ts';
import { scopeMatches } from '../core/names.ts';
import type { AgentName, MessageId } from '../core/names.ts';
import { asOwedNow } from '../core/obligations/owed.ts';
import { raiseLate } from '../core/obligations/tick.ts';
import type { LiveSession, LiveSessions, RecordedProof } from '../core/ports/live-session.ts';
import type { Watch } from '../core/ports/mailboxes.ts';
import type { Parcel, Way } from '../core/ports/way-in.ts';
import type { Log } from '../core/service.ts';
import { Wakeup } from '../core/wait.ts';
import { Answers, parcelsOf, wantsAnswer } from './answers.ts';
import type { SessionMailbox } from './choose-session.ts';
import type { FittedMail, Phrases } from './fit.ts';
import {
  unprovenCopies,
  endDoubt,
  handoverInDoubt,
  isPushed,
  isRefusedBy,
  handOver,
  resolveHandover,
} from './hand-over.ts';
import type { Handover } from './hand-over.ts';
import type { OfferedDeps } from './hook-offered.ts';
import { nudge, Nudges } from './nudges.ts';
import type { NudgeText, Unasked } from './nudges.ts';
import { showAgain } from './owed-again.ts';
import { Pauses } from './pauses.ts';
import type { PauseLimits } from './pauses.ts';
import { PrintedTexts } from './printed-texts.ts';
import { StuckMail } from './stuck-mail.ts';
import { endQuiet, HOUR_MS, noteHindrance, WakeBudget } from './wake-budget.ts';
import { WakeDigests } from './wake-digest.ts';

export interface FollowerDeps {
  workspace: Workspace;
  /** The clients, by their names. */
  clients: ReadonlyMap<string, LiveSessions>;
  /** The mailboxes that a running session reads, its own first. `all`: every session that its client runs. */
  mailboxesOf(live: LiveSession, all: readonly LiveSession[]): Promise<readonly SessionMailbox[]>;
  /** The client's own record of what our hook printed in a session. */
  hookRecordOf: OfferedDeps['recordOf'];
  phrases(reader: Who, mail: readonly FittedMail[], now: number, hasTools: boolean): Promise<Phrases>;
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
/** A longer body is not pushed: its reader is told of it by a hook, and fetches it. */
const LONGEST_BODY = 32_000;

/**
 * Gives the running sessions of this home the mail that waits for them, and settles it when the client's own record proves that the
 * model was given it. One per home.
 *
 * A message that the record does not show yet stays held for its session. It waits again only when the client cannot have it any more.
 */
export class Follower {
  readonly #limits: FollowerLimits;
  readonly #wakeup = new Wakeup();
  readonly #stop = new AbortController();
  readonly #watches: (() => void)[] = [];
  readonly #mailboxes = new Map<AgentName, { who: Who; arrivals: Watch }>();
  /** Messages that a way of this process tries to hand over now. */
  readonly #trying = new Set<string>();
  /** Messages that wait and are not handed over. They are judged again after a while: a copy can be raised, a quiet time ends. */
  readonly #skipped = new Set<string>();
  readonly #pauses: Pauses;
  readonly #running = new Set<Promise<void>>();
  #isRecovered = false;
  /** All running sessions, as of the last look. */
  #live: readonly LiveSession[] = [];
  #tickedAt = 0;
  /** Those that have a mailbox. */
  #sessions: readonly { live: LiveSession; mailboxes: readonly SessionMailbox[] }[] = [];
  readonly #answers: Answers;
  readonly #wakes: WakeBudget;
  readonly #digests: WakeDigests;
  readonly #stuckMail: StuckMail;
  readonly #nudges: Nudges;
  /** Mail that idle sessions have and are not asked about, by session, as of this look. */
  readonly #unasked = new Map<string, Unasked[]>();
  readonly #printed: PrintedTexts | null;
  readonly #loop: Promise<void>;

  constructor(readonly deps: FollowerDeps) {
    this.#limits = { ...LIMITS, ...deps.limits };
    this.#pauses = new Pauses(this.#limits, deps.workspace.now, (ms) => this.#wakeup.notifyIn(ms));
    const [home] = deps.workspace.homes;
    this.#printed = home ? new PrintedTexts(home, deps.hookRecordOf, deps.log) : null;
    this.#stuckMail = new StuckMail(deps.workspace);
    this.#wakes = new WakeBudget(deps.settings.wakesPerHour, () => deps.workspace.now());
    this.#digests = new WakeDigests(deps.workspace);
    this.#nudges = new Nudges({
      proofOf: (handover) => this.#proofOf(handover),
      hindrance: async (mailbox, id, session) => {
        const message = await mailbox.who.home.journal.message(id);
        return message && this.#wakes.hindrance(mailbox, message, session);
      },
      isQuestion: async ({ who }, id) => {
        const [message, copy] = [await who.home.journal.message(id), await who.home.journal.copy(who.name, id)];
        return message !== null && copy !== null && wantsAnswer({ message, attention: copy.attention });
      },
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
    for (const { mailbox } of reads) await this.#watchMailbox(mailbox.who);
    if (!this.#isRecovered) await this.#recover();
    this.#isRecovered = true;
    await this.#printed?.settle(this.#live);
    await this.#tick();
    this.#unasked.clear();
    for (const { who } of this.#mailboxes.values()) {
      await this.#resolve(who);
      await this.#digests.refresh(who);
    }
    for (const { live } of found) await this.#nudge(live);
    for (const live of this.#live) if (live.compaction !== undefined) await this.#showAgain(live);
    for (const session of await this.#stuckMail.forgetEnded()) this.#pauses.end(session);
    const byMailbox = Map.groupBy(reads, ({ mailbox }) => mailbox.who.name);
    for (const [name, { arrivals }] of this.#mailboxes) {
      // What is being handed over to a session that has just ended is resolved by a later look.
      if (byMailbox.has(name) || [...this.#trying].some((key) => key.startsWith(`${name} `))) continue;
      arrivals.close();
      this.#mailboxes.delete(name);
    }
    for (const sessions of byMailbox.values()) await this.#push(sessions);
    await this.#answers.take();
  }

  /**
   * What time does. Leases that ran out, and what dead hooks had, wait again; what the record shows of ended sessions is settled before. What
   * was shown and not answered in time goes to the owner.
   */
  async #tick(): Promise<void> {
    const { workspace } = this.deps;
    const [home] = workspace.homes;
    if (!home || Date.now() - this.#tickedAt < this.#limits.tickMs) return;
    this.#tickedAt = Date.now();
    this.#skipped.clear();
    const running = new Set(this.#live.map(({ id }) => id));
    this.#pauses.forget(running);
    await this.#printed?.settleAll();
    await home.mailboxes.heal();
    for (const { who } of this.#mailboxes.values()) await endQuiet(who, workspace.now());
    await raiseLate(workspace, home, workspace.now(), (one) => this.#answers.isWorkedOn(one));
  }

  async #list(): Promise<{ live: LiveSession; mailboxes: readonly SessionMailbox[] }[]> {
    const found: { live: LiveSession; mailboxes: readonly SessionMailbox[] }[] = [];
    const running: LiveSession[] = [];
    for (const [client, sessions] of this.deps.clients) {
      try {
        const all = await sessions.list();
        running.push(...all);
        for (const live of all) {
          const mailboxes = await this.deps.mailboxesOf(live, all);
          if (mailboxes.length > 0) found.push({ live, mailboxes });
        }
      } catch (error) {
        // One client that fails does not stop the others.
        this.#complain('client_trouble', error, { client });
        running.push(...this.#live.filter((one) => one.client === client));
      }
    }
    this.#live = running;
    return found;
  }

  async #watchMailbox(who: Who): Promise<void> {
    if (this.#mailboxes.has(who.name)) return;
    const arrivals = who.home.mailboxes.watch(who.name, () => this.#wakeup.notify());
    this.#mailboxes.set(who.name, { who, arrivals });
    await this.#answers.expectOwed(who);
  }

  /** What a process before this one handed over, also to sessions that have ended since. */
  async #recover(): Promise<void> {
    const [home] = this.deps.workspace.homes;
    if (!home) return;
    this.#wakes.recall(await home.journal.receiptsSince(this.deps.workspace.now() - HOUR_MS));
    for (const name of await home.journal.mailboxesWithMail('')) await this.#resolve({ name, home });
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
      if (outcome === 'shown') {
        this.#stuckMail.recover(id, handover.at);
        if (!this.#stuckMail.isStuck(id)) this.#pauses.end(id);
        await this.#answers.expect(who, handover);
      }
      // A session that runs and did not keep it may lose it again at once.
      if (outcome === 'waits again' && this.#live.some((one) => one.id === id && one.pid === handover.to.pid))
        this.#pauses.pause(id);
    }
  }

  /** Wakes an idle session for mail that it has and that its model was not asked with. Not while its model does not answer. */
  async #nudge(live: LiveSession): Promise<void> {
    const unasked = this.#unasked.get(live.id);
    const [way] = unasked && live.status === 'idle' ? (this.deps.clients.get(live.client)?.ways(live) ?? []) : [];
    if (!unasked || !way || this.#pauses.isPaused(live.id)) return;
    const next = await this.#nudges.prepare(live, way, unasked);
    if (!next) return;
    this.#wakes.note(live.id);
    if (next.asks) this.#answers.begin(live.id);
    if (this.#stuckMail.isStuck(live.id)) this.#pauses.hold(live.id);
    const attempt = this.#tryNudge(live, way, next).finally(() => this.#running.delete(attempt));
    this.#running.add(attempt);
  }

  async #tryNudge({ client, id: session }: LiveSession, way: Way, next: NudgeText): Promise<void> {
    try {
      const said = await nudge(way, next, this.#stop.signal);
      if (said.outcome === 'left') {
        this.#wakes.undo(session);
        this.#answers.end(session);
      }
      if (said.outcome === 'left' && said.retry) {
        this.#nudges.forget(next);
        this.#pauses.pause(session);
      }
      this.deps.log('mail_nudged', { client, session, way: way.name, outcome: said.outcome });
    } catch (error) {
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
    try {
      if (!own) return await give([]);
      const count = await showAgain(own, live, { wrap: (mail) => this.#parcels(own, mail, live, false), give, now });
      if (count > 0) this.deps.log('mail_again', { mailbox: own.name, session: live.id, count });
    } catch (error) {
      this.#complain('again_trouble', error, { client: live.client, session: live.id });
    }
  }

  /** What cannot be noted now is noted at a later look, and does not stop the mail of others. */
  async #noteStuck(who: Who, handover: Handover, proof: Extract<RecordedProof, { step: 'accepted' }>): Promise<void> {
    try {
      if (await this.#stuckMail.note(who, handover, proof)) this.#pauses.hold(handover.to.id);
    } catch (error) {
      this.#complain('notice_trouble', error, { mailbox: who.name, session: handover.to.id });
    }
  }

  /** A client that took a message long ago, and is idle without having shown it. */
  #mayBeStuck({ to, at }: Handover): boolean {
    const live = this.#live.find(({ client, id }) => client === to.client && id === to.id);
    return live?.status === 'idle' && this.deps.workspace.now() - at > this.#limits.retryMs;
  }

  async #proofOf({ to, id, at }: Handover): Promise<RecordedProof | null> {
    const sessions = this.deps.clients.get(to.client);
    const live = this.#live.find((one) => one.client === to.client && one.id === to.id);
    try {
      return (await sessions?.proof({ ...(live ?? { status: 'stopped' }), ...to }, id, at)) ?? null;
    } catch (error) {
      // A record that cannot be read says nothing, and does not stop the mail of others.
      this.#complain('record_trouble', error, { client: to.client, session: to.id });
      return null;
    }
  }

  /** Gives one mailbox's mail to one of its sessions: an idle one if there is one, else one that works. */
  async #push(sessions: { live: LiveSession; mailbox: SessionMailbox }[]): Promise<void> {
    const areSpent = sessions.every(({ live }) => live.status === 'idle' && this.#wakes.isSpent(live.id));
    const idle = ({ mailbox }: { mailbox: SessionMailbox }): number => mailbox.idleSince ?? 0;
    for (const { live, mailbox } of sessions.toSorted((a, b) => rankOf(a.live) - rankOf(b.live) || idle(a) - idle(b))) {
      const [way] = rankOf(live) === LAST ? [] : (this.deps.clients.get(live.client)?.ways(live) ?? []);
      if (!way || this.#pauses.isPaused(live.id)) continue;
      const ids = this.#together(live, await this.#pushable(mailbox, live, areSpent), this.#pauses.has(live.id));
      if (ids.length === 0) continue;
      if (live.status === 'idle') this.#wakes.note(live.id);
      if (this.#stuckMail.isStuck(live.id)) this.#pauses.hold(live.id);
      for (const id of ids) this.#trying.add(keyOf(mailbox.who, id));
      const attempt = this.#hand(live, mailbox, ids, way).finally(() => {
        for (const id of ids) this.#trying.delete(keyOf(mailbox.who, id));
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
  #together(live: LiveSession, all: readonly Pushable[], isRetry: boolean): MessageId[] {
    const isAnswering = this.#answers.isAnswering(live.id);
    const some = isAnswering ? all.filter(({ isUrgent }) => isUrgent) : all;
    const [first] = some;
    if (live.status === 'idle' && first?.wantsAnswer && !isAnswering) {
      this.#answers.begin(live.id);
      return [first.id];
    }
    const next = live.status === 'idle' ? some.findIndex(({ wantsAnswer }) => wantsAnswer) : -1;
    const many = isRetry ? 1 : next < 0 ? some.length : next;
    return some.slice(0, many).map(({ id }) => id);
  }

  /**
   * What should be handed over now, oldest first. What was judged before costs one listing, however much waits. `areSpent`: no session of
   * this mailbox may be woken again yet, so what comes goes into a digest. Not in a shared mailbox: only one of its sessions would see the
   * digest, and what it lists would wait for nobody after the end of that one.
   */
  async #pushable(
    mailbox: SessionMailbox,
    { id: session, status }: LiveSession,
    areSpent: boolean,
  ): Promise<Pushable[]> {
    const { who, taker, match, waitMs } = mailbox;
    const { mailboxes, journal } = who.home;
    const makesDigest = areSpent && taker === undefined;
    const place = (id: MessageId): string => `${keyOf(who, id)} ${match} ${session}`;
    const placeWhileIdle = (id: MessageId): string => `${place(id)} idle`;
    const isSkipped = (id: MessageId): boolean =>
      this.#skipped.has(place(id)) || (status === 'idle' && this.#skipped.has(placeWhileIdle(id)));
    const isNews = (id: MessageId): boolean => !this.#trying.has(keyOf(who, id)) && !isSkipped(id);
    if (!(await mailboxes.ids(who.name, true)).some(isNews)) return [];
    await mailboxes.adopt(who.name);
    const found: (Pushable & { ts: string })[] = [];
    const overBudget: Message[] = [];
    let spent = '';
    for (const id of (await mailboxes.ids(who.name, true)).filter(isNews)) {
      const message = (await mailboxes.read(who.name, id))?.message;
      const copy = message && (await journal.copy(who.name, id));
      if (!message || copy?.state !== 'stored') continue;
      const isFit = isPushed(copy) && message.body.length <= LONGEST_BODY && scopeMatches(message.scope, match);
      if (!isFit || (await isRefusedBy(who, id, session))) {
        this.#skipped.add(place(id));
        continue;
      }
      const doubt = copy.attempt > 0 ? await handoverInDoubt(who, id, session) : null;
      if (doubt && !(await endDoubt(who, doubt, await this.#proofOf(doubt), this.deps.workspace.now()))) {
        this.#skipped.add(place(id));
        continue;
      }
      const left = (await waitMs?.(message)) ?? 0;
      if (left > 0) {
        this.#wakeup.notifyIn(left);
        continue;
      }
      const hindrance = await this.#wakes.hindrance(mailbox, message, session);
      if (hindrance?.isOverBudget && makesDigest && copy.attention.reason !== 'digest') {
        overBudget.push(message);
        spent = hindrance.because;
        continue;
      }
      if (hindrance && (status === 'idle' || !hindrance.whileIdle)) {
        this.#skipped.add(hindrance.whileIdle ? placeWhileIdle(id) : place(id));
        await noteHindrance(who, id, hindrance.because, this.deps.workspace.now());
        continue;
      }
      const { attention } = copy;
      const isUrgent = attention.injection === 'immediate';
      found.push({ id, ts: message.ts, isUrgent, wantsAnswer: wantsAnswer({ message, attention }) });
    }
    if (overBudget.length > 0) await this.#digests.add(who, overBudget, spent);
    return found.sort(byTime);
  }

  async #hand(live: LiveSession, { who, taker }: SessionMailbox, ids: MessageId[], way: Way): Promise<void> {
    const { workspace } = this.deps;
    try {
      const { signal } = this.#stop;
      const at = workspace.now();
      const proof = (id: MessageId): Promise<RecordedProof | null> =>
        this.#proofOf({ id, to: live, at, way: way.name });
      const reader = { name: taker ?? who.name, home: who.home };
      const wrap = async (copies: readonly Delivered[]) => this.#parcels(reader, await asOwedNow(who, copies), live);
      const reached = await handOver(who, ids, { way, session: live, taker, wrap, proof, now: workspace.now, signal });
      const facts = { mailbox: who.name, client: live.client, session: live.id, way: way.name };
      if (reached.outcome !== 'shown') this.#answers.end(live.id);
      else this.#stuckMail.recover(live.id, at);
      if (live.status === 'idle' && (reached.outcome === 'left' || reached.outcome === 'nothing'))
        this.#wakes.undo(live.id);
      if (reached.outcome === 'unproven') this.deps.log('mail_unproven', { ...facts, because: reached.because });
      if (reached.outcome === 'declined') this.deps.log('mail_declined', { ...facts, because: reached.because });
      else if (reached.outcome === 'left') {
        if (reached.retry) this.#pauses.pause(live.id);
        this.deps.log('mail_left', { ...facts, because: reached.because });
      } else if (reached.outcome !== 'unproven' && !this.#stuckMail.isStuck(live.id)) this.#pauses.end(live.id);
      if (reached.outcome === 'shown') {
        this.deps.log('mail_shown', { ...facts, count: reached.ids.length });
        for (const id of reached.ids) await this.#answers.expect(who, { id, to: live, at, way: way.name, taker });
      }
    } catch (error) {
      this.#pauses.pause(live.id);
      this.#complain('hand_trouble', error, { mailbox: who.name, session: live.id });
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

  #complain(event: string, error: unknown, facts: Record<string, string> = {}): void {
    this.deps.log(event, { ...facts, because: error instanceof Error ? error.message : String(error) });
  }
}

/** A message that should be handed over. */
interface Pushable {
  id: MessageId;
  wantsAnswer: boolean;
  isUrgent: boolean;
}

const LAST = 3;

function rankOf({ status }: LiveSession): number {
  return status === 'idle' ? 0 : status === 'active' ? 1 : status === 'waiting' ? 2 : LAST;
}

function keyOf({ name }: Who, id: MessageId): string {
  return `${name} ${id}`;
}
