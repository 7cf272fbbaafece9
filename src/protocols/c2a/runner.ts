import { receipt } from '../../core/receipt.ts';
import type { Obligation } from '../../core/obligations/rules.ts';
import type { MessageId } from '../../core/names.ts';
import type { Watch } from '../../core/ports/mailboxes.ts';
import { quieter } from '../../core/attention/decide.ts';
import { rootOf } from '../../core/mail/conversation.ts';
import type { Who } from '../../core/mail/workspace.ts';
import { Alarm, RepeatingTask } from './tasks.ts';
import { DeliveryQueue } from './delivery-queue.ts';
import { Digests } from './digest.ts';
import type { HostContext } from './context.ts';
import { aGroup, isUnseen, keyOf, placeOf } from './item.ts';
import type { Item } from './item.ts';
import { MailScan } from './mail-scan.ts';
import { attemptsOf } from './restore.ts';
import type { Link, HostSession } from './session.ts';
import { Injection, isQuiet } from '../../core/attention/attention.ts';
import type { Quieter } from './shapes.ts';
import { Refusal } from '../../core/refusal.ts';
import type { CopyRecord } from '../../core/ports/journal.ts';
import { unknownEvent } from '../../core/history/sight.ts';

/** How often a connected session looks for mail even if nothing rings. */
const LOOK_MS = 5000;
/** How many messages of an exchange are searched for the number of one. */
const EXCHANGE = 200;

/** Runs one session: finds its mail, waits until it may be sent, and hands it to the delivery queue. */
export class Runner {
  readonly deliveries: DeliveryQueue;
  readonly look: MailScan;
  readonly digests: Digests;
  readonly #rounds: RepeatingTask;
  readonly #alarm: Alarm;
  #watches: Watch[] = [];
  #rung = true;

  constructor(
    readonly context: HostContext,
    readonly session: HostSession,
  ) {
    this.#rounds = new RepeatingTask(context.tasks, 'session', () => this.#round());
    this.#alarm = new Alarm(context.deps, () => this.ask());
    this.deliveries = new DeliveryQueue(context, session, () => this.ask());
    this.digests = new Digests(context, session);
    this.look = new MailScan(context, session, (who, id, by) => this.supersede(who, id, { replaced: by }));
  }

  /** Starts a round soon, because something may have changed. */
  ask(): void {
    if (this.session.link) this.#rounds.ask();
  }

  /** Mail arrived. */
  ring(): void {
    this.#rung = true;
    this.ask();
  }

  attach(link: Link): void {
    this.detach();
    this.session.link = link;
    this.session.digestAt = Math.max(this.session.digestAt, this.context.deps.now());
    this.look.again();
    this.#watches = this.session.whos.map(({ name, home }) => home.mailboxes.watch(name, () => this.ring()));
    this.ring();
  }

  /** The connection is gone. The session stays and keeps its held copies. */
  detach(): void {
    for (const watch of this.#watches) watch.close();
    this.#watches = [];
    this.session.link = null;
    this.session.turn = null;
    this.deliveries.hangUp();
    this.context.tasks.run('hang up', () => this.digests.hangUp());
  }

  close(): void {
    this.detach();
    this.#alarm.close();
  }

  /** Sends a digest, because no turn runs or it is at a boundary. */
  offerDigest(): void {
    this.context.tasks.run('digest', () => this.digests.offer());
  }

  /** A boundary was reached, or the turn is over: every ripe group may be sent. */
  clear(): void {
    for (const group of this.session.queue.ripe()) group.cleared = true;
    this.offerDigest();
    this.ask();
  }

  /** Ends an event that was edited or deleted before it was answered. */
  async supersede(who: Who, id: MessageId, by: { replaced: MessageId } | { withdrawn: true }): Promise<void> {
    const reason = 'replaced' in by ? 'Message was edited before response' : 'Message was deleted before response';
    const known = { who, message: { id } as Item['message'] };
    this.session.queue.drop(who.name, id);
    const item = this.deliveries.callOff(known) ?? this.session.open.get(keyOf(known));
    if (!item) return;
    await this.session.end(item, 'superseded', by);
    await this.session.cancel(item, reason);
    this.ask();
  }

  /** Removes an event from the queue, from deliveries under way and from the open events. */
  forget(who: Who, id: MessageId): void {
    const known = { who, message: { id } as Item['message'] };
    this.session.queue.drop(who.name, id);
    this.deliveries.callOff(known);
    this.session.open.delete(keyOf(known));
    this.look.again();
  }

  /** Sends an event again, as a knock, because its answer is still owed. False if this session cannot show it. */
  async redeliver(who: Who, obligation: Obligation): Promise<boolean> {
    const { link, queue } = this.session;
    if (!link) return false;
    const mode = quieter('notify', link.capabilities.injection);
    if (isUnseen({ mode })) return false;
    const message = await who.home.journal.message(obligation.id);
    const copy = await who.home.journal.copy(who.name, obligation.id);
    if (!message || !copy) return false;
    // The event is queued or under way: that counts as a return.
    if (queue.has({ who, message })) return true;
    const known = this.session.open.get(keyOf({ who, message }));
    if (copy.state === 'stored' || (copy.state === 'held' && !known)) return false;
    const item = known ?? (await this.#unheld(who, message, copy));
    queue.putBack(aGroup({ ...item, mode }, { returns: Math.max(1, obligation.returns) }));
    this.ask();
    return true;
  }

  /** Sends an event in full after its reader has claimed it on a knock. */
  reveal(who: Who, id: MessageId): void {
    const item = this.session.open.get(keyOf({ who, message: { id } as Item['message'] }));
    const mode = quieter('buffered', this.session.link?.capabilities.injection ?? {});
    if (!item || item.mode !== 'notify' || mode !== 'buffered') return;
    const attention = { ...item.attention, injection: mode };
    this.session.open.delete(keyOf(item));
    this.session.queue.putBack(aGroup({ ...item, mode, attention }));
    this.ask();
  }

  /** An item for a copy that another reader settled without an answer, so that it can be knocked for. */
  async #unheld(who: Who, message: Item['message'], copy: Pick<Item, 'attention'>): Promise<Item> {
    const attempts = await attemptsOf({ who, message });
    const author = await this.context.people.person(message.from);
    const conversation = placeOf(message, who);
    const rows = await who.home.journal.history({ thread: rootOf(message), limit: EXCHANGE });
    return {
      who,
      message,
      attention: copy.attention,
      author,
      conversation,
      attempts,
      seq: rows.find((row) => row.message.id === message.id)?.seq ?? 0,
      mode: 'notify',
      held: true,
    };
  }

  async #round(): Promise<void> {
    const rung = this.#rung;
    this.#rung = false;
    if (!this.session.link) return;
    try {
      await this.look.look(rung);
      this.#letUrgentPass();
      await this.deliveries.sendDue();
      if (!this.session.turn) await this.digests.offer();
    } finally {
      this.#setAlarm();
    }
  }

  /** Clears the groups ahead of an urgent one, so that the order stays. */
  #letUrgentPass(): void {
    if (!this.session.turn) return;
    for (const { group, ahead } of this.session.queue.waiting()) {
      if (this.session.mayInterrupt(group)) for (const one of ahead) one.cleared = true;
    }
  }

  #setAlarm(): void {
    const { queue } = this.session;
    const waiting = this.session.turn ? queue.waiting() : [];
    const patience = waiting.flatMap(({ group }) => this.session.patienceEnds(group) ?? []);
    const now = this.context.deps.now();
    const times = [queue.nextAt() ?? Infinity, ...patience, this.look.nextAt, this.digests.nextAt, now + LOOK_MS];
    this.#alarm.at(Math.min(...times.filter((time) => time > now)));
  }
}

/** The modes, the loudest first. */
const MODES = Injection.inner.options;

/**
 * Gives a harness an event in a quieter mode than the host chose, or not at all, and records the reason. The obligation and the policy do
 * not change. No peer can ask for a louder mode. spec: host#quieter
 */
export async function askQuieter(runner: Runner, { eventId, mode, reason }: Quieter): Promise<{ mode: Injection }> {
  const { session } = runner;
  const { who, copy } = await openCopy(runner, eventId);
  const { injection } = copy.attention;
  if (MODES.indexOf(mode) < MODES.indexOf(injection)) {
    throw new Refusal('against_policy', `the host chose ${injection} for this event; ask for that or a quieter mode`);
  }
  if (mode === injection) return { mode };
  const attention = { ...copy.attention, injection: mode };
  await who.home.journal.reconsider(who.name, eventId, attention);
  const evidence = { way: 'host', session: session.id, was: injection, injection: mode, because: reason };
  await who.home.journal.record(who.name, eventId, receipt('reconsidered', session.context.deps.now(), evidence));
  runner.forget(who, eventId);
  await who.home.mailboxes.release({ mailbox: who.name, owner: session.owner }, [eventId], { because: reason });
  if (isQuiet(attention)) await who.home.mailboxes.lower(who.name, eventId);
  runner.ring();
  return { mode };
}

/** The copy that this session holds or that waits for it. Refuses any other as unknown. */
async function openCopy({ session }: Runner, id: CopyRecord['id']): Promise<{ who: Who; copy: CopyRecord }> {
  for (const who of session.whos) {
    const copy = await who.home.journal.copy(who.name, id);
    if (copy && (copy.state === 'stored' || copy.owner === session.owner)) return { who, copy };
  }
  throw unknownEvent(id);
}
