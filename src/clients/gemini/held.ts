import type { HeldClient, HeldPlace } from '../../delivery/client.ts';
import { writtenAt } from '../../delivery/held-live.ts';
import type { ClientState, StateReader } from '../../sessions/client-state.ts';
import { OtherWindows } from '../../sessions/client-window.ts';
import type { Screen } from '../../sessions/terminal.ts';
import { isUuid } from '../launch.ts';
import { FollowedChat, geminiHome, GeminiIndex } from './record.ts';
import { geminiHolds, geminiWindows, isGemini } from './state.ts';

/** For 40 ms after a paste, and longer on a busy machine, Gemini CLI takes an Enter for a part of the paste. */
const SHOWN_MS = 500;

/** A Gemini CLI in a terminal that Parley holds. Its record exists as soon as it takes prompts. */
export class HeldGemini implements HeldClient {
  readonly enterAfter = SHOWN_MS;
  readonly shownFor = SHOWN_MS;
  /** Ctrl-U empties the line of the cursor; Backspace then joins it with the line above. */
  readonly eraseKeys = '\u0015\u007f';
  readonly states: StateReader = { latest: () => Promise.resolve(this.#latest()) };
  readonly #index: GeminiIndex;
  readonly #others: OtherWindows;
  #chat: FollowedChat | null = null;

  constructor(
    readonly place: HeldPlace,
    scan = geminiWindows,
  ) {
    this.#index = new GeminiIndex(geminiHome(place.env));
    this.#others = new OtherWindows(place, () => scan(isGemini));
  }

  /**
   * The id of its conversation:
   * 1. the last one that began in the folder since this client started, because its user may begin another in the same window;
   * 2. else the one that its arguments name;
   * 3. else (after `--resume latest`) the only one that was written since this client started.
   * While another Gemini CLI runs in the folder, only the arguments count.
   */
  get session(): string | null {
    const { args, folder, startedAt } = this.place;
    const named = geminiSessionIn(args) ?? null;
    const all = this.#index.inFolder(folder);
    const begun = all.findLast((one) => this.#index.begunAt(one) >= startedAt);
    const isAsked = !begun && named === null && args.some((word) => /^(--resume|-r)(=|$)/.test(word));
    const [written, ...others] = isAsked ? all.filter((one) => writtenAt(one) >= startedAt) : [];
    const id = begun?.id ?? (others.length === 0 ? written?.id : undefined);
    return id === undefined || id === named || this.#others.isAny ? named : id;
  }

  /** Whether it takes input: it has written to its record since it started. A resumed conversation has a record before that. */
  isReady(): boolean {
    const path = this.#path();
    return path !== null && writtenAt({ path }) >= this.place.startedAt;
  }

  look(): void {}

  holds(screen: Screen, text: string): boolean {
    return geminiHolds(screen, text);
  }

  #latest(): ClientState {
    const path = this.#path();
    if (path === null) return { state: 'starting', at: 0, source: 'transcript', pid: this.place.pid };
    if (this.#chat?.path !== path) this.#chat = new FollowedChat(path);
    const { turnSince, at } = this.#chat.look();
    // A turn that began before this process started was left open by another process, and ended with it.
    const isBusy = turnSince !== null && turnSince >= this.place.startedAt;
    return { state: isBusy ? 'busy' : 'idle', at, source: 'transcript', pid: this.place.pid };
  }

  #path(): string | null {
    const { session } = this;
    return session === null ? null : (this.#index.find(session)?.path ?? null);
  }
}

/** The id of the conversation that these arguments name, if they name one. */
export function geminiSessionIn(args: readonly string[]): string | undefined {
  return args.flatMap((word, at) => {
    const [name = '', value = args[at + 1]] = word.split('=', 2);
    const isNamed = ['--session-id', '--resume', '-r'].includes(name) && value !== undefined && isUuid(value);
    return isNamed ? [value] : [];
  })[0];
}
