import type { Capabilities, Progress, ProtocolVersion } from './shapes.ts';
import type { MessageId } from '../../core/names.ts';
import type { Disposition, Evidence } from '../../core/receipt.ts';
import type { SessionRecord } from '../../core/ports/obligations.ts';
import type { Who } from '../../core/mail/workspace.ts';
import { HOLD_MS, recordStep } from './context.ts';
import type { HostContext, HostPeer } from './context.ts';
import { isUrgent, keyOf, lastOf } from './item.ts';
import type { Group, Item } from './item.ts';
import { SessionQueue } from './queue.ts';
import { Rate } from './tasks.ts';

/** How long something urgent waits for a boundary before it interrupts. */
const INTERRUPT_AFTER_MS = 30_000;

/** A harness on the other side, and what it can do. */
export interface Link {
  wire: HostPeer;
  capabilities: Capabilities;
  version: ProtocolVersion;
  wantsAll: boolean;
}

/** The running turn of a model. `said`: the events to which it has replied in this turn. */
export interface TurnState {
  since: number;
  events: Set<MessageId>;
  said: Set<MessageId>;
}

/**
 * One session of a harness. A copy for it is
 *
 * - *waiting*: queued, but still in its mailbox. It can be withdrawn, edited, or taken by another reader.
 * - *held*: claimed under the session's name just before it is sent, and not accepted yet. A crash of the host leaves it held: the next
 *   host finds it under that name, and offers it again when the session continues.
 * - *open*: accepted, and not ended. A copy that must not be answered ends at once; one that may be answered ends in silence at its
 *   deadline; one that must be answered stays open until it is ended, however long that takes.
 *
 * Without a connection no claim is renewed: after `HOLD_MS` the held copies wait again, for any reader.
 */
export class HostSession {
  readonly queue: SessionQueue;
  /** The limit on messages that it sends. */
  readonly sends: Rate;
  /** Copies that were accepted and not ended. */
  readonly open = new Map<string, Item>();
  readonly progress = new Map<string, Progress & { at: number }>();
  link: Link | null = null;
  turn: TurnState | null = null;
  /** Whether the model still needs the standing rules, or they are under way or shown. */
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

  /** May this group be sent now? While a turn runs, only at a boundary or if it may interrupt. spec: host#turns */
  mayGo(group: Group): boolean {
    if (!this.turn || group.cleared) return true;
    if (!this.mayInterrupt(group)) return false;
    group.interrupt = true;
    return true;
  }

  /** When an urgent group has waited long enough to interrupt, or null. A return was shown before, so it waits for a boundary. */
  patienceEnds(group: Group): number | null {
    if (!this.turn || group.returns > 0 || !isUrgent(group) || !this.link?.capabilities.injection.interrupt)
      return null;
    return Math.max(this.turn.since, Date.parse(lastOf(group).message.ts)) + INTERRUPT_AFTER_MS;
  }

  mayInterrupt(group: Group): boolean {
    const ends = this.patienceEnds(group);
    if (ends === null) return false;
    const { kind, isLead } = lastOf(group).author;
    return kind === 'human' || isLead || this.context.deps.now() >= ends;
  }

  /** Settles a held copy. False if this session no longer holds it. */
  async end(item: Item, disposition: Disposition, by: Evidence): Promise<boolean> {
    this.open.delete(keyOf(item));
    const { name, home } = item.who;
    const evidence = { way: 'host', session: this.id, ...by };
    const claim = { mailbox: name, owner: this.owner };
    return home.mailboxes.settle(claim, [item.message.id], { disposition, by: evidence }, 'shown');
  }

  /** Forgets an open event if this session no longer holds it. */
  async recheck(who: Who, id: MessageId): Promise<void> {
    const copy = await who.home.journal.copy(who.name, id);
    if (copy?.owner !== this.owner) this.open.delete(`${id}:${who.name}`);
  }

  /** Tells the harness that an event is over, if the harness takes cancellations, and records that. */
  async cancel(item: Item, reason: string): Promise<void> {
    if (this.link?.capabilities.utilities.cancellation) this.link.wire.cancel(item.message.id, reason);
    await recordStep(this.context, item.who.name, item.message.id, 'cancelled', { session: this.id, reason });
  }

  /** Renews the claims of all held copies from now. */
  async renew(): Promise<void> {
    for (const { name, home } of this.whos) {
      await home.mailboxes.renew({ mailbox: name, owner: this.owner }, { ms: HOLD_MS });
    }
  }
}
