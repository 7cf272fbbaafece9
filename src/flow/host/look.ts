import { quieter } from '../../attention/fallback.ts';
import { readMessage } from '../../protocol/message.ts';
import type { Message } from '../../protocol/message.ts';
import type { AgentName, MessageId } from '../../protocol/names.ts';
import type { Ledger } from '../../storage/ledger/ledger.ts';
import type { Who } from '../desk.ts';
import type { House } from './house.ts';
import { isUnseen, keyOf, placeOf } from './item.ts';
import type { Item } from './item.ts';
import type { Session } from './session.ts';

type Standing = Awaited<ReturnType<Ledger['shelf']>>[number];

const PAGE = 64;
/** What comes back from another's hand, or is raised, has an old number: everything is looked through this often. */
const WHOLE_MS = 30_000;

/** Finds what waits for a session, in the order of its arrival, and puts it into its queue. Takes nothing in hand. */
export class Look {
  /** The last number that was seen of each mailbox. */
  readonly #seen = new Map<AgentName, number>();
  #wholeAt = -Infinity;

  constructor(
    readonly house: House,
    readonly session: Session,
    /** A message that took this one's place has come. */
    readonly onReplaced: (who: Who, id: MessageId, by: MessageId) => Promise<void>,
  ) {}

  /** From the beginning the next time. */
  again(): void {
    this.#wholeAt = -Infinity;
  }

  get nextAt(): number {
    return this.#wholeAt + WHOLE_MS;
  }

  /** `rung`: something arrived. If nothing new is found then, something old is. */
  async look(rung: boolean): Promise<void> {
    const whole = this.house.deps.now() >= this.nextAt;
    if (whole) {
      this.#wholeAt = this.house.deps.now();
      this.#seen.clear();
    }
    let found = 0;
    for (const who of this.session.whos) {
      if (rung || whole) await who.home.spool.adopt(who.name);
      found += await this.#lookFor(who);
    }
    if (found > 0 || !rung || whole) return;
    this.#seen.clear();
    for (const who of this.session.whos) await this.#lookFor(who);
  }

  async #lookFor(who: Who): Promise<number> {
    let found = 0;
    for (;;) {
      const page = await who.home.ledger.shelf(who.name, this.#seen.get(who.name) ?? 0, PAGE);
      for (const standing of page) {
        // What there is no room for stays where it waits, and is found when there is.
        if (this.session.inHand >= this.house.limits.inHand) return found;
        this.#seen.set(who.name, standing.seq);
        if (await this.#meet(who, standing)) found += 1;
      }
      if (page.length < PAGE) return found;
    }
  }

  async #meet(who: Who, { id, seq, text, quiet }: Standing): Promise<boolean> {
    const { link } = this.session;
    if (!link || (quiet && !link.wantsAll)) return false;
    const copy = await who.home.ledger.copy(who.name, id);
    const message = copy && readMessage(JSON.parse(text));
    if (!message || this.session.queue.has({ who, message })) return false;
    const mode = quieter(copy.attention.injection, link.capabilities.injection);
    // What is for the digest comes with it.
    if (mode === 'digest' || (isUnseen({ mode }) && !link.wantsAll)) return false;
    const item = await this.#itemFrom(who, message, { seq, mode, attention: copy.attention });
    const old = message.parley?.replaces;
    this.session.queue.add(item);
    if (old) await this.onReplaced(who, old, message.id);
    this.session.open.delete(keyOf(item));
    return true;
  }

  async #itemFrom(who: Who, message: Message, fields: Pick<Item, 'seq' | 'mode' | 'attention'>): Promise<Item> {
    const author = await this.house.people.person(message.from);
    const conversation = placeOf(message, who);
    return { who, message, author, conversation, attempts: 0, held: false, ...fields };
  }
}
