import { dirname } from 'node:path';
import type { Env } from '../../core/env.ts';
import { writtenAt } from '../../delivery/held-live.ts';
import type {
  Prompt,
  RecordPlace,
  SessionDriver,
  SessionState,
  SessionTarget,
  Submission,
  TurnEvent,
} from '../../core/ports/session.ts';
import { Refusal } from '../../core/refusal.ts';
import { realPath } from '../../platform/files.ts';
import { saveClientFile } from '../../sessions/client-files.ts';
import { ClientWindow } from '../../sessions/client-window.ts';
import { FolderWatch, linesFrom } from '../../sessions/follow.ts';
import { TurnRecord } from '../../sessions/turn-record.ts';
import { isRecord } from '../../wire/jsonrpc.ts';
import { NoServer } from '../loopback.ts';
import { plainPrompt } from '../plain-prompt.ts';
import { kimiHome, KimiIndex, KimiTurns } from './record.ts';
import { isKimi, kimiComposer } from './state.ts';
import { KimiWebQuestions } from './web-questions.ts';
import { hasOtherKimi, isOnServer, type KimiServer, kimiServers, WEB_CODES, WebRefusal, webState } from './web.ts';

const TICK_MS = 1000;
const POLL_MS = 300;
const OPEN_ELSEWHERE =
  'another Kimi runs in this folder, may have this conversation open and would not notice the prompt; end it first';

/**
 * One session of Kimi 2.1 on a `kimi web`: on a server of a person that has the conversation loaded, else on one that we start in tmux. The
 * server takes prompts and gives the state of the session. `wire.jsonl` of the conversation says what was said.
 *
 * A server and a TUI on one conversation do not notice each other, and nothing says which conversation a TUI has open. So prompts wait while
 * another Kimi runs in the folder.
 */
export class KimiWebSession implements SessionDriver {
  readonly questions: KimiWebQuestions;
  readonly #home: string;
  readonly #folder: string;
  readonly #index: KimiIndex;
  readonly #window: ClientWindow;
  readonly #record: TurnRecord;
  readonly #stops = new Set<() => void>();
  #conversation: string | null;
  #isStarting = false;

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
      isClient: isKimi,
    });
    this.#record = new TurnRecord({
      pathOf: (conversation) => this.#index.find(conversation)?.path ?? null,
      reader: () => new KimiTurns(),
    });
    this.#conversation = target.conversation;
    this.questions = new KimiWebQuestions(
      () => this.#live(),
      () => this.#conversation,
      this.#index,
    );
  }

  async state(): Promise<SessionState> {
    const server = await this.#live();
    const known = this.#conversation === null ? {} : { conversation: this.#conversation };
    if (this.#isStarting) return { status: 'starting', ...known };
    if (!server) return { status: 'stopped', ...known };
    return { ...(await this.#doing(server)), ...known, pid: server.pid };
  }

  watch(changed: () => void): () => void {
    const folders = new FolderWatch(changed);
    const look = (): void => {
      const wire = this.#conversation === null ? undefined : this.#index.find(this.#conversation)?.path;
      folders.set([wire === undefined ? this.#home : dirname(wire)]);
      changed();
    };
    const timer = setInterval(look, TICK_MS);
    const stop = (): void => {
      clearInterval(timer);
      folders.close();
      this.#stops.delete(stop);
    };
    this.#stops.add(stop);
    look();
    return stop;
  }

  prepare(text: string, options: { raw?: boolean } = {}): string {
    return plainPrompt('Kimi', text, options);
  }

  async place(): Promise<RecordPlace> {
    await this.#live();
    return this.#record.place(this.#conversation);
  }

  async events(since: RecordPlace): Promise<{ events: TurnEvent[]; next: RecordPlace }> {
    const server = await this.#live();
    const startedAt = server ? this.#window.startOf(server.pid) : 0;
    return this.#record.events(since, server && { conversation: this.#conversation ?? '', startedAt, idleSince: null });
  }

  isOurs(event: TurnEvent, prompt: Prompt): boolean {
    return event.kind === 'prompt' && event.turn === promptId(prompt);
  }

  async submit(prompt: Prompt, signal: AbortSignal): Promise<Submission> {
    const server = await this.#live();
    if (!server) return left('Kimi does not run in this session', true);
    let conversation: string;
    let model: string | null;
    try {
      conversation = this.#conversation ?? (await this.#begin(server));
      const { status } = await this.#doing(server);
      if (status !== 'idle') return left(`Kimi is ${status}`, true);
      // The server forgets the ids of prompts when it ends.
      if (prompt.isRetry && this.#isRecorded(conversation, promptId(prompt))) return { outcome: 'submitted' };
      model = await this.#firstModel(server, conversation);
      if (await this.#isOpenElsewhere(server, conversation)) return left(OPEN_ELSEWHERE, true);
      if (signal.aborted) return left('it was taken back', false);
    } catch (error) {
      return left(wordsOf(error), true);
    }
    try {
      const content = [{ type: 'text', text: prompt.text }];
      const body = { content, prompt_id: promptId(prompt), ...(model !== null && { model }) };
      const said = await server.call('POST', `/sessions/${conversation}/prompts`, body, { signal });
      const isBlocked = isRecord(said) && said['status'] === 'blocked';
      return isBlocked
        ? left('a hook of Kimi blocked the prompt; it is in the conversation, but begins no turn', false)
        : { outcome: 'submitted' };
    } catch (error) {
      if (error instanceof WebRefusal && error.code === WEB_CODES.promptInUse) return { outcome: 'submitted' };
      if (error instanceof NoServer) return left(wordsOf(error), true);
      return error instanceof WebRefusal && !error.isUnclear
        ? left(wordsOf(error), error.code === WEB_CODES.busy)
        : { outcome: 'unknown', because: wordsOf(error) };
    }
  }

  async start(): Promise<{ started: 'resumed' | 'fresh' }> {
    this.#isStarting = true;
    try {
      await this.#window.look();
      const server = (await this.#live()) ?? (await this.#startServer());
      const id = await this.#resumable(server);
      this.#conversation = id;
      if (id !== null) return { started: 'resumed' };
      await this.#begin(server);
      return { started: 'fresh' };
    } finally {
      this.#isStarting = false;
    }
  }

  async stop(): Promise<void> {
    await this.#window.look();
    if (this.#window.pid !== null) return this.#window.end();
    if (await this.#live())
      throw new Refusal('unreachable', 'this session is on a `kimi web` that you started; end it there');
  }

  /** Always refuses: the terminal of a server shows its token. */
  async screen(): Promise<never> {
    throw new Refusal('unreachable', 'a session on `kimi web` has no terminal; open it in the browser');
  }

  async saveFile(name: string, bytes: Uint8Array, offset?: number): Promise<string> {
    return saveClientFile(this.target.folder, name, bytes, offset);
  }

  async close(): Promise<void> {
    for (const stop of this.#stops) stop();
  }

  /** The server that we started, else a server of a person that has the conversation loaded. */
  async #live(): Promise<KimiServer | null> {
    await this.#window.refresh(() => true);
    const servers = kimiServers(this.#home);
    const own = servers.find(({ pid }) => pid === this.#window.pid);
    if (own) return own;
    for (const server of servers) {
      const loaded = await server.loaded().catch(() => []);
      const here = loaded.filter(({ metadata }) => realPath(metadata.cwd) === this.#folder);
      const isOurs = here.some(({ id }) => id === this.#conversation);
      const isFirst = this.#conversation === null && !this.target.sharesFolder && here.length > 0;
      if (isFirst) this.#conversation = here[0]?.id ?? null;
      if (isOurs || isFirst) return server;
    }
    return null;
  }

  /** The state of the session. A server that does not answer in time is busy, so its session counts as active. */
  async #doing(server: KimiServer): Promise<SessionState> {
    try {
      const session = this.#conversation === null ? null : await server.session(this.#conversation);
      return session ? webState(session) : { status: 'idle' };
    } catch (error) {
      return { status: error instanceof NoServer ? 'stopped' : 'active' };
    }
  }

  /** The model to name in the first prompt, because a conversation that the API made has none; null for later prompts. */
  async #firstModel(server: KimiServer, conversation: string): Promise<string | null> {
    if (this.#index.find(conversation)) return null;
    const config = await server.call('GET', '/config');
    const model = isRecord(config) ? config['default_model'] : null;
    if (typeof model === 'string' && model !== '') return model;
    throw new Error('Kimi has no default model; choose one in its settings');
  }

  async #isOpenElsewhere(server: KimiServer, conversation: string): Promise<boolean> {
    return hasOtherKimi(this.#home, this.#folder) || isOnServer(this.#home, conversation, server);
  }

  /** The conversation to resume: this session's own, else the newest of its folder that no other Kimi may have open. */
  async #resumable(server: KimiServer): Promise<string | null> {
    const isFree = async (id: string): Promise<boolean> => !(await this.#isOpenElsewhere(server, id));
    if (this.#conversation !== null && (await server.session(this.#conversation))) return this.#conversation;
    if (this.target.sharesFolder) return null;
    const all = this.#index.inFolder(this.#folder).toSorted((a, b) => writtenAt(b) - writtenAt(a));
    for (const { id } of all) if (await isFree(id)) return id;
    return null;
  }

  async #begin(server: KimiServer): Promise<string> {
    const made = await server.call('POST', '/sessions', { metadata: { cwd: this.#folder } });
    if (!isRecord(made) || typeof made['id'] !== 'string')
      throw new Error('Kimi began a conversation, but gave no id for it');
    this.#conversation = made['id'];
    return made['id'];
  }

  async #startServer(): Promise<KimiServer> {
    const { command, startTimeoutMs } = this.target;
    const until = performance.now() + startTimeoutMs;
    await this.#window.start([...command, ...(command.includes('--no-open') ? [] : ['--no-open'])]);
    for (; ; await Bun.sleep(POLL_MS)) {
      await this.#window.look();
      const { pid } = this.#window;
      const server = kimiServers(this.#home).find((one) => one.pid === pid);
      if (server && (await server.call('GET', '/meta').catch(() => null))) {
        await this.#window.settle();
        return server;
      }
      if (pid !== null && performance.now() < until) continue;
      // A running server prints its token, so its output must not become an error text.
      const said = pid === null ? (await this.#window.lastLine()).replace(/^.*token.*$/i, '') : '';
      await this.#window.end();
      const because = pid === null ? 'Kimi ended as soon as it was started' : 'Kimi was not ready in time';
      throw new Refusal('outcome_unknown', said || because);
    }
  }

  #isRecorded(conversation: string, id: string): boolean {
    const wire = this.#index.find(conversation)?.path;
    return wire !== undefined && [...linesFrom(wire, 0)].some(({ text }) => text.includes(JSON.stringify(id)));
  }
}

/** Whether this command starts `kimi web` instead of the TUI. */
export function isWebCommand(command: readonly string[]): boolean {
  return command[1] === 'web';
}

/** The same id at each try, because a server takes an id only once. */
function promptId({ key }: Prompt): string {
  return `parley_${key}`;
}

function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

const left = (because: string, retry: boolean): Submission => ({ outcome: 'left', because, retry });
