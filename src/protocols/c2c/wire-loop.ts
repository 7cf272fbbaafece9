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

/** One prompt carries no more than this, unless a single message does. */
const PROMPT_MESSAGES = 50;
const PROMPT_CHARS = 200_000;
/** How often one message goes to a kimi that goes away without a word, before it is left to wait for other ways. */
const MOST_TRIES = 5;
const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 300_000;

/** What a round came to, for the log and for people. */
export interface WireNews {
  event: 'delivered' | 'left' | 'unknown' | 'given_up';
  count: number;
  because?: string;
}

interface WireParts {
  way: Way;
  spool: WireQueue;
  /** Nobody wants to be disturbed now. */
  isDnd: () => Promise<boolean>;
  now: () => number;
  onNews: (news: WireNews) => void;
}

/**
 * Way 7, one round: what waits is noted in the spool and given to a kimi that is started only for it. It leaves the inbox for good when
 * kimi said that its turn has ended, and the spool is cleared then. spec: c2c#wire
 */
export class WireLoop {
  #inARow = 0;
  /** What is put back rings the bell like what arrives: before this time (ms) nothing is tried. */
  #notBefore = 0;
  readonly #givenUp = new Set<MessageId>();

  constructor(readonly parts: WireParts) {}

  /** Answers after how many ms to look again; null: when something comes. */
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

  /** On the disk before kimi is started. */
  #noted(who: Who, outgoing: readonly OutgoingCopy[]): Parcel[] {
    this.parts.spool.write(outgoing.map(({ message }) => ({ ...entryOf(who.name, message) })));
    return envelopedParcels(who.name, outgoing);
  }

  /** What stands in the spool and nowhere else: another bridge took it out of the inbox. */
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
      // The bridge that took it may have come to its end after kimi had it.
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

/** Where the bridge of a session notes what is on its way: beside the broker, as the established bridge has it. spec: c2c#wire */
export function wireSpoolPath(brokerRoot: string, session: string): string {
  return `${brokerRoot.slice(0, brokerRoot.lastIndexOf('/'))}/kimi-wire/${session}.spool.json`;
}

/**
 * What is on its way to a kimi, on disk before kimi hears of it. Our own copies are held in the ledger meanwhile and come back from
 * there; what another bridge left here is nowhere else.
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
