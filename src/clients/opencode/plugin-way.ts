import { Wakeup } from '../../core/wait.ts';
import type { MessageId } from '../../core/names.ts';
import type { ShownProof } from '../../core/ports/live-session.ts';
import type { Attempt, Parcel, Way } from '../../core/ports/way-in.ts';
import type { Evidence } from '../../core/receipt.ts';
import { FolderWatch } from '../../sessions/follow.ts';
import { isRecord } from '../../wire/jsonrpc.ts';
import type { OpenCodeProof } from './proof.ts';
import { endingOf } from './record.ts';
import { callWindow, isWindowFree, WindowGone } from './window.ts';
import type { OpenCodeWindow } from './window.ts';

/** An idle session whose record says nothing for this long says nothing more. */
export const PLUGIN_SILENT_MS = 10_000;
/** After this time an idle session does not begin with a message by itself. */
const SETTLE_MS = 1500;
/** In case a file event was lost. */
const LOOK_MS = 250;

/** What a way needs of the session's window and record, as they are now. */
export interface WindowView {
  /** Null: the window shows another session, or is closed. */
  window(): OpenCodeWindow | null;
  /** What the record has of a message. */
  proof(id: MessageId): OpenCodeProof | null;
  /** Folders in which a change may be seen. */
  folders: readonly string[];
}

/**
 * Mail for the session that a window of OpenCode 1.18 shows, by our plugin in that window. An idle session begins a turn with it; in a busy
 * one it joins the turn after the running tool call. A message with a turn of its own goes alone, and what comes behind it waits for the
 * end of that turn: OpenCode would answer both at once.
 *
 * While a dialog is open nothing is given. If a turn ends before it has read the message, because its user stopped it or said no, the
 * message stays in the conversation and OpenCode does not begin with it: then it is let go on, once.
 *
 * The record and the plugin know what they have: nothing is given twice, except what a summary replaced.
 */
export class PluginWay implements Way {
  readonly name = 'plugin';

  constructor(
    readonly session: string,
    readonly view: WindowView,
    readonly silentMs = PLUGIN_SILENT_MS,
  ) {}

  async attempt(parcels: readonly Parcel[], signal: AbortSignal): Promise<Attempt> {
    if (parcels.length === 0) return left('there is nothing to hand over', false);
    const changes = new Changes(this.view);
    const sent: MessageId[] = [];
    try {
      for (const [at, parcel] of parcels.entries()) {
        const isBehindOwn = at > 0 && (parcel.ownTurn || parcels[at - 1]?.ownTurn);
        const early = isBehindOwn ? await this.#rest(sent, changes, signal) : null;
        const said = early ?? (await this.#hand(parcel, changes, signal));
        if (said && sent.length === 0) return said;
        if (said) return this.#offered(said.outcome === 'left' ? said.because : UNKNOWN);
        sent.push(parcel.id);
      }
      return await this.#proven(sent, changes, signal);
    } finally {
      changes.close();
    }
  }

  /** Hands over one parcel, unless OpenCode has it. Null: it has it. */
  async #hand({ id, text }: Parcel, changes: Changes, signal: AbortSignal): Promise<Attempt | null> {
    for (; ; await changes.next(signal)) {
      if (signal.aborted) return left('it was stopped before it went in', true);
      const found = this.view.proof(id);
      if (found?.step === 'unreadable') return left('the record of OpenCode cannot be read', true);
      // What a summary has replaced is given once more.
      if (found !== null && found.step !== 'replaced') return null;
      const window = this.view.window();
      if (!window) return left('the window of OpenCode is closed, or shows another session', true);
      if (window.asks !== null) continue;
      try {
        const replaced = found && { replaced: found.message };
        const body = { session: this.session, ending: endingOf(id), text, silentMs: this.silentMs, ...replaced };
        const { status, said } = await callWindow(window, '/hand', { body });
        changes.restart();
        if (status < 300) return null;
        if (status === 410) return left('the window of OpenCode shows another session', true);
        if (status >= 500) return this.#has(id) ? null : this.#offered(UNKNOWN);
        if (!isDialog(said)) return left(`OpenCode answered ${status}: ${JSON.stringify(said)?.slice(0, 200)}`, false);
      } catch (error) {
        if (error instanceof WindowGone) return left(error.message, true);
        // It may have it: only its record can tell.
        return this.#has(id) ? null : this.#offered(UNKNOWN);
      }
    }
  }

  /** Waits until the model had all of it, and the turn is over. */
  async #rest(sent: readonly MessageId[], changes: Changes, signal: AbortSignal): Promise<Attempt | null> {
    const said = await this.#proven(sent, changes, signal);
    if (said.outcome !== 'taken') return said;
    while (!signal.aborted && this.view.window()?.isBusy) await changes.next(signal);
    return null;
  }

  /** Waits until the record proves that the model had all of it, or until it is known that nothing more comes. */
  async #proven(sent: readonly MessageId[], changes: Changes, signal: AbortSignal): Promise<Attempt> {
    for (let isNudged = false; ; await changes.next(signal)) {
      const proofs = sent.map((id) => this.view.proof(id));
      const shown = proofs.flatMap((proof) => (proof?.step === 'shown' ? [proof] : []));
      if (shown.length === sent.length) return this.#shown(shown.at(-1));
      if (signal.aborted) return this.#offered('it was stopped before anything was proven');
      const window = this.view.window();
      if (!window) return this.#offered('the window of OpenCode was closed, or shows another session');
      if (changes.freeMs > this.silentMs)
        return this.#offered('OpenCode is idle, and its record does not say that the model had it');
      const isPassedOver = proofs.some((proof) => proof?.step === 'accepted' && !proof.hasFailed);
      if (changes.freeMs < SETTLE_MS || isNudged || !isPassedOver) continue;
      isNudged = true;
      await callWindow(window, '/nudge', { body: { session: this.session } }).catch(() => 'it is tried no more');
    }
  }

  /** Whether it is in the conversation. */
  #has(id: MessageId): boolean {
    const step = this.view.proof(id)?.step;
    return step === 'shown' || step === 'accepted';
  }

  #shown(proof: ShownProof | undefined): Attempt {
    return { outcome: 'taken', step: 'shown', evidence: this.#evidence(proof?.evidence ?? {}) };
  }

  #offered(because: string): Attempt {
    return { outcome: 'offered', evidence: this.#evidence({ because }) };
  }

  #evidence(more: Evidence): Evidence {
    return { way: this.name, client: 'opencode', session: this.session, ...more };
  }
}

/**
 * A window that shows no session yet. Mail begins one; the window then shows it, and its mail goes there. A draft in the window stays.
 */
export class OpeningWay implements Way {
  readonly name = 'plugin';

  constructor(readonly window: OpenCodeWindow) {}

  async attempt(parcels: readonly Parcel[], signal: AbortSignal): Promise<Attempt> {
    if (parcels.length === 0) return left('there is nothing to hand over', false);
    if (signal.aborted) return left('it was stopped before it went in', true);
    try {
      const { status } = await callWindow(this.window, '/open', { body: {} });
      if (status >= 300) return left(`OpenCode began no session: it answered ${status}`, true);
    } catch (error) {
      return left(error instanceof Error ? error.message : String(error), true);
    }
    return left('nothing was handed over yet: OpenCode begins a session for it', true);
  }
}

const UNKNOWN = 'OpenCode did not answer; whether it has it is unknown';

/** Tells when a window or its record may have changed, and for how long it has been idle. */
class Changes {
  readonly #folders: FolderWatch;
  readonly #wakeup = new Wakeup();
  #freeSince: number | null = null;

  constructor(readonly view: WindowView) {
    this.#folders = new FolderWatch(() => this.#wakeup.notify());
    this.#folders.set(view.folders);
    this.#look();
  }

  /** For how long it has been idle without a break; 0 while it is not. */
  get freeMs(): number {
    return this.#freeSince === null ? 0 : performance.now() - this.#freeSince;
  }

  /** Counts from now on. */
  restart(): void {
    this.#freeSince = null;
    this.#look();
  }

  async next(signal: AbortSignal): Promise<void> {
    await this.#wakeup.nextWithin(LOOK_MS, signal);
    this.#look();
  }

  close(): void {
    this.#folders.close();
  }

  #look(): void {
    const window = this.view.window();
    this.#freeSince = window && isWindowFree(window) ? (this.#freeSince ?? performance.now()) : null;
  }
}

function isDialog(said: unknown): boolean {
  return isRecord(said) && said['because'] === 'dialog';
}

function left(because: string, retry: boolean): Attempt {
  return { outcome: 'left', because, retry };
}
