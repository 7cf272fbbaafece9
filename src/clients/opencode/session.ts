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
import { parleyHome, userHome } from '../../platform/env.ts';
import { realPath } from '../../platform/files.ts';
import { ClientWindow } from '../../sessions/client-window.ts';
import { FolderWatch } from '../../sessions/follow.ts';
import { tmuxNameOf } from '../../sessions/tmux-session.ts';
import { plainPrompt } from '../plain-prompt.ts';
import { WAITING_FOR } from './live.ts';
import { endingOf, messageId, OpenCodeRecord } from './record.ts';
import { OpenCodeQuestions } from './questions.ts';
import type { QuestionApi } from './questions.ts';
import { NoServer } from '../loopback.ts';
import { NotTaken, OpenCodeServer } from './server.ts';
import { isOpenCodeHome, isOpenCodeWindow, openCodeComposer } from './state.ts';
import { openCodeWindows, windowApi } from './window.ts';

const TICK_MS = 1000;
const POLL_MS = 200;
/** Changes of the record are collected for this long, because all OpenCodes of a user often write into one file. */
const PAUSE_MS = 100;
/** Time for a window to show a conversation that a prompt begins. */
const SHOW_MS = 5000;
const NO_CONVERSATION = /Session not found/;
const BY_HAND =
  'OpenCode was opened here by hand, where it takes prompts only from its keyboard; end it, and send again to start it in tmux';

/**
 * One session of OpenCode 1.18. Parley starts it in tmux with a port. Its HTTP server reports the status and takes prompts; turns are read from
 * its database. A person can type into the window at the same time: our prompts do not touch a draft.
 *
 * An OpenCode that a person opened has no server. Its turns are recorded, too, but a prompt for it is refused with a reason.
 */
export class OpenCodeSession implements SessionDriver {
  readonly questions: OpenCodeQuestions;
  readonly #folder: string;
  readonly #window: ClientWindow;
  readonly #server: OpenCodeServer;
  readonly #record: OpenCodeRecord;
  readonly #stops = new Set<() => void>();
  #conversation: string | null;
  /** The message id of the last prompt. All attempts use the same id, so they never make two messages. */
  #message: { key: string; id: string } | null = null;
  #isStarting = false;

  constructor(
    readonly target: SessionTarget,
    readonly env: Env,
  ) {
    const home = userHome(env);
    this.#folder = realPath(target.folder);
    this.#window = new ClientWindow({
      name: target.name,
      folder: this.#folder,
      env,
      variable: 'XDG_DATA_HOME',
      composer: openCodeComposer,
      isClient: isOpenCodeWindow,
      sharesFolder: target.sharesFolder,
    });
    this.#server = new OpenCodeServer(`${home}/.ccc/opencode/${tmuxNameOf(target.name)}`);
    this.#record = new OpenCodeRecord(`${env['XDG_DATA_HOME'] || `${home}/.local/share`}/opencode/opencode.db`);
    this.#conversation = target.conversation;
    this.questions = new OpenCodeQuestions(
      () => this.#api(),
      this.#record,
      () => this.#conversation,
    );
  }

  async state(): Promise<SessionState> {
    const live = await this.#live();
    const known = this.#conversation === null ? {} : { conversation: this.#conversation };
    if (this.#isStarting) return { status: 'starting', ...known };
    if (!live) return { status: 'stopped', ...known };
    const { pid } = live;
    const state = await this.#doing(live);
    if (state === 'permission' || state === 'question')
      return { status: 'waiting', waitingFor: WAITING_FOR[state], ...known, pid };
    return { status: state, ...known, pid };
  }

  watch(changed: () => void): () => void {
    let isSoon: ReturnType<typeof setTimeout> | undefined;
    const soon = (): void => {
      isSoon ??= setTimeout(() => {
        isSoon = undefined;
        changed();
      }, PAUSE_MS);
    };
    const folders = new FolderWatch(soon);
    const look = (): void => {
      folders.set([this.#record.folder]);
      changed();
    };
    const timer = setInterval(look, TICK_MS);
    const stop = (): void => {
      clearInterval(timer);
      clearTimeout(isSoon);
      folders.close();
      this.#stops.delete(stop);
    };
    this.#stops.add(stop);
    look();
    return stop;
  }

  prepare(text: string, options: { raw?: boolean } = {}): string {
    return plainPrompt('OpenCode', text, options);
  }

  async place(): Promise<RecordPlace> {
    await this.#live();
    return this.#record.place(this.#conversation);
  }

  async events(since: RecordPlace): Promise<{ events: TurnEvent[]; next: RecordPlace }> {
    const live = await this.#live();
    // Ask before reading the record: a turn that begins after this is not over.
    const isIdle = live !== null && (await this.#doing(live)) === 'idle';
    return this.#record.events(since, this.#conversation, { startedAt: live?.startedAt ?? null, isIdle });
  }

  isOurs(event: TurnEvent, prompt: Prompt): boolean {
    return event.kind === 'prompt' && event.key === endingOf(prompt.key);
  }

  async submit(prompt: Prompt, signal: AbortSignal): Promise<Submission> {
    const live = await this.#live();
    if (!live) return left('OpenCode does not run in this session', true);
    if (live.isByHand) return left(BY_HAND, false);
    let conversation: string;
    try {
      conversation = this.#conversation ?? (await this.#begin(performance.now() + SHOW_MS));
      const state = await this.#server.state(conversation);
      if (state !== 'idle') return left(`OpenCode is ${state}`, true);
      // An earlier attempt may have stored the message.
      if (this.#record.hasMessage(conversation, endingOf(prompt.key))) return { outcome: 'submitted' };
      if (signal.aborted) return left('the prompt was taken back', false);
    } catch (error) {
      return error instanceof NoServer ? left(BY_HAND, false) : left(wordsOf(error), true);
    }
    try {
      await this.#server.prompt(conversation, this.#messageFor(prompt, conversation), prompt.text, signal);
      return { outcome: 'submitted' };
    } catch (error) {
      if (error instanceof NoServer || error instanceof NotTaken)
        return left(wordsOf(error), error instanceof NoServer);
      return { outcome: 'unknown', because: wordsOf(error) };
    }
  }

  async start(): Promise<{ started: 'resumed' | 'fresh' }> {
    const unfit = this.target.command.find((word) => /^--(port|hostname|mdns)(=|$)/.test(word));
    if (unfit !== undefined)
      throw new Refusal('bad_config', `OpenCode gets a port from Parley; remove ${unfit} from the flags`);
    this.#isStarting = true;
    const until = performance.now() + this.target.startTimeoutMs;
    try {
      await this.#window.look();
      const live = await this.#live();
      if (live && !live.isByHand && this.#conversation === null) await this.#begin(until).catch(isNotOurs);
      if (live) return { started: 'resumed' };
      const id = this.#resumable();
      if (id !== null) {
        this.#conversation = id;
        if (await this.#startWith(['-s', id], until)) return { started: 'resumed' };
        const said = await this.#window.lastLine();
        await this.#window.end();
        // Only the conversation is missing: start without it.
        if (!NO_CONVERSATION.test(said)) throw ended(said);
      }
      this.#conversation = null;
      if (!(await this.#startWith([], until))) {
        const said = await this.#window.lastLine();
        await this.#window.end();
        throw ended(said);
      }
      await this.#begin(until);
      return { started: 'fresh' };
    } finally {
      this.#isStarting = false;
    }
  }

  async stop(): Promise<void> {
    await this.#window.stop();
    this.#server.forget();
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
    this.#record.close();
  }

  /** The client of this session: the one in our tmux session, else the only one that a person opened in the folder. */
  async #live(): Promise<{ pid: number; startedAt: number; isByHand: boolean } | null> {
    await this.#window.refresh(() => true);
    const own = this.#window.pid;
    const pid = own ?? this.#window.byHand()?.pid ?? null;
    if (pid === null) return null;
    if (own === null) this.#conversation = this.#record.newest(this.#folder) ?? this.#conversation;
    return { pid, startedAt: this.#window.startOf(pid), isByHand: own === null };
  }

  /** The server of an OpenCode that we started, or our plugin in one that a person opened; null if there is neither. */
  async #api(): Promise<QuestionApi | null> {
    const live = await this.#live();
    if (!live) return null;
    if (!live.isByHand)
      return {
        get: (path) => this.#server.call('GET', path),
        post: (path, body) => this.#server.call('POST', path, body),
      };
    const window = openCodeWindows(parleyHome(this.env)).find(({ pid }) => pid === live.pid);
    return window && window.session === this.#conversation ? windowApi(window) : null;
  }

  /** The state of the client. Without a server only the record tells it. A server that does not answer in time counts as busy. */
  async #doing({ startedAt: since, isByHand }: { startedAt: number; isByHand: boolean }) {
    const recorded = (): 'active' | 'idle' =>
      this.#conversation !== null && this.#record.isInTurn(this.#conversation, since) ? 'active' : 'idle';
    if (isByHand) return recorded();
    try {
      return await this.#server.state(this.#conversation);
    } catch (error) {
      return error instanceof NoServer ? recorded() : 'active';
    }
  }

  /** The conversation to resume: the session's own, else the newest of the folder, unless a person may have that open. */
  #resumable(): string | null {
    if (this.#conversation !== null && this.#record.has(this.#conversation)) return this.#conversation;
    if (this.target.sharesFolder || (this.#window.elsewhere() ?? []).length > 0) return null;
    return this.#record.newest(this.#folder);
  }

  /** False if OpenCode ended. */
  async #startWith(words: readonly string[], until: number): Promise<boolean> {
    await this.#window.start(this.#server.prepare([...this.target.command, ...words]));
    for (;;) {
      if (this.#window.pid === null) return false;
      if (await this.#answers()) break;
      if (performance.now() > until) {
        const seconds = Math.round(this.target.startTimeoutMs / 1000);
        const said = await this.#window.lastLine();
        throw new Refusal('outcome_unknown', `OpenCode was not ready in ${seconds} s: ${said}`);
      }
      await Bun.sleep(POLL_MS);
    }
    await this.#window.settle();
    return true;
  }

  /** Begins a conversation in the running OpenCode, also if an earlier start ended before it could do so. */
  async #begin(until: number): Promise<string> {
    const conversation = await this.#server.create();
    this.#conversation = conversation;
    await this.#show(conversation, until);
    return conversation;
  }

  /** The message id for a prompt: the same at each attempt. After another message it is a newer one, because OpenCode answers only the last. */
  #messageFor({ key }: Prompt, conversation: string): string {
    const last = this.#record.lastMessage(conversation);
    if (this.#message?.key !== key || this.#message.id < last)
      this.#message = { key, id: messageId(endingOf(key), Date.now()) };
    return this.#message.id;
  }

  /** Makes the window show the conversation, so that a person types into it. Repeats the request, because a starting window misses it. */
  async #show(conversation: string, until: number): Promise<void> {
    const { pid } = this.#window;
    const terminal = pid === null ? null : await this.#window.terminalOf(pid);
    for (; terminal && performance.now() < until; await Bun.sleep(POLL_MS)) {
      await this.#server.show(conversation);
      const screen = await terminal.screen();
      if (!screen || (openCodeComposer(screen) !== 'unknown' && !isOpenCodeHome(screen))) return;
    }
  }

  async #answers(): Promise<boolean> {
    try {
      await this.#server.state(null);
      return true;
    } catch {
      return false;
    }
  }
}

function ended(said: string): Refusal {
  return new Refusal('outcome_unknown', said || 'OpenCode ended as soon as it was started');
}

/** Ignores NoServer: a person started the OpenCode in our window, without a server. */
function isNotOurs(error: unknown): void {
  if (!(error instanceof NoServer)) throw error;
}

function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

const left = (because: string, retry: boolean): Submission => ({ outcome: 'left', because, retry });
