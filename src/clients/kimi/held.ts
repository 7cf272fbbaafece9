import type { HeldClient, HeldPlace } from '../../delivery/client.ts';
import type { ClientState, StateReader } from '../../sessions/client-state.ts';
import { clientWindows, OtherWindows } from '../../sessions/client-window.ts';
import type { Screen } from '../../sessions/terminal.ts';
import { begunAt, FollowedWire, kimiHome, KimiIndex } from './record.ts';
import { isKimiReady, kimiHolds, sessionShown } from './state.ts';
import { isKimiWindow } from './web.ts';

/** Enter waits in any case until the screen shows the paste. Seen: Kimi takes an Enter right behind a paste in brackets. */
const ENTER_MS = 50;

/**
 * A Kimi in a terminal of ours. Its record says what it does. One that was given no prompt yet has no record: then it is idle, as far as
 * its screen shows an empty composer, which the holder looks for twice.
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
    // A turn that another process left open has ended with it.
    const isBusy = turnSince !== null && turnSince >= this.place.startedAt;
    const state = !isBusy ? 'idle' : waitingFor === null ? 'busy' : 'dialog';
    return { state, at, source: 'transcript', pid };
  }

  #follow(): FollowedWire | null {
    const path = this.session === null ? null : (this.#index.find(this.session)?.path ?? null);
    if (this.#wire?.path !== path) this.#wire = path === null ? null : new FollowedWire(path);
    return this.#wire;
  }

  /** The only conversation that was begun in its folder since it runs, if no other Kimi runs there. A guess: the next look makes it again. */
  #onlyNew(): string | null {
    const all = this.#index.inFolder(this.place.folder).filter((one) => begunAt(one) >= this.place.startedAt);
    const [only, ...others] = all;
    return only && others.length === 0 && !this.#others.isAny ? only.id : null;
  }
}

/** The conversation that these words continue, if they name it. */
export function kimiSessionIn(args: readonly string[]): string | undefined {
  const at = args.findIndex((word) => /^(-S|--session)(=|$)/.test(word) || /^-S./.test(word));
  const word = args[at] ?? '';
  if (at < 0) return undefined;
  const named = word.startsWith('-S') && word.length > 2 ? word.slice(2) : (word.split('=')[1] ?? args[at + 1]);
  return named?.replace(/^=/, '').startsWith('session_') ? named.replace(/^=/, '') : undefined;
}
