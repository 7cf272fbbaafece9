import { Wakeup } from '../core/wait.ts';
import type { MessageId } from '../core/names.ts';
import type { RecordedProof } from '../core/ports/live-session.ts';
import type { Attempt, Parcel, Way } from '../core/ports/way-in.ts';
import type { Evidence } from '../core/receipt.ts';
import { FolderWatch } from '../sessions/follow.ts';
import { askHolder } from './held-session.ts';
import type { HeldSession, HeldSessions } from './held-session.ts';

/** In case a file event was lost. */
const LOOK_MS = 250;
/** A holder answers when it has typed, or at once that it has not. */
const ANSWER_MS = 30_000;
/** So long an attempt waits for a user who has just typed something: longer than the holder does. */
const WAITS_MS = 3000;
/** A record that says nothing for this long about a text that was typed says nothing more. */
const SILENT_MS = 20_000;

/** What the record of a session says about messages. */
export interface MessageRecord {
  /** Whether the conversation has this message already, so that the next request to the model has it. */
  has: (id: MessageId) => boolean;
  proof: (id: MessageId, since: number) => Promise<RecordedProof>;
}

export interface HeldWayOptions extends MessageRecord {
  sessions: HeldSessions;
  /** The process that holds the terminal. */
  holder: HeldSession['holder'];
  /** Lets one attempt type after the other. */
  inTurn<T>(act: () => Promise<T>): Promise<T>;
  /** Where that record changes. */
  recordFolders: () => readonly string[];
}

/**
 * Mail typed into a client by the process that holds its terminal (held-session.ts). Where the holder may not type, it is left: the client
 * works, asks something or has a draft. So a hook can bring it meanwhile. The state of the terminal is a file: who tries again watches it.
 */
export class HeldWay implements Way {
  readonly name = 'terminal';

  constructor(readonly options: HeldWayOptions) {}

  async attempt(parcels: readonly Parcel[], signal: AbortSignal): Promise<Attempt> {
    if (parcels.length === 0) return left('there is nothing to hand over', false);
    const since = Date.now();
    const fresh = withGreeting(parcels, ({ id }) => !this.options.has(id));
    const typed = fresh.length === 0 ? 'entered' : await this.options.inTurn(() => this.#typed(fresh, signal));
    if (typed !== 'entered') return typed;
    return this.#proven(parcels, since, signal);
  }

  async #typed(parcels: readonly Parcel[], signal: AbortSignal): Promise<'entered' | Attempt> {
    const { sessions, holder } = this.options;
    const changes = new Changes(() => [sessions.folder]);
    const request = { type: { ids: parcels.map(({ id }) => id), text: parcels.map(({ text }) => text).join('\n') } };
    const from = performance.now();
    try {
      for (; ; await changes.next(signal)) {
        if (signal.aborted) return left('it was stopped before it was typed', true);
        const held = sessions.of(holder.pid, holder.start);
        if (!held) return left('the client has ended', true);
        // The holder looks again, and twice. Asking it is needless where that is known to be in vain.
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

  /** Waits until the record shows all of it. What it does not show stays held: the record decides later. */
  async #proven(parcels: readonly Parcel[], since: number, signal: AbortSignal): Promise<Attempt> {
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
        // The holder has removed it from the composer again.
        if (proofs.every((one) => one.step === 'none' && one.isOver))
          return left('the client did not take Enter', true);
        const trouble = proofs.find((one) => one.step === 'accepted' && one.trouble !== undefined);
        if (trouble) return this.#offered('the model did not answer');
        // It works on it, or asks its user something about it.
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

/** Tells when a file in some folders may have changed. */
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

/** Some of these texts. The first line of the first is the greeting, for all of them. */
export function withGreeting(parcels: readonly Parcel[], isMeant: (parcel: Parcel) => boolean): Parcel[] {
  const [first, ...rest] = parcels.filter(isMeant);
  if (!first || first === parcels[0]) return first ? [first, ...rest] : [];
  const [greeting = ''] = parcels[0]?.text.split('\n', 1) ?? [];
  return [{ ...first, text: `${greeting}\n${first.text}` }, ...rest];
}

function left(because: string, retry: boolean): Attempt {
  return { outcome: 'left', because, retry };
}
