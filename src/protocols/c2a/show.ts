import { readMessage } from '../../core/message.ts';
import type { Message } from '../../core/message.ts';
import type { AgentName, MessageId } from '../../core/names.ts';
import type { Disposition } from '../../core/receipt.ts';
import { Alarm, RepeatingTask, failureFacts } from './tasks.ts';
import { HOLD_MS, recordStep, isPermanent, retryAfter } from './context.ts';
import type { HostContext, SurfaceShow, HostPeer } from './context.ts';
import { bridgeName, rawConversation, rawMessage, rawPerson } from './platform-names.ts';
import type { ChatOrigin } from './platform-names.ts';
import { rootOf } from '../../core/mail/conversation.ts';
import { replyOutcome } from '../../core/attention/reply-rules.ts';
import { isMessageId } from '../../core/names.ts';
import type { Home } from '../../core/mail/workspace.ts';
import { endObligation } from '../../core/obligations/obligation.ts';
import { settleIfOpen } from '../../core/mail/settle.ts';

const LOOK_MS = 1000;
const PAGE = 64;
const FIRST_WAIT_MS = 1000;
const LONGEST_WAIT_MS = 60_000;
/** The most messages under way at once; the rest stays in the mailboxes. */
const MOST_OUT = 200;

/** The longest time that a reaction holds back later messages, and how often it is tried: some platforms lack some reactions. */
const REACTION_MS = 5000;
const REACTION_TRIES = 7;

/** Whether the surface has shown a message. */
export type ShowResult = 'shown' | 'later' | 'failed';

interface Outgoing {
  mailbox: AgentName;
  message: Message;
  isOwed: boolean;
}

/**
 * Shows what agents say to the people and channels of one surface. A message is waiting → held under the surface's name → shown and
 * settled, or failed for good. A failure that may pass is tried again with the same id, key and text, so a surface that has shown the
 * message shows nothing new. If the surface disconnects, the message waits again. If the host is killed, the message stays held, and the
 * next connection of the surface releases it first. Messages of one conversation are shown in order; but a reaction holds later messages
 * back only until its first attempt failed, and for at most `REACTION_MS`.
 */
export class SurfaceOutbox {
  readonly #rounds: RepeatingTask;
  readonly #alarm: Alarm;
  readonly #conversations = new Map<string, Promise<void>>();
  readonly #open = new Set<Promise<void>>();
  readonly #seen = new Map<AgentName, number>();
  readonly #waiters = new Map<MessageId, ((shown: ShowResult) => void)[]>();
  readonly #ephemeral = new Set<MessageId>();
  #hasReleased = false;
  #isOver = false;
  #stop: () => void = () => {};
  readonly #stopped: Promise<void>;

  constructor(
    readonly context: HostContext,
    readonly wire: HostPeer,
    readonly origin: ChatOrigin,
  ) {
    this.#rounds = new RepeatingTask(context.tasks, 'show', () => this.#round());
    this.#alarm = new Alarm(context.deps, () => this.ring());
    this.#stopped = new Promise((resolve) => (this.#stop = resolve));
  }

  ring(): void {
    if (!this.#isOver) this.#rounds.ask();
  }

  /** Resolves when every held message was settled or released. */
  async close(): Promise<void> {
    this.#isOver = true;
    this.#alarm.close();
    this.#stop();
    for (const id of this.#waiters.keys()) this.#tell(id, 'later');
    await Promise.allSettled(this.#open);
  }

  /** The platform shows this message only temporarily. */
  markEphemeral(id: MessageId): void {
    if (this.#ephemeral.size > 1000) this.#ephemeral.clear();
    this.#ephemeral.add(id);
  }

  /** The result of the first attempt. `later`: it may still be shown, or there is no result after `ms`. */
  async outcome(id: MessageId, ms: number): Promise<ShowResult> {
    const told = Promise.withResolvers<ShowResult>();
    this.#waiters.set(id, [...(this.#waiters.get(id) ?? []), told.resolve]);
    const timer = this.context.deps.after(ms, () => told.resolve('later'));
    this.ring();
    const shown = await told.promise;
    timer.cancel();
    return shown;
  }

  async #round(): Promise<void> {
    try {
      // A workspace may have thousands of people; few of them have mail at one time.
      const { journal, directory } = this.context.deps.home;
      const mailboxes = await journal.mailboxesWithMail(`${this.origin.name}.`);
      if (!this.#hasReleased) for (const mailbox of mailboxes) await this.#release(mailbox);
      this.#hasReleased = true;
      for (const mailbox of mailboxes) await this.#look(mailbox);
      // Other processes read this to see whether the surface is still connected.
      await directory.seen(bridgeName(this.origin.name));
    } finally {
      if (!this.#isOver) this.#alarm.at(this.context.deps.now() + LOOK_MS);
    }
  }

  /** Releases the messages that a killed host held. Whether they were shown is unknown here; the surface knows their keys. */
  async #release(mailbox: AgentName): Promise<void> {
    const { journal, mailboxes } = this.context.deps.home;
    const held = (await journal.heldBy(mailbox, this.#owner)).map(({ id }) => id);
    const because = 'the host was started again';
    if (held.length > 0) await mailboxes.release({ mailbox, owner: this.#owner }, held, { because });
  }

  async #look(mailbox: AgentName): Promise<void> {
    const { journal } = this.context.deps.home;
    for (;;) {
      const page = await journal.waitingCopies(mailbox, this.#seen.get(mailbox) ?? 0, PAGE);
      for (const { seq, text, attention } of page) {
        if (this.#isOver || this.#open.size >= MOST_OUT) return;
        this.#seen.set(mailbox, seq);
        const message = readMessage(JSON.parse(text));
        if (message) await this.#enqueue({ mailbox, message, isOwed: attention.policy === 'must_respond' });
      }
      if (page.length < PAGE) return;
    }
  }

  /** Queues a message, unless its platform shows it already: one that was written there, or a second copy of a channel message. */
  async #enqueue(outgoing: Outgoing): Promise<void> {
    const { message, mailbox } = outgoing;
    const isChannel = message.to.startsWith('#');
    const isElsewhere = isChannel && mailbox !== bridgeName(this.origin.name);
    if (message.from.startsWith(`${this.origin.name}.`) || isElsewhere)
      return this.#end(outgoing, { because: 'it is shown there' });
    const params = await showOf(this.context, this.origin, mailbox, message);
    if (this.#ephemeral.delete(message.id)) params.visibility = 'ephemeral';
    const place = params.conversation.id;
    const before = (this.#conversations.get(place) ?? Promise.resolve()).catch(() => {});
    const tried = Promise.withResolvers<void>();
    const done = before
      .then(() => this.#show(outgoing, params, tried.resolve))
      .finally(() => this.#left(place, done, turn));
    const isReaction = params.what === 'reaction';
    const ended = done.catch(() => {});
    const turn = isReaction ? before.then(() => Promise.race([tried.promise, ended, this.#pause(REACTION_MS)])) : done;
    this.#conversations.set(place, turn);
    this.#open.add(done);
    this.context.tasks.run('show', () => done);
  }

  #left(place: string, done: Promise<void>, turn: Promise<void>): void {
    this.#open.delete(done);
    if (this.#conversations.get(place) === turn) this.#conversations.delete(place);
    // One place is free again.
    this.ring();
  }

  async #show(outgoing: Outgoing, params: SurfaceShow, onTried: () => void): Promise<void> {
    const { mailbox, message } = outgoing;
    const isLast = (tried: number): boolean => params.what === 'reaction' && tried + 1 >= REACTION_TRIES;
    const { mailboxes } = this.context.deps.home;
    if (this.#isOver || !(await this.#take(outgoing))) return this.#tell(message.id, 'later');
    for (let tried = 0; !this.#isOver; tried += 1) {
      try {
        await Promise.race([this.wire.show(params), this.#stopped.then(() => Promise.reject(new Error('the end')))]);
        await recordStep(this.context, mailbox, message.id, 'shown', { surface: this.origin.name });
        await this.#endAnswered(message);
        await this.#settle(outgoing, outgoing.isOwed ? 'acknowledged' : 'ignored', {});
        return this.#tell(message.id, 'shown');
      } catch (error) {
        if (isPermanent(error) || isLast(tried)) return this.#failed(outgoing, error);
        onTried();
        this.context.deps.log('host.not_shown', { surface: this.origin.name, tried, ...failureFacts(error) });
        this.#tell(message.id, 'later');
        await this.#pause(retryAfter(error) ?? Math.min(FIRST_WAIT_MS * 2 ** tried, LONGEST_WAIT_MS));
      }
    }
    this.#seen.delete(mailbox);
    await mailboxes.release({ mailbox, owner: this.#owner }, [message.id], { because: 'the surface went away' });
  }

  /** Settles a message that can never be shown as failed. Its sender sees that and may send it in another way. */
  async #failed(outgoing: Outgoing, error: unknown): Promise<void> {
    const reason = error instanceof Error ? error.message.replace(/\p{Cc}+/gu, ' ').slice(0, 200) : 'refused';
    await this.#endAnswered(outgoing.message, reason);
    await this.#settle(outgoing, 'failed', { reason });
    this.#tell(outgoing.message.id, 'failed');
  }

  async #endAnswered(said: Message, refused?: string): Promise<void> {
    const { home, now } = this.context.deps;
    const outcome = { surface: this.origin.name, ...(refused !== undefined && { refused }) };
    await endAnswered(home, said, outcome, now());
  }

  async #end(outgoing: Outgoing, by: Record<string, string>): Promise<void> {
    if (await this.#take(outgoing)) await this.#settle(outgoing, outgoing.isOwed ? 'acknowledged' : 'ignored', by);
  }

  async #take({ mailbox, message }: Outgoing): Promise<boolean> {
    const lease = { ms: HOLD_MS, bearer: `surface-${this.origin.name}` };
    const claim = await this.context.deps.home.mailboxes.claim(
      mailbox,
      [message.id],
      lease,
      new Map([[message.id, message]]),
    );
    return claim.copies.length > 0;
  }

  async #settle({ mailbox, message }: Outgoing, disposition: Disposition, by: Record<string, string>): Promise<void> {
    const evidence = { way: 'surface', surface: this.origin.name, ...by };
    const claim = { mailbox, owner: this.#owner };
    await this.context.deps.home.mailboxes.settle(claim, [message.id], { disposition, by: evidence });
  }

  get #owner(): string {
    return `bearer.surface-${this.origin.name}`;
  }

  async #pause(ms: number): Promise<void> {
    const over = Promise.withResolvers<void>();
    const timer = this.context.deps.after(ms, over.resolve);
    await Promise.race([over.promise, this.#stopped]);
    timer.cancel();
  }

  #tell(id: MessageId, shown: ShowResult): void {
    for (const tell of this.#waiters.get(id) ?? []) tell(shown);
    this.#waiters.delete(id);
  }
}

/** A message as a surface shows it: a DM, a post, a reply in a thread, a reaction, or an edit. spec: host#show */
export async function showOf(
  context: HostContext,
  origin: ChatOrigin,
  mailbox: AgentName,
  message: Message,
): Promise<SurfaceShow> {
  const { name } = origin;
  const { signal, eta, replaces, aim } = message.parley ?? {};
  const { kind, displayName } = await context.people.person(message.from);
  const about = signal === undefined ? null : await context.deps.home.journal.message(message.thread as MessageId);
  const place = about ?? message;
  const isChannel = place.to.startsWith('#');
  const isThread = signal === undefined && message.thread !== undefined;
  // An ambient message mentions nobody.
  const called = aim === 'ambient' ? [] : await context.people.called(message);
  return {
    what: signal !== undefined ? 'reaction' : replaces !== undefined ? 'edit' : 'message',
    id: message.id,
    idempotencyKey: `${message.id}:${name}`,
    conversation: {
      id: isChannel ? rawConversation(origin, place.to) : await dmOf(context, origin, mailbox, message),
      kind: isChannel ? (isThread ? 'thread' : 'channel') : 'dm',
      ...(isThread && { threadId: rawMessage(name, rootOf(message)) }),
    },
    author: { id: message.from, kind, displayName },
    visibility: isThread && isChannel ? 'thread' : isChannel ? 'channel' : 'dm',
    ...(!isChannel && { recipient: rawPerson(name, mailbox) }),
    mentions: called.flatMap((one) => {
      const [, person = ''] = /^(?:human|agent):(.*)$/.exec(one) ?? [];
      return person.startsWith(`${name}.`) ? [rawPerson(name, person)] : [];
    }),
    ...(signal === undefined && { text: message.body }),
    ...(message.refs && { refs: message.refs }),
    ...(signal !== undefined && { signal, target: rawMessage(name, message.thread ?? '') }),
    ...(eta !== undefined && { eta }),
    ...(replaces !== undefined && { target: rawMessage(name, replaces) }),
  };
}

/** The platform's id of the DM for a message: that of the message it answers, else that in which the person last wrote to its author. */
async function dmOf(
  { deps }: HostContext,
  { name }: ChatOrigin,
  mailbox: AgentName,
  { from, thread }: Message,
): Promise<string> {
  const about = isMessageId(thread) ? await deps.home.journal.message(thread) : null;
  const written = about?.from.startsWith(`${name}.`) ? about.parley?.conversation : undefined;
  return written ?? (await deps.home.directory.get(mailbox))?.parley?.dms?.[from] ?? rawPerson(name, mailbox);
}

/** What a surface did with a message: it has shown it, or `refused` says why it never will. */
export interface Outcome {
  surface: AgentName;
  refused?: string;
}

/**
 * Ends the event that an answer replies to, once the answer was shown or refused. This happens before the answer itself is settled, so
 * after a crash in between both steps run again, which changes nothing.
 */
export async function endAnswered(home: Home, said: Message, outcome: Outcome, now: number): Promise<void> {
  const { surface, refused } = outcome;
  const id = said.thread;
  if (!isMessageId(id) || said.parley?.signal !== undefined) return;
  const event = await home.journal.message(id);
  const who = { name: said.from as AgentName, home };
  const copy = await home.journal.copy(who.name, id);
  // The asker is not at this surface but reads mail: the event ended when the answer was stored.
  if (!copy || !event?.from.startsWith(`${surface}.`)) return;
  const as = refused === undefined ? replyOutcome(copy.attention.policy) : 'failed';
  const by = { reply: said.id, ...(refused !== undefined && { surface, reason: refused }) };
  const obligation = await endObligation(home, who.name, id, as, by, now);
  if (obligation?.kind !== 'obligation') await settleIfOpen(who, id, as, by);
}
