import type { HeldClient, HeldPlace } from '../../delivery/client.ts';
import { writtenAt } from '../../delivery/held-live.ts';
import type { ClientState, StateReader } from '../../sessions/client-state.ts';
import { OtherWindows } from '../../sessions/client-window.ts';
import type { Screen } from '../../sessions/terminal.ts';
import { isUuid } from '../launch.ts';
import { FollowedChat, geminiHome, GeminiIndex } from './record.ts';
import { geminiHolds, geminiWindows, isGemini } from './state.ts';

/** For 40 ms after it has read a paste, Gemini CLI takes an Enter for a part of it; on a busy machine that can take longer. */
const SHOWN_MS = 500;

/** A Gemini CLI in a terminal of ours. Its record is there as soon as it takes prompts. */
export class HeldGemini implements HeldClient {
  readonly enterAfter = SHOWN_MS;
  readonly shownFor = SHOWN_MS;
  /** Ctrl-U empties the line of the cursor, and Backspace goes to the line above. */
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
   * The one that was begun last since it runs: its user may begin another in the same window. Else the one that its words name, else (after
   * `--resume latest`) the only one that was written since it runs. Only the words are sure while another Gemini CLI runs in the folder.
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

  /** Of a conversation that it goes on with there is a record before; then it has read that when it writes there. */
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
    // A turn that another process left open has ended with it.
    const isBusy = turnSince !== null && turnSince >= this.place.startedAt;
    return { state: isBusy ? 'busy' : 'idle', at, source: 'transcript', pid: this.place.pid };
  }

  #path(): string | null {
    const { session } = this;
    return session === null ? null : (this.#index.find(session)?.path ?? null);
  }
}

/** The conversation that these words name. */
export function geminiSessionIn(args: readonly string[]): string | undefined {
  return args.flatMap((word, at) => {
    const [name = '', value = args[at + 1]] = word.split('=', 2);
    const isNamed = ['--session-id', '--resume', '-r'].includes(name) && value !== undefined && isUuid(value);
    return isNamed ? [value] : [];
  })[0];
}
