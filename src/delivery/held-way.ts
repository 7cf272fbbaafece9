import { Wakeup } from '../core/wait.ts';
import type { MessageId } from '../core/names.ts';
import type { RecordedProof } from '../core/ports/live-session.ts';
import type { Attempt, Parcel, Way } from '../core/ports/way-in.ts';
import type { Evidence } from '../core/receipt.ts';
import { FolderWatch } from '../sessions/follow.ts';
import { askHolder } from './held-session.ts';
import type { HeldSession, HeldSessions } from './held-session.ts';

/** Files are also read at this interval, in case a file event was lost. */
const LOOK_MS = 250;
/** How long a holder may take to answer: it answers when it has typed, or at once if it does not type. */
const ANSWER_MS = 30_000;
/** How long an attempt waits for a user who has just typed: longer than the holder's own `QUIET_MS`. */
const WAITS_MS = 3000;
/** An attempt waits this long for proof while the client is not busy. */
const SILENT_MS = 20_000;

/** What the record of a session says about messages. */
export interface MessageRecord {
  /** Whether the conversation has this message already: then the next request to the model has it. */
  has: (id: MessageId) => boolean;
  proof: (id: MessageId, since: number) => Promise<RecordedProof>;
}

export interface HeldWayOptions extends MessageRecord {
  sessions: HeldSessions;
  /** The process that holds the terminal. */
  holder: HeldSession['holder'];
  /** Runs this when no other attempt types at the same holder. */
  inTurn<T>(act: () => Promise<T>): Promise<T>;
  /** The folders that change with that record. */
  recordFolders: () => readonly string[];
}

/**
 * Mail that the process which holds the client's terminal types into it (held-session.ts). If the client works, asks something or has a draft,
 * the mail is left, so that a hook can show it meanwhile. The terminal's state is a file; an attempt watches it and tries again.
 */
export class HeldWay implements Way {
  readonly name = 'terminal';

  constructor(readonly options: HeldWayOptions) {}

  async attempt(parcels: readonly Parcel[], signal: AbortSignal): Promise<Attempt> {
    if (parcels.length === 0) return left('there is nothing to hand over', false);
    const since = Date.now();
    const fresh = withGreeting(parcels, ({ id }) => !this.options.has(id));
    const typed = fresh.length === 0 ? 'entered' : await this.options.inTurn(() => this.#type(fresh, signal));
    if (typed !== 'entered') return typed;
    return this.#awaitProof(parcels, since, signal);
  }

  async #type(parcels: readonly Parcel[], signal: AbortSignal): Promise<'entered' | Attempt> {
    const { sessions, holder } = this.options;
    const changes = new Changes(() => [sessions.folder]);
    const request = { type: { ids: parcels.map(({ id }) => id), text: parcels.map(({ text }) => text).join('\n') } };
    const from = performance.now();
    try {
      for (; ; await changes.next(signal)) {
        if (signal.aborted) return left('it was stopped before it was typed', true);
        const held = sessions.of(holder.pid, holder.start);
        if (!held) return left('the client has ended', true);
        // The holder decides by two looks of its own. It is not asked if the state file already says no.
        if (held.seen !== 'empty') return left(`its screen is ${held.seen}`, true);
        const said = await askHolder(sessions.socketOf(held), request, ANSWER_MS);
        if (said === null && !sessions.of(holder.pid, holder.start)) return this.#offered('the client has ended');
        if (said === null) return this.#offered('the process that holds its terminal did not answer');
        if (said.typed === 'entered') return 'entered';
        if (said.typed === 'stranded') return this.#offered(said.because);
        if (said.typed === 'never') return left(said.because, false);
        if (said.typed === 'unreached') return left('nobody listens where its terminal is held', true);
        if (performance.now() - from > WAITS_MS) return left(said.because, true);
      }
    } finally {
      changes.close();
    }
  }

  /** Waits until the record shows all parcels. Copies that it does not show in time stay held: the record decides later. */
  async #awaitProof(parcels: readonly Parcel[], since: number, signal: AbortSignal): Promise<Attempt> {
    const { sessions, holder, proof, recordFolders } = this.options;
    const changes = new Changes(recordFolders);
    let idleFrom = performance.now();
    try {
      for (; ; await changes.next(signal)) {
        const proofs: RecordedProof[] = [];
        for (const { id } of parcels) proofs.push(await proof(id, since));
        const shown = proofs.flatMap((one) => (one.step === 'shown' ? [one.evidence] : []));
        if (shown.length === parcels.length)
          return { outcome: 'taken', step: 'shown', evidence: this.#evidence(shown.at(-1) ?? {}) };
        if (signal.aborted) return this.#offered('it was stopped before anything was proven');
        const held = sessions.of(holder.pid, holder.start);
        if (!held) return this.#offered('the client ended before anything was proven');
        // The holder has removed the text from the composer.
        if (proofs.every((one) => one.step === 'none' && one.isOver))
          return left('the client did not take Enter', true);
        const trouble = proofs.find((one) => one.step === 'accepted' && one.trouble !== undefined);
        if (trouble) return this.#offered('the model did not answer');
        // The client works on the text, or asks its user something about it.
        if (held.seen === 'busy' || held.seen === 'dialog') idleFrom = performance.now();
        if (performance.now() - idleFrom > SILENT_MS)
          return this.#offered('it was typed, and the record of the client does not show that the model had it');
      }
    } finally {
      changes.close();
    }
  }

  #offered(because: string): Attempt {
    return { outcome: 'offered', evidence: this.#evidence({ because }) };
  }

  #evidence(more: Evidence): Evidence {
    return { way: this.name, holder: this.options.holder.pid, ...more };
  }
}

/** Waits for changes of files in some folders. */
class Changes {
  readonly #watch = new FolderWatch(() => this.#wakeup.notify());
  readonly #wakeup = new Wakeup();

  constructor(readonly folders: () => readonly string[]) {
    this.#watch.set(folders());
  }

  async next(signal: AbortSignal): Promise<void> {
    this.#watch.set(this.folders());
    await this.#wakeup.nextWithin(LOOK_MS, signal);
  }

  close(): void {
    this.#watch.close();
  }
}

/** The texts of the parcels that are meant. The greeting, the first line of the first parcel, comes first in any case. */
export function withGreeting(parcels: readonly Parcel[], isMeant: (parcel: Parcel) => boolean): Parcel[] {
  const [first, ...rest] = parcels.filter(isMeant);
  if (!first || first === parcels[0]) return first ? [first, ...rest] : [];
  const [greeting = ''] = parcels[0]?.text.split('\n', 1) ?? [];
  return [{ ...first, text: `${greeting}\n${first.text}` }, ...rest];
}

function left(because: string, retry: boolean): Attempt {
  return { outcome: 'left', because, retry };
}
