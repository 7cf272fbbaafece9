import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import * as v from 'valibot';
import type { HookClient } from '../clients/hook-client.ts';
import type { HookEvent } from '../clients/hook-event.ts';
import { isCompaction, proofIn } from '../clients/hook-proof.ts';
import type { Moment } from '../clients/hook-proof.ts';
import type { Who } from '../flow/workspace.ts';
import { OFFER_MS, settleOffered, takeBack, takeBackSign } from '../flow/offered.ts';
import type { SessionLease } from '../flow/offered.ts';
import { Injection } from '../protocol/attention.ts';
import { AgentName, MessageId } from '../protocol/names.ts';
import { Schema } from '../protocol/schema.ts';
import type { Described } from '../protocol/schema.ts';
import { starterOf } from '../sessions/process.ts';
import { isDead, newHolder } from '../storage/holder.ts';
import { complain } from './hook-complain.ts';
import { namesIn, Session } from './sessions.ts';

/** One text that a session is shown, until an event proves that its model was asked. */
const Offer = new Schema(() =>
  v.object({
    v: v.literal(1),
    agent: AgentName.inner,
    /** The name in which the copies are held. */
    owner: v.string(),
    /** The hook that prints it, and since when (ms). */
    by: v.string(),
    since: v.number(),
    /** Where it was printed; null until it was. */
    printed: v.nullable(v.object({ event: v.string(), prompt: v.nullable(v.string()), tool: v.nullable(v.string()) })),
    whole: v.array(MessageId.inner),
    /** Messages that were knocked for or pointed at, with the injection that each had before. */
    signs: v.array(v.object({ id: MessageId.inner, injection: Injection.inner })),
    /** Owed messages that were shown again after a compaction. */
    again: v.array(MessageId.inner),
  }),
);
type Offer = Described<typeof Offer>;

/** A compaction after which what is owed is shown again; `shown`: as much of it as was. */
const Compacted = new Schema(() => v.object({ v: v.literal(1), shown: v.array(MessageId.inner) }));
const COMPACTED = 'compacted.json';

/** What a text held, by the ids of its messages. */
export type Printed = Pick<Offer, 'whole' | 'signs' | 'again'>;

/** The agent of this name, or null if it has no mailbox any more. */
type ReaderNamed = (name: AgentName) => Promise<Who | null>;

/**
 * What a session was shown and nothing has proven yet: `open/<offer>.json` in its folder. As long as one is there the script starts us at
 * the next event, and `resolve` settles it or makes it wait again. spec: hook#proof
 *
 * An offer without `printed` belongs to a hook that runs, or to one that died and may have printed it.
 */
export class Offers {
  constructor(readonly session: Session) {}

  /** Begins an offer. Its lease is the session's: it ends with the client's process, or after an hour. */
  begin(agent: AgentName, now: number): OpenOffer {
    const id = crypto.randomUUID().slice(0, 8);
    const lease = {
      ms: OFFER_MS,
      bearer: `hook-${this.session.id}-${id}`,
      process: starterOf(process.pid) ?? undefined,
    };
    const owner = newHolder(lease.bearer, lease.process);
    const nothing = { printed: null, whole: [], signs: [], again: [] };
    const offer = { v: 1, agent, owner, by: newHolder(false), since: now, ...nothing } as const;
    return new OpenOffer(this, `${id}.json`, lease, offer);
  }

  /** Ends every offer about which this event says something. One that cannot be ended does not stop the others, nor new mail. */
  async resolve(client: HookClient, event: HookEvent, readerNamed: ReaderNamed): Promise<void> {
    for (const [name, offer] of this.#all()) {
      const proof = offer.printed ? proofIn(client, offer.printed, event) : isLeft(offer) ? 'not asked' : 'same moment';
      try {
        if (proof === 'asked') {
          const who = await readerNamed(offer.agent);
          const by = { by: 'hook', client: client.name, event: offer.printed?.event ?? '', session: this.session.id };
          if (who) await settleOffered(who, offer.owner, offer.whole, { ...by, proof: event.hook_event_name ?? '' });
          this.remove(name);
        } else if (proof === 'not asked') {
          // The file goes first: a later event must not settle what waits again.
          this.remove(name);
          const who = await readerNamed(offer.agent);
          if (who) await this.#waitAgain(who, offer, event);
        }
      } catch (error) {
        complain(error);
      }
    }
    if (isCompaction(event)) this.noteCompaction([]);
  }

  /** Ends what this process was shown in a session that it has left: after `/clear` no further event comes of that one. */
  async endEarlier(client: HookClient, event: HookEvent, readerNamed: ReaderNamed): Promise<void> {
    const { home, id } = this.session;
    const own = processIn(newHolder(id, starterOf(process.pid) ?? undefined));
    for (const name of namesIn(`${home}/sessions`).filter((one) => one !== id)) {
      const session = Session.open(home, name);
      if (!session) continue;
      const earlier = new Offers(session);
      const isOurs = earlier.#all().some(([, { owner }]) => own !== null && processIn(owner) === own);
      if (isOurs) await earlier.resolve(client, event, readerNamed);
    }
  }

  async #waitAgain(who: Who, offer: Offer, event: HookEvent): Promise<void> {
    const because = offer.printed
      ? `printed at ${offer.printed.event}; at ${event.hook_event_name ?? 'the next event'} nothing shows that the model was asked`
      : 'the hook died; whether it was printed is unknown';
    const evidence = { by: 'hook', session: this.session.id, because };
    await takeBack(who, offer.owner, evidence);
    for (const { id, injection } of offer.signs) await takeBackSign(who, id, injection, evidence);
    if (offer.again.length > 0) this.noteCompaction([]);
  }

  /** What was shown again since the last compaction; null if all of it was. */
  shownSinceCompaction(): readonly MessageId[] | null {
    return this.#read(COMPACTED, Compacted)?.shown ?? null;
  }

  noteCompaction(shown: readonly MessageId[]): void {
    this.write(COMPACTED, { v: 1, shown });
  }

  endCompaction(): void {
    this.remove(COMPACTED);
  }

  write(name: string, value: unknown): void {
    mkdirSync(`${this.session.folder}/open`, { recursive: true, mode: 0o700 });
    this.session.place(`open/${name}`, (path) => writeFileSync(path, JSON.stringify(value), { mode: 0o600 }));
  }

  remove(name: string): void {
    rmSync(`${this.session.folder}/open/${name}`, { force: true });
  }

  #all(): [name: string, offer: Offer][] {
    const names = namesIn(`${this.session.folder}/open`).filter((name) => name.endsWith('.json') && name !== COMPACTED);
    return names.flatMap((name): [string, Offer][] => {
      const offer = this.#read(name, Offer);
      if (offer) return [[name, offer]];
      // Nobody can use it: what it stands for waits again by time.
      this.remove(name);
      return [];
    });
  }

  #read<S extends Parameters<typeof v.parse>[0]>(name: string, shape: Schema<S>): Described<Schema<S>> | null {
    try {
      const read = shape.safeParse(JSON.parse(readFileSync(`${this.session.folder}/open/${name}`, 'utf8')));
      return read.success ? read.data : null;
    } catch {
      return null;
    }
  }
}

/** A text that is about to be printed. */
export class OpenOffer {
  constructor(
    readonly offers: Offers,
    readonly name: string,
    readonly lease: SessionLease,
    readonly offer: Offer,
  ) {}

  /** Before anything is claimed: if we die, the next event finds it. On a full disk the mail is shown all the same. */
  note(): void {
    try {
      this.offers.write(this.name, this.offer);
    } catch {
      // Then it waits again when the client ends, or after an hour.
    }
  }

  notePrinted(printed: Moment, text: Printed): void {
    this.offers.write(this.name, { ...this.offer, ...text, printed });
  }

  drop(): void {
    this.offers.remove(this.name);
  }
}

/** The client's process in a holder's name; null if none is known. */
function processIn(owner: string): string | null {
  const [process = '', bearer] = owner.split('.bearer-');
  return bearer === undefined ? null : process;
}

/** Nobody prints it any more. */
function isLeft({ by, since }: Offer): boolean {
  return isDead(by) || Math.abs(Date.now() - since) > OFFER_MS;
}
