import type { Capabilities, Progress, ProtocolVersion } from './shapes.ts';
import type { MessageId } from '../../core/names.ts';
import type { Disposition, Evidence } from '../../core/receipt.ts';
import type { SessionRecord } from '../../core/ports/obligations.ts';
import type { Who } from '../../core/mail/workspace.ts';
import { HOLD_MS, noted } from './context.ts';
import type { HostContext, HostPeer } from './context.ts';
import { isUrgent, keyOf, lastOf } from './item.ts';
import type { Group, Item } from './item.ts';
import { SessionQueue } from './queue.ts';
import { Rate } from './tasks.ts';

/** How long something urgent waits for a boundary before it interrupts. */
const PATIENCE_MS = 30_000;

/** A harness on the other side, and what it can do. */
export interface Link {
  wire: HostPeer;
  capabilities: Capabilities;
  version: ProtocolVersion;
  wantsAll: boolean;
}

/** What a model is doing. `said`: the events for which it has said something in this turn. */
export interface TurnState {
  since: number;
  events: Set<MessageId>;
  said: Set<MessageId>;
}

/**
 * One work context of a harness. A copy on its way to it is
 *
 * - *waiting*: in the queue, and still where it waits for everybody. It can be withdrawn, edited, or taken by another reader.
 * - *held*: claimed under the session's name just before it goes out; it is out until it is accepted. A crash of the host leaves it
 *   held: it is found again under that name, and offered again when the session comes back.
 * - *open*: accepted, and still without an end. What must not be answered ends there at once; what may be ends in silence at its
 *   deadline; what must be answered stays until it has its end, however long that takes.
 *
 * Without a connection nothing is renewed: after a while what is held waits again, for anyone who comes.
 */
export class HostSession {
  readonly queue: SessionQueue;
  /** How much it may say at once. */
  readonly sends: Rate;
  /** Accepted, and not ended. */
  readonly open = new Map<string, Item>();
  readonly progress = new Map<string, Progress & { at: number }>();
  link: Link | null = null;
  turn: TurnState | null = null;
  /** The standing rules: to be shown, on their way, or shown. */
  rules: 'needed' | 'sending' | 'shown' = 'needed';
  digestAt = -Infinity;

  constructor(
    readonly context: HostContext,
    public record: SessionRecord,
    public whos: readonly Who[],
  ) {
    const { sendsPerSecond: perSecond, sendsAtOnce: atOnce } = context.limits;
    this.sends = new Rate(context.deps, { perSecond, atOnce, waiting: 0 });
    const { now, composeMs } = context.deps;
    this.queue = new SessionQueue({ now, composeMs, typingSince: (item) => context.typingSince(item) });
  }

  get id(): string {
    return this.record.id;
  }

  /** The name under which it holds copies. */
  get holder(): string {
    return `session-${this.record.id}`;
  }

  get owner(): string {
    return `bearer.${this.holder}`;
  }

  get inHand(): number {
    return this.queue.size + this.open.size;
  }

  /** May this go out now? Into a running turn only at a boundary, or where it may interrupt. spec: host#turns */
  mayGo(group: Group): boolean {
    if (!this.turn || group.cleared) return true;
    if (!this.mayInterrupt(group)) return false;
    group.interrupt = true;
    return true;
  }

  /** When something urgent will have waited long enough, or null. What comes back was there before: it waits for a boundary. */
  patienceEnds(group: Group): number | null {
    if (!this.turn || group.returns > 0 || !isUrgent(group) || !this.link?.capabilities.injection.interrupt)
      return null;
    return Math.max(this.turn.since, Date.parse(lastOf(group).message.ts)) + PATIENCE_MS;
  }

  mayInterrupt(group: Group): boolean {
    const ends = this.patienceEnds(group);
    if (ends === null) return false;
    const { kind, isLead } = lastOf(group).author;
    return kind === 'human' || isLead || this.context.deps.now() >= ends;
  }

  /** Gives a held copy its end. False if it is no longer held by this session. */
  async end(item: Item, disposition: Disposition, by: Evidence): Promise<boolean> {
    this.open.delete(keyOf(item));
    const { name, home } = item.who;
    const evidence = { way: 'host', session: this.id, ...by };
    const claim = { mailbox: name, owner: this.owner };
    return home.mailboxes.settle(claim, [item.message.id], { disposition, by: evidence }, 'shown');
  }

  /** Somebody did something about an event: is it still held by this session? */
  async recheck(who: Who, id: MessageId): Promise<void> {
    const copy = await who.home.journal.copy(who.name, id);
    if (copy?.owner !== this.owner) this.open.delete(`${id}:${who.name}`);
  }

  /** Tells the harness that an event is over, where it wants to hear that. */
  async cancel(item: Item, reason: string): Promise<void> {
    if (this.link?.capabilities.utilities.cancellation) this.link.wire.cancel(item.message.id, reason);
    await noted(this.context, item.who.name, item.message.id, 'cancelled', { session: this.id, reason });
  }

  /** Keeps what it holds, from now. */
  async renew(): Promise<void> {
    for (const { name, home } of this.whos) {
      await home.mailboxes.renew({ mailbox: name, owner: this.owner }, { ms: HOLD_MS });
    }
  }
}
