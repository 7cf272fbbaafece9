import { HOLD_MS } from './deps.ts';
import type { Timer } from './deps.ts';
import { DIGEST_MS, gather } from './digest.ts';
import type { Gathered } from './digest.ts';
import type { House } from './house.ts';
import { keyOf } from './item.ts';
import type { Item } from './item.ts';
import type { Session } from './session.ts';

const FIRST_WAIT_MS = 10_000;
const LONGEST_WAIT_MS = 60_000;

/** One that was sent and has no answer yet. */
interface Out {
  gathered: Gathered;
  timer: Timer | null;
}

/**
 * One digest at a time, at a boundary, at most every quarter of an hour. What it tells of is held meanwhile; when the harness has the
 * digest, what wants no answer is done with, and the rest stays open. Lost on the way, all of it waits again.
 */
export class Digests {
  #out: Out | null = null;

  constructor(
    readonly house: House,
    readonly session: Session,
  ) {}

  get nextAt(): number {
    return this.session.digestAt + DIGEST_MS;
  }

  /** Sends one if it is time and there is anything to tell. */
  async offer(): Promise<void> {
    const { session, house } = this;
    const now = house.deps.now();
    if (this.#out || !session.link?.capabilities.injection.digest || now < this.nextAt) return;
    const gathered = await gather(session, await house.progressAround(session, session.digestAt));
    session.digestAt = now;
    if (!gathered) return;
    gathered.items = await this.#take(gathered.items);
    this.#out = { gathered, timer: null };
    this.#send(1);
  }

  /** The connection is gone: what it told of waits again. */
  async hangUp(): Promise<void> {
    const out = this.#out;
    if (!out) return;
    this.#out = null;
    out.timer?.cancel();
    this.session.digestAt = -Infinity;
    for (const { who, message } of out.gathered.items) {
      const claim = { mailbox: who.name, owner: this.session.owner };
      await who.home.spool.release(claim, [message.id], { because: 'the digest did not arrive' });
    }
  }

  async #take(items: Item[]): Promise<Item[]> {
    const taken: Item[] = [];
    for (const [who, mine] of Map.groupBy(items, (item) => item.who)) {
      const ids = mine.map(({ message }) => message.id);
      const claim = await who.home.spool.claim(who.name, ids, { ms: HOLD_MS, bearer: this.session.holder });
      const won = new Set(claim.copies.map(({ message }) => message.id));
      taken.push(...mine.filter(({ message }) => won.has(message.id)).map((item) => ({ ...item, held: true })));
    }
    return taken;
  }

  #send(attempt: number): void {
    const out = this.#out;
    const { link } = this.session;
    if (!out || !link) return;
    const { params } = out.gathered;
    if (link.capabilities.delivery.ack && link.capabilities.delivery.redelivery) {
      const wait = Math.min(FIRST_WAIT_MS * 2 ** (attempt - 1), LONGEST_WAIT_MS);
      out.timer = this.house.deps.after(wait, () => this.#send(attempt + 1));
    }
    const reliability = { ...params.reliability, attempt };
    void link.wire.deliver({ ...params, reliability }).then(
      () => this.house.chores.run('digest', () => this.#accepted(out)),
      () => {},
    );
  }

  async #accepted(out: Out): Promise<void> {
    if (this.#out !== out) return;
    this.#out = null;
    out.timer?.cancel();
    for (const item of out.gathered.items) {
      if (item.attention.policy !== 'must_not_respond') this.session.open.set(keyOf(item), item);
      else await this.session.end(item, 'ignored', { digest: out.gathered.params.eventId });
    }
  }
}
