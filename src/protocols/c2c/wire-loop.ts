import { readEntry } from './entry.ts';
import { envelope } from './envelope.ts';
import { entryOf } from './mail.ts';
import type { BrokerEntry } from './entry.ts';
import type { Parcel, Way } from '../../core/ports/way-in.ts';
import { waiting } from '../../core/mail/deliver.ts';
import type { Who } from '../../core/mail/workspace.ts';
import { attempt } from '../../core/mail/attempt.ts';
import type { OutgoingCopy } from '../../core/mail/attempt.ts';
import type { MessageId } from '../../core/names.ts';
import { readJsonFile } from './files.ts';
import { envelopedParcels } from './envelope.ts';
import { writeWhole } from './loop-files.ts';
import { fitting } from './terminal-loop.ts';

/** The most messages and characters in one prompt. A single message may be longer. */
const PROMPT_MESSAGES = 50;
const PROMPT_CHARS = 200_000;
/** How often a message is given to a kimi that ends without an answer. After that it waits for other ways. */
const MOST_TRIES = 5;
const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 300_000;

/** The result of a round, for the log and for people. */
export interface WireNews {
  event: 'delivered' | 'left' | 'unknown' | 'given_up';
  count: number;
  because?: string;
}

interface WireParts {
  way: Way;
  spool: WireQueue;
  /** Whether do-not-disturb is on for the session. */
  isDnd: () => Promise<boolean>;
  now: () => number;
  onNews: (news: WireNews) => void;
}

/**
 * Way 7, one round: writes waiting mail to the spool, and gives it to a kimi that is started only for it. When kimi answers that its turn has ended,
 * the mail is settled and the spool is cleared. spec: c2c#wire
 */
export class WireLoop {
  #inARow = 0;
  /** No attempt before this time (ms). Needed because mail that is put back looks like an arrival. */
  #notBefore = 0;
  readonly #givenUp = new Set<MessageId>();

  constructor(readonly parts: WireParts) {}

  /** Runs a round. Returns after how many ms to look again; null: at the next arrival. */
  async look(who: Who, signal: AbortSignal): Promise<number | null> {
    if (signal.aborted || (await this.parts.isDnd())) return null;
    const early = this.#notBefore - this.parts.now();
    if (early > 0) return early;
    const againMs = await this.#round(who, signal);
    if (againMs !== null) this.#notBefore = this.parts.now() + againMs;
    return againMs;
  }

  async #round(who: Who, signal: AbortSignal): Promise<number | null> {
    const strays = await this.#strays(who);
    if (strays.length > 0 && !(await this.#attemptStrays(strays, signal))) return this.#pause();
    const mail = await this.#next(who);
    if (mail.length === 0) return null;
    const said = await attempt(
      who,
      mail.map(({ message }) => message),
      {
        way: this.parts.way,
        wrap: (outgoing) => this.#noted(who, outgoing),
        by: { drained_by: 'wire_bridge' },
        most: MOST_TRIES,
        now: this.parts.now,
        signal,
      },
    );
    if (said.outcome !== 'nothing') this.parts.spool.write([]);
    switch (said.outcome) {
      case 'taken':
        this.#inARow = 0;
        this.parts.onNews({ event: 'delivered', count: said.ids.length });
        return 0;
      case 'offered': {
        const because = String(said.evidence['unknown'] ?? said.evidence['status'] ?? '');
        this.parts.onNews({ event: 'unknown', count: said.ids.length, because });
        return this.#pause();
      }
      case 'left':
        this.parts.onNews({ event: 'left', count: said.ids.length, because: said.because });
        return said.againMs === null ? LONGEST_PAUSE_MS : Math.max(said.againMs, this.#pause());
      case 'nothing':
        for (const id of said.spent) this.#givenUp.add(id);
        if (said.spent.length > 0) this.parts.onNews({ event: 'given_up', count: said.spent.length });
        return null;
    }
  }

  #pause(): number {
    this.#inARow += 1;
    return Math.min(FIRST_PAUSE_MS * 2 ** Math.min(this.#inARow - 1, 20), LONGEST_PAUSE_MS);
  }

  async #next(who: Who): Promise<Awaited<ReturnType<typeof waiting>>> {
    const all = await waiting(who, { any: true, loudOnly: true });
    return fitting(all, (id) => this.#givenUp.has(id), PROMPT_MESSAGES, PROMPT_CHARS);
  }

  /** Writes the mail to the spool before kimi is started, and makes its parcels. */
  #noted(who: Who, outgoing: readonly OutgoingCopy[]): Parcel[] {
    this.parts.spool.write(outgoing.map(({ message }) => ({ ...entryOf(who.name, message) })));
    return envelopedParcels(who.name, outgoing);
  }

  /** Messages that are only in the spool: another bridge took them out of the inbox. */
  async #strays(who: Who): Promise<BrokerEntry[]> {
    const strays: BrokerEntry[] = [];
    for (const entry of this.parts.spool.read()) {
      const { message_id: id } = entry;
      if (id === undefined || !(await who.home.journal.copy(who.name, id as MessageId))) strays.push(entry);
    }
    return strays;
  }

  async #attemptStrays(strays: readonly BrokerEntry[], signal: AbortSignal): Promise<boolean> {
    const parcels = strays.map((entry) => ({
      id: (entry.message_id ?? crypto.randomUUID()) as MessageId,
      // Marked, because the other bridge may have ended after kimi had the message.
      text: envelope({ ...entry, redelivered: true }),
    }));
    const said = await this.parts.way.attempt(parcels, signal);
    const because = said.outcome === 'left' ? said.because : 'from the spool';
    if (said.outcome === 'taken') this.parts.spool.write([]);
    const event = { taken: 'delivered', offered: 'unknown', left: 'left' } as const;
    this.parts.onNews({ event: event[said.outcome], count: strays.length, because });
    return said.outcome === 'taken';
  }
}

/** The spool of a session's bridge: beside the broker, as in the original's bridge. spec: c2c#wire */
export function wireSpoolPath(brokerRoot: string, session: string): string {
  return `${brokerRoot.slice(0, brokerRoot.lastIndexOf('/'))}/kimi-wire/${session}.spool.json`;
}

/**
 * The spool: mail that is being given to a kimi, on disk before kimi starts. Our own copies are also held in the ledger, and come back from there.
 * Mail that another bridge left in the spool is nowhere else.
 */
export class WireQueue {
  constructor(readonly path: string) {}

  read(): BrokerEntry[] {
    const list = readJsonFile(this.path);
    return Array.isArray(list) ? list.flatMap((one) => readEntry(one) ?? []) : [];
  }

  write(entries: readonly BrokerEntry[]): void {
    writeWhole(this.path, `${JSON.stringify(entries)}\n`);
  }
}
