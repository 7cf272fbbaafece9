import { quieter } from '../../core/attention/decide.ts';
import type { ChatDeliver } from './shapes.ts';
import { endObligation } from '../../core/obligations/obligation.ts';
import { HOLD_MS, recordStep } from './context.ts';
import type { Timer, HostContext } from './context.ts';
import { frameOf, windowOf } from './frames.ts';
import type { Framing } from './frames.ts';
import { isUnseen, keyOf, lastOf } from './item.ts';
import type { Group, Item } from './item.ts';
import { asksForStatus, linesOf } from './digest.ts';
import { attemptsOf } from './restore.ts';
import type { HostSession } from './session.ts';
import { endDuplicates } from './mail-scan.ts';

/** How long to wait for an answer before sending again. The time doubles with each attempt, up to a minute. */
const FIRST_WAIT_MS = 10_000;
const LONGEST_WAIT_MS = 60_000;
const KNOCKS_WAIT_MS = 1000;

/** One group that was sent and has no answer yet. */
interface Delivery {
  params: ChatDeliver;
  timer: Timer | null;
  /** The answer has arrived and is being recorded. */
  isAccepting: boolean;
  over: PromiseWithResolvers<void>;
}

/** Carries a session's groups to its harness: claims them, sends them, and sends them again until they are accepted. */
export class DeliveryQueue {
  readonly #out = new Map<Group, Delivery>();

  constructor(
    readonly context: HostContext,
    readonly session: HostSession,
    /** Called when a group was accepted: the next may be sent. */
    readonly onAccepted: () => void,
  ) {}

  /** Sends every group that may go now. Knocks go together, or with the next event, so that several interrupt the model only once. */
  async sendDue(): Promise<void> {
    const { queue } = this.session;
    let knocks = queue.knocks();
    for (const group of queue.due()) {
      if (!this.session.link) return;
      // An earlier group of this round may have carried this one.
      if (!queue.isDue(group) || !this.session.mayGo(group)) continue;
      if (isUnseen(group) || group.mode === 'immediate') await this.#send([group]);
      else {
        const beside = knocks.filter((one) => one !== group && queue.isHead(one) && this.session.mayGo(one));
        knocks = knocks.filter((one) => !beside.includes(one));
        await this.#send([...beside, group]);
      }
    }
  }

  /** The last group carries the prompt for all of them, and is sent when the others are accepted. */
  async #send(groups: Group[]): Promise<void> {
    for (const group of groups) this.session.queue.leave(group);
    try {
      const taken: Group[] = [];
      for (const group of groups) {
        if (await this.#take(group)) taken.push(group);
        else this.session.queue.done(group);
      }
      await this.#sendTaken(taken);
    } catch (error) {
      // Claimed copies stay claimed; all groups are sent again in the next round.
      for (const group of groups) if (this.session.queue.isOut(group)) this.#giveBack(group);
      throw error;
    }
  }

  async #sendTaken(taken: Group[]): Promise<void> {
    const carrier = taken.at(-1);
    if (!carrier) return;
    if (!this.session.link) return taken.forEach((group) => this.#giveBack(group));
    const frames = new Map<Group, ChatDeliver>();
    for (const group of taken) frames.set(group, await frameOf(group, this.#framing()));
    const prompt = isUnseen(carrier) ? undefined : await this.#prompt(taken, frames);
    this.context.tasks.run('deliver', async () => {
      await this.#shipAhead(taken.slice(0, -1), frames);
      const frame = frames.get(carrier);
      await this.#ship(carrier, frame && { ...frame, ...(prompt !== undefined && { prompt }) });
    });
  }

  /** Sends these first and waits until they are accepted, but at most `KNOCKS_WAIT_MS`: a full message must not wait for a knock. */
  async #shipAhead(groups: Group[], frames: ReadonlyMap<Group, ChatDeliver>): Promise<void> {
    if (groups.length === 0) return;
    const enough = Promise.withResolvers<void>();
    const timer = this.context.deps.after(KNOCKS_WAIT_MS, enough.resolve);
    const shipped = groups.map((group) => this.#ship(group, frames.get(group)));
    for (const one of shipped) this.context.tasks.run('knock', () => one);
    await Promise.race([Promise.allSettled(shipped), enough.promise]);
    timer.cancel();
  }

  /** Claims the items that are not held yet. Drops those that were withdrawn, taken by another reader or made quiet meanwhile. */
  async #take(group: Group): Promise<boolean> {
    const fresh = group.items.filter(({ held }) => !held);
    const [first] = fresh;
    if (!first) return group.items.length > 0;
    const { name, home } = first.who;
    const read = new Map(fresh.map(({ message }) => [message.id, message]));
    const lease = { ms: HOLD_MS, bearer: this.session.holder };
    const claim = await home.mailboxes.claim(name, [...read.keys()], lease, read);
    const won = new Map(claim.copies.map((copy) => [copy.message.id, copy]));
    const kept: Item[] = [];
    for (const item of group.items) {
      const copy = won.get(item.message.id);
      if (item.held) kept.push(item);
      if (item.held || !copy) continue;
      const mode = this.#modeOf(copy.attention.injection);
      if (mode === null) {
        await home.mailboxes.release({ mailbox: name, owner: this.session.owner }, [item.message.id], {
          because: 'quiet',
        });
        continue;
      }
      const attempts = copy.attempt > 0 ? await attemptsOf(item) : 0;
      kept.push({ ...item, held: true, attention: copy.attention, mode, attempts });
    }
    group.items = kept;
    const [only] = kept;
    if (kept.length === 1 && only && group.returns === 0) group.mode = only.mode;
    return kept.length > 0;
  }

  /** The mode in which this session gets an event, or null if the event only waits. */
  #modeOf(injection: Item['attention']['injection']): Item['mode'] | null {
    const mode = quieter(injection, this.session.link?.capabilities.injection ?? {});
    return isUnseen({ mode }) && !this.session.link?.wantsAll ? null : mode;
  }

  async #prompt(groups: Group[], frames: ReadonlyMap<Group, ChatDeliver>): Promise<string> {
    const { render } = this.context.deps;
    const texts: string[] = [];
    if (this.session.rules === 'needed') {
      texts.push(render.rules());
      this.session.rules = 'sending';
    }
    for (const group of groups) {
      const frame = frames.get(group);
      if (frame?.knock) texts.push(render.knock(frame.eventId, frame.knock));
      else if (frame && !isUnseen(group)) {
        const asked = group.items.some(({ message }) => asksForStatus(message.body));
        const progress = asked
          ? [...linesOf(this.session, 0), ...(await this.context.progressAround(this.session, 0))]
          : [];
        texts.push(render.event(frame, await windowOf(group, this.#framing()), progress));
      }
    }
    return texts.join('\n\n');
  }

  /** Sends a group until it is accepted, given back or called off. */
  async #ship(group: Group, params: ChatDeliver | undefined): Promise<void> {
    if (!params) return;
    if (!this.session.link) return this.#giveBack(group);
    const delivery: Delivery = { params, timer: null, isAccepting: false, over: Promise.withResolvers() };
    this.#out.set(group, delivery);
    await this.#offer(group, delivery);
    await delivery.over.promise;
  }

  async #offer(group: Group, delivery: Delivery): Promise<void> {
    const { link } = this.session;
    if (!link || this.#out.get(group) !== delivery || delivery.isAccepting) return;
    const attempt = lastOf(group).attempts + 1;
    // Set the timer first: whatever fails below, the group is sent again.
    if (link.capabilities.delivery.ack && link.capabilities.delivery.redelivery) {
      const wait = Math.min(FIRST_WAIT_MS * 2 ** (attempt - 1), LONGEST_WAIT_MS);
      delivery.timer = this.context.deps.after(wait, () => this.#again(group, delivery));
    }
    for (const item of group.items) {
      item.attempts += 1;
      const into = item === lastOf(group) ? {} : { merged: lastOf(group).message.id };
      const returns = group.returns > 0 ? { returns: group.returns } : {};
      const { attempts: attempt, seq } = item;
      const evidence = { session: this.session.id, attempt, seq, mode: group.mode, ...into, ...returns };
      await recordStep(this.context, item.who.name, item.message.id, 'offered', evidence);
    }
    if (this.#out.get(group) !== delivery) return;
    const { reliability } = delivery.params;
    delivery.params = { ...delivery.params, reliability: { ...reliability, attempt } };
    // A refusal counts as no answer: the timer sends again. A late answer to an earlier attempt counts too.
    void link.wire.deliver(delivery.params).then(
      () => this.context.tasks.run('accept', () => this.#accepted(group, delivery)),
      () => {},
    );
  }

  #again(group: Group, delivery: Delivery): void {
    this.context.tasks.run('deliver again', () => this.#offer(group, delivery));
  }

  /** The harness has the event. That says nothing yet about its model. */
  async #accepted(group: Group, delivery: Delivery): Promise<void> {
    if (this.#out.get(group) !== delivery || delivery.isAccepting) return;
    delivery.isAccepting = true;
    try {
      await this.#recordAccepted(group);
    } finally {
      // If recording failed, the timer sends the group again, and it is accepted again.
      delivery.isAccepting = false;
    }
    if (delivery.params.prompt !== undefined && this.session.rules !== 'needed') this.session.rules = 'shown';
    // If the connection ended meanwhile, the group was put back already.
    if (!this.#forget(group, delivery))
      for (const { who, message } of group.items) this.session.queue.drop(who.name, message.id);
    this.session.queue.done(group);
    delivery.over.resolve();
    this.onAccepted();
  }

  async #recordAccepted(group: Group): Promise<void> {
    const event = lastOf(group);
    for (const item of group.items) {
      const evidence = { session: this.session.id, attempt: item.attempts };
      const step = group.mode === 'notify' ? 'knocked' : 'accepted';
      await recordStep(this.context, item.who.name, item.message.id, step, evidence);
      await endDuplicates(this.session, item);
      if (item !== event) await this.#mergedInto(event, item);
    }
    // An event that returns was accepted before: it is open, or another reader has ended it.
    if (group.returns === 0) await this.#openOrEnd(event);
    else if (this.session.open.has(keyOf(event))) this.session.open.set(keyOf(event), event);
  }

  /** Ends an event that must not be answered. Any other stays open. */
  async #openOrEnd(item: Item): Promise<void> {
    if (item.attention.policy === 'must_not_respond')
      await this.session.end(item, 'ignored', { because: 'no answer is wanted' });
    else this.session.open.set(keyOf(item), item);
  }

  /** Ends an item whose text was shown in the turn of a later event. */
  async #mergedInto(event: Item, item: Item): Promise<void> {
    const by = { merged: event.message.id };
    await endObligation(item.who.home, item.who.name, item.message.id, 'superseded', by, this.context.deps.now());
    await this.session.end(item, 'superseded', by);
  }

  /** The items that were sent and have no answer yet. */
  underWay(): Item[] {
    return [...this.#out.keys()].flatMap(({ items }) => items);
  }

  /** Removes one message from a group that was sent. The rest of the group stays under way. */
  callOff(item: Pick<Item, 'who' | 'message'>): Item | null {
    for (const [group, delivery] of this.#out) {
      const found = group.items.find((one) => keyOf(one) === keyOf(item));
      if (!found) continue;
      this.#forget(group, delivery);
      const rest = group.items.filter((one) => one !== found);
      this.session.queue.done(group);
      if (rest.length > 0) this.session.queue.putBack({ ...group, items: rest });
      delivery.over.resolve();
      return found;
    }
    return null;
  }

  /** The connection is gone: groups that were not accepted are sent again over the next one. */
  hangUp(): void {
    for (const [group, delivery] of this.#out) {
      this.#forget(group, delivery);
      this.#giveBack(group);
      delivery.over.resolve();
    }
    if (this.session.rules === 'sending') this.session.rules = 'needed';
  }

  #giveBack(group: Group): void {
    group.cleared = false;
    group.interrupt = false;
    this.session.queue.putBack(group);
  }

  /** False if the delivery had ended before. */
  #forget(group: Group, delivery: Delivery): boolean {
    if (this.#out.get(group) !== delivery) return false;
    delivery.timer?.cancel();
    return this.#out.delete(group);
  }

  #framing(): Framing {
    const { link, id, whos } = this.session;
    if (!link) throw new Error('a session that delivers has a link');
    const { people, deps } = this.context;
    return { sessionId: id, whos, capabilities: link.capabilities, version: link.version, people, now: deps.now() };
  }
}
