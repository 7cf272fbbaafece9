import type { HeldClient, HeldPlace } from '../../delivery/client.ts';
import type { ClientState, StateReader } from '../../sessions/client-state.ts';
import { clientWindows, OtherWindows } from '../../sessions/client-window.ts';
import type { Screen } from '../../sessions/terminal.ts';
import { begunAt, FollowedWire, kimiHome, KimiIndex } from './record.ts';
import { isKimiReady, kimiHolds, sessionShown } from './state.ts';
import { isKimiWindow } from './web.ts';

/** Pause between a paste and its Enter. The Enter also waits until the screen shows the paste. Kimi takes an Enter right after a bracketed paste. */
const ENTER_MS = 50;

/**
 * A Kimi in a terminal that Parley holds. Its record says what it does. Before its first prompt Kimi has no record: then it counts as idle.
 * The holder also checks the screen twice for an empty composer before it types.
 */
export class HeldKimi implements HeldClient {
  readonly enterAfter = ENTER_MS;
  readonly states: StateReader = { latest: () => Promise.resolve(this.#latest()) };
  readonly #index: KimiIndex;
  #session: string | null;
  #wire: FollowedWire | null = null;
  readonly #others: OtherWindows;

  constructor(
    readonly place: HeldPlace,
    scan = clientWindows,
  ) {
    this.#index = new KimiIndex(kimiHome(place.env));
    this.#others = new OtherWindows(place, () => scan(isKimiWindow(this.#index.home)));
    this.#session = kimiSessionIn(place.args) ?? null;
  }

  get session(): string | null {
    return this.#session ?? this.#onlyNew();
  }

  isReady(screen: Screen): boolean {
    return isKimiReady(screen);
  }

  holds(screen: Screen, text: string): boolean {
    return kimiHolds(screen, text);
  }

  /** Kimi draws the id of its conversation into its first box. */
  look(screen: Screen): void {
    const shown = sessionShown(screen);
    if (shown !== null && this.#index.find(shown)?.folder === this.place.folder) this.#session = shown;
  }

  #latest(): ClientState {
    const { pid } = this.place;
    const { turnSince, waitingFor, at } = this.#follow()?.look() ?? { turnSince: null, waitingFor: null, at: 0 };
    // A turn that began before this process started was left open by another process, and ended with it.
    const isBusy = turnSince !== null && turnSince >= this.place.startedAt;
    const state = !isBusy ? 'idle' : waitingFor === null ? 'busy' : 'dialog';
    return { state, at, source: 'transcript', pid };
  }

  #follow(): FollowedWire | null {
    const path = this.session === null ? null : (this.#index.find(this.session)?.path ?? null);
    if (this.#wire?.path !== path) this.#wire = path === null ? null : new FollowedWire(path);
    return this.#wire;
  }

  /** The only conversation that began in the folder since this Kimi started, if no other Kimi runs there. This is a guess, so it is not stored. */
  #onlyNew(): string | null {
    const all = this.#index.inFolder(this.place.folder).filter((one) => begunAt(one) >= this.place.startedAt);
    const [only, ...others] = all;
    return only && others.length === 0 && !this.#others.isAny ? only.id : null;
  }
}

/** The id of the conversation that these arguments resume, if they name one. */
export function kimiSessionIn(args: readonly string[]): string | undefined {
  const at = args.findIndex((word) => /^(-S|--session)(=|$)/.test(word) || /^-S./.test(word));
  const word = args[at] ?? '';
  if (at < 0) return undefined;
  const named = word.startsWith('-S') && word.length > 2 ? word.slice(2) : (word.split('=')[1] ?? args[at + 1]);
  return named?.replace(/^=/, '').startsWith('session_') ? named.replace(/^=/, '') : undefined;
}
