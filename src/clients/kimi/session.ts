import { dirname } from 'node:path';
import type { Env } from '../../core/env.ts';
import type {
  ScreenOptions,
  Prompt,
  RecordPlace,
  SessionDriver,
  SessionState,
  SessionTarget,
  Submission,
  TurnEvent,
} from '../../core/ports/session.ts';
import { Refusal } from '../../core/refusal.ts';
import { saveClientFile } from '../../sessions/client-files.ts';
import { writtenAt } from '../../delivery/held-live.ts';
import { typeInto } from '../../delivery/terminal.ts';
import { realPath } from '../../platform/files.ts';
import type { ClientState, StateReader } from '../../sessions/client-state.ts';
import { ClientWindow } from '../../sessions/client-window.ts';
import { FolderWatch } from '../../sessions/follow.ts';
import { type LiveClient, TurnRecord } from '../../sessions/turn-record.ts';
import { isCommand, isSamePrompt, preparePrompt } from '../typed-prompt.ts';
import { begunAt, FollowedWire, kimiHome, KimiIndex, KimiTurns, PromptSearch } from './record.ts';
import { isKimiReady, kimiComposer, kimiHolds } from './state.ts';
import { isKimiWindow, isOnServer } from './web.ts';

const TICK_MS = 1000;
const POLL_MS = 100;
/** The shortest time between two looks at a screen: each one starts a process. */
const LOOK_MS = 300;
/** Limit for Kimi to record what was typed. */
const PROOF_MS = 5000;
/** Kimi may take an immediate Enter for a part of the paste. */
const ENTER_AFTER_MS = 200;
/** Kimi's error when the conversation to resume does not exist. */
const NOTHING_THERE = /Session "[^"]*" not found/;
/** A TUI and a server on one conversation do not notice each other. */
const ON_A_SERVER =
  'a `kimi web` has the conversation of this session open; end that server, or add a session with `--flag web`, which uses it';
const SILENT_SERVER =
  'a `kimi web` runs and does not answer, so it may have the conversation of this session open; end that server';
const WAITING: Record<string, string> = { approval: 'permission prompt', question: 'input needed' };

/**
 * One session of Kimi 2.1. Parley starts it and types to it in tmux. `wire.jsonl` of its conversation says what it does and what was said.
 *
 * Kimi has no conversation before its first prompt, and nothing says which conversation a Kimi has open. So Parley takes:
 * 1. the conversation that Kimi was started with;
 * 2. else the first one that began in the folder since Kimi started, if no other session has that folder;
 * 3. else the one that records a prompt of ours after we typed it.
 * It never takes a conversation that another session has.
 */
export class KimiSession implements SessionDriver {
  /** The conversations that the sessions of this process have, by id. */
  static readonly #claims = new Map<string, KimiSession>();
  readonly #home: string;
  readonly #folder: string;
  readonly #index: KimiIndex;
  readonly #window: ClientWindow;
  readonly #record: TurnRecord;
  readonly #watched = new Set<FolderWatch>();
  readonly #stops = new Set<() => void>();
  #conversation: string | null = null;
  /** The search for the prompt that was tried last. It covers everything since the prompt's first try. */
  #search: { key: string; search: PromptSearch } | null = null;
  #wire: FollowedWire | null = null;
  #isStarting = false;
  /** The pid whose screen has shown that it takes prompts. */
  #ready: number | null = null;
  #hasDialog = false;
  #lookedAt = -Infinity;

  constructor(
    readonly target: SessionTarget,
    readonly env: Env,
  ) {
    this.#home = kimiHome(env);
    this.#folder = realPath(target.folder);
    this.#index = new KimiIndex(this.#home);
    this.#window = new ClientWindow({
      name: target.name,
      folder: this.#folder,
      env,
      variable: 'KIMI_CODE_HOME',
      composer: kimiComposer,
      isClient: isKimiWindow(this.#home),
      sharesFolder: target.sharesFolder,
    });
    this.#record = new TurnRecord({
      pathOf: (conversation) => this.#index.find(conversation)?.path ?? null,
      reader: () => new KimiTurns(),
    });
    this.#adopt(target.conversation);
  }

  async state(): Promise<SessionState> {
    const live = await this.#live();
    const known = this.#conversation === null ? {} : { conversation: this.#conversation };
    if (!live) return { status: this.#isStarting ? 'starting' : 'stopped', ...known };
    if (!(await this.#isReady(live))) {
      const { pid } = live;
      return this.#hasDialog
        ? { status: 'waiting', waitingFor: 'dialog open', ...known, pid }
        : { status: 'starting', ...known, pid };
    }
    const { at: _, ...doing } = this.#doing(live);
    return { ...doing, ...known };
  }

  watch(changed: () => void): () => void {
    const folders = new FolderWatch(changed);
    const look = (): void => {
      const wire = this.#wire?.path;
      folders.set([wire === undefined ? this.#home : dirname(wire)]);
      changed();
    };
    const timer = setInterval(look, TICK_MS);
    const stop = (): void => {
      clearInterval(timer);
      this.#watched.delete(folders);
      folders.close();
      this.#stops.delete(stop);
    };
    this.#watched.add(folders);
    this.#stops.add(stop);
    look();
    return stop;
  }

  prepare(text: string, options: { raw?: boolean } = {}): string {
    return preparePrompt(text, options);
  }

  async place(): Promise<RecordPlace> {
    await this.#live();
    return this.#record.place(this.#conversation);
  }

  async events(since: RecordPlace): Promise<{ events: TurnEvent[]; next: RecordPlace }> {
    const live = await this.#live();
    return this.#record.events(since, live && this.#asLive(live));
  }

  isOurs(event: TurnEvent, prompt: Prompt): boolean {
    return event.kind === 'prompt' && isSamePrompt(event.text, prompt.text);
  }

  async submit(prompt: Prompt, signal: AbortSignal): Promise<Submission> {
    const { status } = await this.state();
    const live = await this.#live();
    if (!live) return left('Kimi does not run in this session', true);
    if (status !== 'idle') return left(`Kimi is ${status}`, true);
    // An earlier attempt may have begun a conversation that we do not know yet.
    const search = this.#searchFor(prompt, live);
    if (prompt.isRetry && this.#isFound(search)) return { outcome: 'submitted' };
    const terminal = await this.#window.terminalOf(live.pid).catch(() => null);
    if (!terminal)
      return left(
        `Kimi (pid ${live.pid}) runs outside of tmux, where nothing can be typed; end it, and send again to start it in tmux`,
        false,
      );
    const how = {
      composer: kimiComposer,
      ...(prompt.isRetry && { isPasted: kimiHolds }),
      enterAfter: ENTER_AFTER_MS,
      proofWithin: PROOF_MS,
    };
    const typed = await typeInto({ terminal, states: this.#states(live, search), ...how }, prompt.text, signal);
    if (typed.typed === 'nothing') return left(typed.because, typed.retry);
    if (typed.typed === 'stranded') return { outcome: 'unknown', because: typed.because };
    if (typed.proof || isCommand(prompt.text)) return { outcome: 'submitted' };
    const screen = await terminal.screen().catch(() => null);
    const isTaken = screen !== null && kimiComposer(screen) === 'empty';
    return { outcome: 'unknown', because: 'Kimi did not acknowledge what was typed', isTaken };
  }

  async start(): Promise<{ started: 'resumed' | 'fresh' }> {
    this.#isStarting = true;
    const until = performance.now() + this.target.startTimeoutMs;
    try {
      await this.#window.look();
      if (await this.#live()) {
        await this.#untilReady(until);
        return { started: 'resumed' };
      }
      const id = await this.#resumable();
      if (id !== null) {
        this.#adopt(id);
        await this.#window.start([...this.target.command, '-S', id]);
        if (await this.#untilReady(until)) return { started: 'resumed' };
        const said = await this.#window.lastLine();
        await this.#window.end();
        // Only the conversation to resume is missing: start without one.
        if (!NOTHING_THERE.test(said)) throw ended(said);
      }
      this.#adopt(null);
      await this.#window.start(this.target.command);
      if (await this.#untilReady(until)) return { started: 'fresh' };
      const said = await this.#window.lastLine();
      await this.#window.end();
      throw ended(said);
    } finally {
      this.#isStarting = false;
    }
  }

  async stop(): Promise<void> {
    await this.#window.stop();
    this.#ready = null;
    this.#hasDialog = false;
  }

  async screen(lines: number, options?: ScreenOptions): Promise<string> {
    const live = await this.#live();
    return this.#window.screenOf(live?.pid ?? null, lines, options);
  }

  async saveFile(name: string, bytes: Uint8Array, offset?: number): Promise<string> {
    return saveClientFile(this.target.folder, name, bytes, offset);
  }

  async close(): Promise<void> {
    for (const stop of this.#stops) stop();
    this.#release();
  }

  /** The client of this session: the one in our tmux session, else the only one that a person opened in the folder. */
  async #live(): Promise<{ pid: number; startedAt: number } | null> {
    await this.#window.refresh(() => this.#ready !== null);
    const pid = this.#window.pid ?? this.#window.byHand()?.pid ?? null;
    if (pid === null) return null;
    const live = { pid, startedAt: this.#window.startOf(pid) };
    if (this.#conversation === null && !this.target.sharesFolder) this.#adopt(this.#firstSince(live.startedAt));
    return live;
  }

  /** Whether it takes prompts, by its screen: at its start Kimi may ask its user whether the folder can be trusted. */
  async #isReady({ pid }: { pid: number }): Promise<boolean> {
    if (this.#ready === pid) return true;
    if (performance.now() - this.#lookedAt < LOOK_MS) return false;
    this.#lookedAt = performance.now();
    const terminal = await this.#window.terminalOf(pid).catch(() => null);
    // Outside tmux there is no screen to read, so the record decides.
    if (!terminal) return this.#window.pid === null;
    const screen = await terminal.screen();
    const seen = screen && kimiComposer(screen);
    this.#hasDialog = seen === 'dialog';
    if (screen && isKimiReady(screen) && (seen === 'empty' || seen === 'draft' || seen === 'busy')) this.#ready = pid;
    // No composer is on its screen, but its record says that a turn runs: it was ready before this program started.
    else if (
      this.#conversation !== null &&
      this.#doing({ pid, startedAt: this.#window.startOf(pid) }).status !== 'idle'
    )
      this.#ready = pid;
    return this.#ready === pid;
  }

  /** The state of the client, by its record. */
  #doing({ pid, startedAt: since }: { pid: number; startedAt: number }): SessionState & { pid: number; at: number } {
    const { turnSince, waitingFor, at } = this.#follow()?.look() ?? { turnSince: null, waitingFor: null, at: 0 };
    // A turn that began before this process started was left open by another process, and ended with it.
    const isBusy = turnSince !== null && turnSince >= since;
    if (isBusy && waitingFor !== null)
      return { status: 'waiting', waitingFor: WAITING[waitingFor] ?? waitingFor, pid, at };
    return { status: isBusy ? 'active' : 'idle', pid, at };
  }

  #follow(): FollowedWire | null {
    const path = this.#conversation === null ? null : (this.#index.find(this.#conversation)?.path ?? null);
    if (this.#wire?.path !== path) this.#wire = path === null ? null : new FollowedWire(path);
    return this.#wire;
  }

  /** The state for `typeInto`. `listen` looks for the typed text in the records: the conversation that has it becomes this session's. */
  #states(live: { pid: number; startedAt: number }, search: PromptSearch): StateReader {
    const latest = async (): Promise<ClientState | null> => {
      if ((await this.#live())?.pid !== live.pid) return null;
      const { status, at } = this.#doing(live);
      const state = status === 'active' ? 'busy' : status === 'waiting' ? 'dialog' : 'idle';
      return { state, at, source: 'transcript', pid: live.pid };
    };
    const listen = async () => async () => (this.#isFound(search) ? latest() : null);
    return { latest, listen };
  }

  /**
   * A search for a prompt in everything recorded since its first try. If an earlier process made the first try, control has already read
   * the known conversation for it; without a known conversation, the search covers all records since this Kimi started.
   */
  #searchFor({ key, text, isRetry = false }: Prompt, { startedAt: since }: { startedAt: number }): PromptSearch {
    if (isRetry && this.#search?.key === key) return this.#search.search;
    const isText = (said: string): boolean => isSamePrompt(said, text);
    const search = new PromptSearch(
      this.#index,
      this.#folder,
      isText,
      isRetry && this.#conversation === null ? since : null,
    );
    this.#search = { key, search };
    return search;
  }

  /**
   * Whether the text is recorded in this session's conversation. If it is in another one, that one becomes this session's, but only if none
   * was known, or if no other Kimi runs here: then the user of our Kimi has changed to it. Never takes a conversation of another session.
   */
  #isFound(search: PromptSearch): boolean {
    const own = this.#conversation;
    if (own !== null && search.among((id) => id === own) !== null) return true;
    const found = search.among((id) => this.#isFree(id));
    if (found === null || (own !== null && !this.#isAlone())) return false;
    this.#adopt(found);
    return true;
  }

  #isAlone(): boolean {
    return !this.target.sharesFolder && this.#window.pid !== null && this.#window.elsewhere()?.length === 0;
  }

  #adopt(id: string | null): void {
    this.#release();
    this.#conversation = id;
    if (id !== null && this.#isFree(id)) KimiSession.#claims.set(id, this);
  }

  #release(): void {
    const id = this.#conversation;
    if (id !== null && KimiSession.#claims.get(id) === this) KimiSession.#claims.delete(id);
  }

  /** Whether no other session has this conversation. */
  #isFree(id: string): boolean {
    const { name } = this.target;
    return (KimiSession.#claims.get(id)?.target.name ?? name) === name;
  }

  #firstSince(since: number): string | null {
    const free = this.#index.inFolder(this.#folder).filter(({ id }) => this.#isFree(id));
    return free.find((one) => begunAt(one) >= since)?.id ?? null;
  }

  /** The conversation to resume: this session's own, else the newest of its folder. Never one that a person or a server has open. */
  async #resumable(): Promise<string | null> {
    const isOpen = (id: string): Promise<boolean> =>
      isOnServer(this.#home, id).catch((error: unknown) => {
        throw new Refusal('unreachable', `${SILENT_SERVER}: ${String(error)}`);
      });
    const own = this.#conversation;
    if (own !== null && (await isOpen(own))) throw new Refusal('unreachable', ON_A_SERVER);
    if (own !== null && this.#index.find(own)) return own;
    if (this.target.sharesFolder || (this.#window.elsewhere() ?? []).length > 0) return null;
    const free = this.#index.inFolder(this.#folder).filter(({ id }) => this.#isFree(id));
    for (const { id } of free.toSorted((a, b) => writtenAt(b) - writtenAt(a))) if (!(await isOpen(id))) return id;
    return null;
  }

  #asLive({ startedAt: since }: { startedAt: number }): LiveClient {
    return { conversation: this.#conversation ?? '', startedAt: since, idleSince: null };
  }

  /** Waits until Kimi takes prompts or shows a question. False if it ended. */
  async #untilReady(until: number): Promise<boolean> {
    for (;;) {
      const live = await this.#live();
      if (!live) return false;
      if ((await this.#isReady(live)) || this.#hasDialog) {
        await this.#window.settle();
        return true;
      }
      if (performance.now() > until) {
        const seconds = Math.round(this.target.startTimeoutMs / 1000);
        throw new Refusal('outcome_unknown', `Kimi was not ready in ${seconds} s: ${await this.#window.lastLine()}`);
      }
      await Bun.sleep(POLL_MS);
    }
  }
}

function ended(said: string): Refusal {
  return new Refusal('outcome_unknown', said || 'Kimi ended as soon as it was started');
}

const left = (because: string, retry: boolean): Submission => ({ outcome: 'left', because, retry });
