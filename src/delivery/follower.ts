import type { Delivered } from '../core/mail/deliver.ts';
import type { Who, Workspace } from '../core/mail/workspace.ts';
import type { ReadMailbox } from '../core/mail/shared.ts';
import type { Message } from '../core/message.ts';
import { scopeMatches } from '../core/names.ts';
import type { AgentName, MessageId } from '../core/names.ts';
import type { LiveSession, LiveSessions, RecordedProof } from '../core/ports/live-session.ts';
import type { Watch } from '../core/ports/mailboxes.ts';
import type { Parcel, Way } from '../core/ports/way-in.ts';
import type { Log } from '../core/service.ts';
import { Wakeup } from '../core/wait.ts';
import { Answers, wantsAnswer } from './answers.ts';
import type { Phrases } from './fit.ts';
import { handedCopies, isPushed, isRefusedBy, handOver, resolveHanded } from './hand-over.ts';
import type { Handed } from './hand-over.ts';
import { OfferedTexts } from './hook-offered.ts';
import type { OfferedDeps } from './hook-offered.ts';
import { HookSessionFolder, namesIn } from './hook-session.ts';

/** A mailbox that a session reads, and the context that its mail must match. */
export interface SessionMailbox extends ReadMailbox {
  match: string;
  /** Of a shared mailbox: since when the session is idle, and how long it must leave a message to the others, ms. */
  idleSince?: number | null;
  waitMs?: (message: Message) => Promise<number>;
}

export interface FollowerDeps {
  workspace: Workspace;
  /** The clients, by their names. */
  clients: ReadonlyMap<string, LiveSessions>;
  /** The mailboxes that a running session reads, its own first. `all`: every session that its client runs. */
  mailboxesOf(live: LiveSession, all: readonly LiveSession[]): Promise<readonly SessionMailbox[]>;
  /** The client's own record of what our hook printed in a session. */
  hookRecordOf: OfferedDeps['recordOf'];
  phrases(reader: AgentName, mail: readonly Delivered[], now: number): Phrases;
  settings: { captureRemote: boolean };
  log: Log;
  limits?: Partial<FollowerLimits>;
}

export interface FollowerLimits {
  /** How often everything is looked at, if nothing is heard. */
  lookMs: number;
  /** The first pause after a session could not be given its mail; each time in a row twice as long, up to the last. */
  retryMs: number;
  longestRetryMs: number;
}

const LIMITS: FollowerLimits = { lookMs: 5000, retryMs: 1000, longestRetryMs: 300_000 };
/** A longer body is not pushed: its reader is told of it by a hook, and fetches it. */
const LONGEST_BODY = 32_000;
const FORGET_MS = 60_000;
const HEAL_MS = 60_000;

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
  /** Messages that a way has in hand in this process. */
  readonly #inHand = new Set<string>();
  /** Messages that wait and are not handed over. A copy can be raised, so they are judged again after a while. */
  readonly #passed = new Set<string>();
  readonly #forgetting = setInterval(() => this.#passed.clear(), FORGET_MS);
  readonly #pauses = new Map<string, { until: number; ms: number }>();
  readonly #running = new Set<Promise<void>>();
  #isRecovered = false;
  /** All running sessions, as of the last look. */
  #live: readonly LiveSession[] = [];
  #healedAt = 0;
  /** Those that have a mailbox. */
  #sessions: readonly { live: LiveSession; mailboxes: readonly SessionMailbox[] }[] = [];
  readonly #answers: Answers;
  /** What hooks printed, by session. */
  readonly #printed = new Map<string, OfferedTexts>();
  readonly #loop: Promise<void>;

  constructor(readonly deps: FollowerDeps) {
    this.#limits = { ...LIMITS, ...deps.limits };
    this.#answers = new Answers({
      workspace: deps.workspace,
      captureRemote: deps.settings.captureRemote,
      proofOf: (handed) => this.#proofOf(handed),
      isLive: (session) => this.#sessions.some(({ live }) => live.id === session),
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
    return this.#sessions.length > 0 || this.#inHand.size > 0 || this.#answers.isWaiting;
  }

  async close(): Promise<void> {
    this.#stop.abort();
    this.#wakeup.notify();
    for (const stop of this.#watches) stop();
    clearInterval(this.#forgetting);
    await this.#loop;
    await Promise.all(this.#running);
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
    await this.#settlePrinted(this.#live);
    await this.#heal();
    for (const { who } of this.#mailboxes.values()) await this.#resolve(who);
    const byMailbox = Map.groupBy(reads, ({ mailbox }) => mailbox.who.name);
    for (const [name, { arrivals }] of this.#mailboxes) {
      if (byMailbox.has(name)) continue;
      arrivals.close();
      this.#mailboxes.delete(name);
    }
    for (const sessions of byMailbox.values()) await this.#push(sessions);
    await this.#answers.take();
  }

  /** Leases that ran out, and what dead hooks had, wait again. What the record shows of ended sessions is settled before. */
  async #heal(): Promise<void> {
    const now = Date.now();
    const [home] = this.deps.workspace.homes;
    if (!home || now - this.#healedAt < HEAL_MS) return;
    this.#healedAt = now;
    const known = namesIn(`${home.root}/sessions`).flatMap((id) => {
      const client = HookSessionFolder.open(home.root, id)?.binding()?.by;
      return client === undefined ? [] : [{ id, client }];
    });
    await this.#settlePrinted(known);
    const ids = new Set(known.map(({ id }) => id));
    for (const id of this.#printed.keys()) if (!ids.has(id)) this.#printed.delete(id);
    await home.mailboxes.heal();
  }

  /** What hooks printed in these sessions is proven by the same records. Their next event does the rest. */
  async #settlePrinted(sessions: readonly Pick<LiveSession, 'client' | 'id'>[]): Promise<void> {
    for (const { client, id } of sessions) {
      for (const shown of (await this.#printedIn(id)?.settleProven(client)) ?? []) {
        this.deps.log('mail_resolved', {
          mailbox: shown.who.name,
          message: shown.id,
          client,
          session: id,
          outcome: 'shown',
        });
      }
    }
  }

  #printedIn(id: string): OfferedTexts | null {
    const known = this.#printed.get(id);
    const [home] = this.deps.workspace.homes;
    const session = home && HookSessionFolder.open(home.root, id);
    if (known || !session) return known ?? null;
    const texts = new OfferedTexts(session, {
      readerNamed: async (name) => ((await home.directory.get(name)) ? { name, home } : null),
      recordOf: this.deps.hookRecordOf,
      complain: (error) => this.#complain('hook_trouble', error, { session: id }),
    });
    this.#printed.set(id, texts);
    return texts;
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
    for (const name of await home.journal.mailboxesWithMail('')) await this.#resolve({ name, home });
  }

  /** Ends what was handed over and is proven, or known not to have arrived. */
  async #resolve(who: Who): Promise<void> {
    for (const handed of await handedCopies(who)) {
      if (this.#inHand.has(keyOf(who, handed.id))) continue;
      const proof = await this.#proofOf(handed);
      if (!proof) continue;
      const outcome = await resolveHanded(who, handed, proof, this.deps.workspace.now());
      if (outcome === 'unknown') continue;
      const { client, id } = handed.to;
      this.deps.log('mail_resolved', { mailbox: who.name, message: handed.id, client, session: id, outcome });
      if (outcome === 'shown') await this.#answers.expect(who, handed);
    }
  }

  async #proofOf({ to, id, at }: Handed): Promise<RecordedProof | null> {
    const sessions = this.deps.clients.get(to.client);
    const live = this.#live.find((one) => one.client === to.client && one.id === to.id);
    return sessions ? sessions.proof({ ...(live ?? { status: 'stopped' }), ...to }, id, at) : null;
  }

  /** Gives one mailbox's mail to one of its sessions: an idle one if there is one, else one that works. */
  async #push(sessions: { live: LiveSession; mailbox: SessionMailbox }[]): Promise<void> {
    const idle = ({ mailbox }: { mailbox: SessionMailbox }): number => mailbox.idleSince ?? 0;
    for (const { live, mailbox } of sessions.toSorted((a, b) => rankOf(a.live) - rankOf(b.live) || idle(a) - idle(b))) {
      const [way] = rankOf(live) === LAST ? [] : (this.deps.clients.get(live.client)?.ways(live) ?? []);
      const pause = this.#pauses.get(live.id);
      if (!way || (pause && pause.until > this.deps.workspace.now())) continue;
      const ids = this.#together(live, await this.#pushable(mailbox, live.id), pause !== undefined);
      if (ids.length === 0) continue;
      for (const id of ids) this.#inHand.add(keyOf(mailbox.who, id));
      const attempt = this.#hand(live, mailbox, ids, way).finally(() => {
        for (const id of ids) this.#inHand.delete(keyOf(mailbox.who, id));
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

  /** What should be handed over now, oldest first. What was judged before costs one listing, however much waits. */
  async #pushable({ who, match, waitMs }: SessionMailbox, session: string): Promise<Pushable[]> {
    const { mailboxes, journal } = who.home;
    const passed = (id: MessageId): string => `${keyOf(who, id)} ${match} ${session}`;
    const isNews = (id: MessageId): boolean => !this.#inHand.has(keyOf(who, id)) && !this.#passed.has(passed(id));
    if (!(await mailboxes.ids(who.name, true)).some(isNews)) return [];
    await mailboxes.adopt(who.name);
    const found: (Pushable & { ts: string })[] = [];
    for (const id of (await mailboxes.ids(who.name, true)).filter(isNews)) {
      const message = (await mailboxes.read(who.name, id))?.message;
      const copy = message && (await journal.copy(who.name, id));
      if (!message || copy?.state !== 'stored') continue;
      const isFit = isPushed(copy) && message.body.length <= LONGEST_BODY && scopeMatches(message.scope, match);
      const left = isFit ? ((await waitMs?.(message)) ?? 0) : 0;
      if (left > 0) this.#wakeup.notifyIn(left);
      else if (isFit && !(await isRefusedBy(who, id, session))) {
        const { attention } = copy;
        const isUrgent = attention.injection === 'immediate';
        found.push({ id, ts: message.ts, isUrgent, wantsAnswer: wantsAnswer({ message, attention }) });
      } else this.#passed.add(passed(id));
    }
    return found.sort((x, y) => Number(x.ts > y.ts) - Number(x.ts < y.ts));
  }

  async #hand(live: LiveSession, { who, taker }: SessionMailbox, ids: MessageId[], way: Way): Promise<void> {
    const { workspace } = this.deps;
    try {
      const { signal } = this.#stop;
      const at = workspace.now();
      const proof = (id: MessageId): Promise<RecordedProof | null> =>
        this.#proofOf({ id, to: live, at, way: way.name });
      const reader = taker ?? who.name;
      const wrap = (copies: readonly Delivered[]): Parcel[] => this.#parcels(reader, copies, live.status === 'idle');
      const reached = await handOver(who, ids, { way, session: live, taker, wrap, proof, now: workspace.now, signal });
      const facts = { mailbox: who.name, client: live.client, session: live.id, way: way.name };
      if (reached.outcome !== 'shown') this.#answers.cancel(live.id);
      if (reached.outcome === 'handed') this.deps.log('mail_handed', { ...facts, because: reached.because });
      if (reached.outcome === 'declined') this.deps.log('mail_declined', { ...facts, because: reached.because });
      else if (reached.outcome === 'left') {
        if (reached.retry) this.#pause(live.id);
        this.deps.log('mail_left', { ...facts, because: reached.because });
      } else this.#pauses.delete(live.id);
      if (reached.outcome === 'shown') {
        this.deps.log('mail_shown', { ...facts, count: reached.ids.length });
        for (const id of reached.ids) await this.#answers.expect(who, { id, to: live, at, way: way.name, taker });
      }
    } catch (error) {
      this.#pause(live.id);
      this.#complain('hand_trouble', error, { mailbox: who.name, session: live.id });
    }
  }

  /** The first has the greeting: what is handed over together is read together. */
  #parcels(reader: AgentName, copies: readonly Delivered[], isIdle: boolean): Parcel[] {
    const say = this.deps.phrases(reader, copies, this.deps.workspace.now());
    return copies.map((mail, index) => {
      const { id, from } = mail.message;
      const whole = say.whole(mail);
      const ownTurn = isIdle && wantsAnswer(mail);
      const text = index === 0 || ownTurn ? `${say.greeting}\n${whole}` : whole;
      return { id, from, text, ownTurn };
    });
  }

  #pause(session: string): void {
    const { retryMs, longestRetryMs } = this.#limits;
    const before = this.#pauses.get(session)?.ms ?? 0;
    const ms = Math.min(before * 2 || retryMs, longestRetryMs);
    this.#pauses.set(session, { until: this.deps.workspace.now() + ms, ms });
    this.#wakeup.notifyIn(ms);
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
