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

/** After a session has been idle for this long, its record will not mention a message any more. */
export const PLUGIN_SILENT_MS = 10_000;
/** After this time an idle session does not begin a turn with a waiting message by itself. */
const SETTLE_MS = 1500;
/** Poll interval, in case a file event is lost. */
const LOOK_MS = 250;

/** The current window and record of a session. */
export interface WindowView {
  /** Null if the window shows another session or is closed. */
  window(): OpenCodeWindow | null;
  /** What the record proves about a message. */
  proof(id: MessageId): OpenCodeProof | null;
  /** The folders whose changes may change window or record. */
  folders: readonly string[];
}

/**
 * Hands mail to the session that a window of OpenCode 1.18 shows, through our plugin in that window. An idle session begins a turn with it; in a
 * busy one it joins the turn after the running tool call. A message that needs a turn of its own goes alone, and the messages after it wait
 * for the end of that turn: OpenCode would answer both at once.
 *
 * Nothing is given while a dialog is open. If a turn ends before the model was given the message, because the user stopped the turn or said no,
 * the message stays in the conversation and OpenCode begins no turn with it: then the plugin asks OpenCode once to continue.
 *
 * Record and plugin know which messages they have, so none is given twice, except a message that a summary replaced.
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
        const early = isBehindOwn ? await this.#turnEnd(sent, changes, signal) : null;
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

  /** Hands over one parcel, unless OpenCode has it already. Returns null if OpenCode has it now. */
  async #hand({ id, text }: Parcel, changes: Changes, signal: AbortSignal): Promise<Attempt | null> {
    for (; ; await changes.next(signal)) {
      if (signal.aborted) return left('Parley was stopped before it sent the message', true);
      const found = this.view.proof(id);
      if (found?.step === 'unreadable') return left('the record of OpenCode cannot be read', true);
      // A message that a summary has replaced is given again.
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
        // OpenCode may have the message: only its record can tell.
        return this.#has(id) ? null : this.#offered(UNKNOWN);
      }
    }
  }

  /** Waits until the model was given these messages and the turn is over. Null if so. */
  async #turnEnd(sent: readonly MessageId[], changes: Changes, signal: AbortSignal): Promise<Attempt | null> {
    const said = await this.#proven(sent, changes, signal);
    if (said.outcome !== 'taken') return said;
    while (!signal.aborted && this.view.window()?.isBusy) await changes.next(signal);
    return null;
  }

  /** Waits until the record proves that the model was given these messages, or until no further proof can come. */
  async #proven(sent: readonly MessageId[], changes: Changes, signal: AbortSignal): Promise<Attempt> {
    for (let isNudged = false; ; await changes.next(signal)) {
      const proofs = sent.map((id) => this.view.proof(id));
      const shown = proofs.flatMap((proof) => (proof?.step === 'shown' ? [proof] : []));
      if (shown.length === sent.length) return this.#shown(shown.at(-1));
      if (signal.aborted) return this.#offered('Parley was stopped before OpenCode proved anything');
      const window = this.view.window();
      if (!window) return this.#offered('the window of OpenCode was closed, or shows another session');
      if (changes.freeMs > this.silentMs)
        return this.#offered('OpenCode is idle, and its record does not prove that the model had the message');
      const isPassedOver = proofs.some((proof) => proof?.step === 'accepted' && !proof.hasFailed);
      if (changes.freeMs < SETTLE_MS || isNudged || !isPassedOver) continue;
      isNudged = true;
      await callWindow(window, '/nudge', { body: { session: this.session } }).catch(() => 'it is tried no more');
    }
  }

  /** Is the message in the conversation? */
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
 * Begins a session in a window that shows none yet. The window then shows it, and the mail goes to that session. A draft in the window stays.
 */
export class OpeningWay implements Way {
  readonly name = 'plugin';

  constructor(readonly window: OpenCodeWindow) {}

  async attempt(parcels: readonly Parcel[], signal: AbortSignal): Promise<Attempt> {
    if (parcels.length === 0) return left('there is nothing to hand over', false);
    if (signal.aborted) return left('Parley was stopped before it sent the message', true);
    try {
      const { status } = await callWindow(this.window, '/open', { body: {} });
      if (status >= 300) return left(`OpenCode began no session: it answered ${status}`, true);
    } catch (error) {
      return left(error instanceof Error ? error.message : String(error), true);
    }
    return left('nothing was handed over yet: OpenCode begins a session for it', true);
  }
}

const UNKNOWN = 'OpenCode did not answer, so it is unknown whether it has the message';

/** Waits for changes of a window or its record, and measures how long the window has been idle. */
class Changes {
  readonly #folders: FolderWatch;
  readonly #wakeup = new Wakeup();
  #freeSince: number | null = null;

  constructor(readonly view: WindowView) {
    this.#folders = new FolderWatch(() => this.#wakeup.notify());
    this.#folders.set(view.folders);
    this.#look();
  }

  /** For how long the window has been idle; 0 while it is not. */
  get freeMs(): number {
    return this.#freeSince === null ? 0 : performance.now() - this.#freeSince;
  }

  /** Starts the measurement again. */
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
