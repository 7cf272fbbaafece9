import { readdirSync } from 'node:fs';
import { basename } from 'node:path';
import type {
  Prompt,
  RecordPlace,
  ScreenOptions,
  SessionDriver,
  SessionState,
  SessionTarget,
  Submission,
  TurnEvent,
} from '../../core/ports/session.ts';
import { reasonOf, Refusal } from '../../core/refusal.ts';
import { typeInto } from '../../delivery/terminal.ts';
import { realPath } from '../../platform/files.ts';
import { isProcessAlive, signalTo, ttyOf } from '../../platform/process.ts';
import { FolderWatch } from '../../sessions/follow.ts';
import { saveClientFile } from '../../sessions/client-files.ts';
import { lastLines, paneOn, TmuxSession, tmuxNameOf, type Pane } from '../../sessions/tmux-session.ts';
import { type TmuxPane, TmuxServer } from '../../sessions/tmux.ts';
import { type LiveClient, TurnRecord } from '../../sessions/turn-record.ts';
import { isCommand, isSamePrompt, preparePrompt } from '../typed-prompt.ts';
import { ClaudeStartup } from './startup.ts';
import { ClaudeQuestions } from './questions.ts';
import {
  claudeComposer,
  claudeHolds,
  type ClaudeSession,
  claudeSessions,
  ClaudeStateReader,
  FollowedRegistry,
  runs,
  STATUS,
} from './state.ts';
import { transcriptOf } from './transcript.ts';
import { TurnReader } from './turns.ts';

/** Poll interval, in case a file event is lost, and because a killed client writes nothing. */
const LOOK_MS = 1000;
/** Time for the client to acknowledge typed text, ms. */
const PROOF_MS = 5000;
/** Time for a client to end before it is killed, ms. */
const END_MS = 5000;
const PAUSE_MS = 100;
/** A killed client loses its terminal before its process ends. A client without a terminal that still runs after this has none. */
const ENDING_MS = 500;
/** While a client starts, its screen is read at every n-th look. */
const DIALOG_LOOKS = 5;
/** The shortest time between paste and Enter. Enter also waits until the screen shows the paste. */
const ENTER_AFTER_MS = 5;

/** The last line of a client that found no conversation to resume. */
const NO_CONVERSATION = /^No conversation found/;

/**
 * One session of Claude Code. The registry has its status, the transcript its turns; it is started and typed to in tmux.
 *
 * The client of this session is, in this order: the same process as before; the client with the session's last conversation; the client in
 * our tmux session; the only client in the folder, which a person started. It is never a client in the tmux session of another session.
 */
export class ClaudeSessionDriver implements SessionDriver {
  readonly #folder: string;
  readonly #cwd: string;
  readonly #tmux: TmuxServer;
  readonly #session: TmuxSession;
  readonly #startup: ClaudeStartup;
  readonly #record: TurnRecord;
  readonly questions: ClaudeQuestions;
  readonly #watched = new Set<FolderWatch>();
  /** Set while `watch` is active. */
  #registry: FollowedRegistry | null = null;
  readonly #stops = new Set<() => void>();
  /** The last known registry entry of the client. */
  #seen: ClaudeSession | null = null;
  #conversation: string | null;
  #isStarting = false;
  /** The last state that `state` returned was not `stopped`. */
  #wasShown = false;

  constructor(
    readonly target: SessionTarget,
    readonly env: Readonly<Record<string, string | undefined>>,
  ) {
    this.#folder = env['CLAUDE_CONFIG_DIR'] || `${env['HOME']}/.claude`;
    this.#cwd = realPath(target.folder);
    this.#tmux = new TmuxServer({ env: { ...env } });
    this.#session = new TmuxSession(this.#tmux, tmuxNameOf(target.name));
    const program = basename(target.command[0] ?? '');
    this.#startup = new ClaudeStartup(this.#tmux, this.#session, program, target.startTimeoutMs);
    this.#record = new TurnRecord({
      pathOf: (conversation) => transcriptOf([this.#folder], conversation),
      reader: () => new TurnReader(),
    });
    this.questions = new ClaudeQuestions({
      live: () => this.#live(),
      terminalOf: (live) => this.#terminalOf(live),
      transcriptOf: (conversation) => transcriptOf([this.#folder], conversation),
    });
    this.#conversation = target.conversation;
  }

  async state(): Promise<SessionState> {
    const live = await this.#live();
    this.#wasShown = live !== null;
    const conversation = this.#conversation === null ? {} : { conversation: this.#conversation };
    // The screen counts only while the registry has no status.
    if (live?.status === undefined) await this.#startup.refresh();
    else this.#startup.forget();
    const opening = this.#startup.status ?? (this.#isStarting ? 'starting' : 'stopped');
    this.#wasShown ||= opening !== 'stopped';
    if (opening === 'waiting') return { status: opening, waitingFor: 'dialog open', ...conversation };
    if (!live) return { status: opening, ...conversation };
    const { status, waitingFor, pid } = live;
    const known = status === undefined ? 'starting' : (STATUS[status] ?? 'active');
    return { status: known, ...(known === 'waiting' && waitingFor && { waitingFor }), ...conversation, pid };
  }

  watch(changed: () => void): () => void {
    const folders = new FolderWatch(changed);
    const registry = FollowedRegistry.follow(this.#folder, changed);
    this.#registry = registry;
    let isOver = false;
    const look = async (): Promise<void> => {
      this.#follow();
      // After a state other than `stopped`, call back in any case: the client may have ended, and the caller must read the state again.
      const isRunning = this.#wasShown || (await this.#live()) !== null;
      if (!isOver && isRunning) changed();
    };
    const timer = setInterval(() => void look(), LOOK_MS);
    const stop = (): void => {
      isOver = true;
      clearInterval(timer);
      this.#watched.delete(folders);
      folders.close();
      registry.leave(changed);
      if (this.#registry === registry) this.#registry = null;
      this.#stops.delete(stop);
    };
    this.#watched.add(folders);
    this.#stops.add(stop);
    void look();
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
    // The registry may be half written, so a client counts as ended only after two looks.
    const live = (await this.#live()) ?? (await Bun.sleep(PAUSE_MS), await this.#live());
    const read = this.#record.events(since, live && asLive(live));
    this.#follow();
    return read;
  }

  isOurs(event: TurnEvent, prompt: Prompt): boolean {
    return event.kind === 'prompt' && isSamePrompt(event.text, prompt.text);
  }

  async submit(prompt: Prompt, signal: AbortSignal): Promise<Submission> {
    const live = await this.#live();
    if (!live) return left('Claude Code does not run in this session', true);
    if (this.#record.isInTurn(asLive(live))) return left('a turn of this session is not over yet', true);
    let terminal: TmuxPane | null;
    try {
      terminal = await this.#terminalOf(live);
    } catch (error) {
      return left(reasonOf(error), true);
    }
    if (!terminal && (await hasEnded(live, ENDING_MS))) return left('Claude Code is ending', true);
    if (!terminal)
      return left(
        `Claude Code (pid ${live.pid}) runs outside of tmux, where nothing can be typed; end it, and send again to start it in tmux`,
        false,
      );
    const states = new ClaudeStateReader(this.#folder, live.sessionId, live.pid);
    const how = {
      composer: claudeComposer,
      // On a first attempt the same text in the composer is a person's draft.
      ...(prompt.isRetry && { isPasted: claudeHolds }),
      enterAfter: ENTER_AFTER_MS,
      proofWithin: PROOF_MS,
    };
    const typed = await typeInto({ terminal, states, ...how }, prompt.text, signal);
    if (typed.typed === 'nothing') return left(typed.because, typed.retry);
    if (typed.typed === 'stranded') return { outcome: 'unknown', because: typed.because };
    const { proof } = typed;
    if (!proof) {
      const screen = await terminal.screen().catch(() => null);
      const isTaken = screen !== null && claudeComposer(screen) === 'empty';
      return { outcome: 'unknown', because: 'Claude Code did not acknowledge what was typed', isTaken };
    }
    // An opened panel or question does not acknowledge a prompt.
    if (proof.state === 'dialog' && !isCommand(prompt.text))
      return {
        outcome: 'unknown',
        because: `after Enter, Claude Code reported ${proof.detail ?? proof.state} instead of a turn`,
      };
    return { outcome: 'submitted' };
  }

  async start(): Promise<{ started: 'resumed' | 'fresh' }> {
    this.#isStarting = true;
    const until = performance.now() + this.target.startTimeoutMs;
    try {
      const live = await this.#live();
      if (live) {
        await this.#ready((one) => one.pid === live.pid, until);
        return { started: 'resumed' };
      }
      // An earlier start is still waiting for the user's answer to a question.
      if (await this.#startup.look()) {
        const pane = await this.#session.pane();
        if (await this.#ready((one) => pane !== null && isIn(one, pane), until)) return { started: 'resumed' };
      }
      for (const [flags, started] of await this.#ways()) {
        if (await this.#startWith(flags, until)) return { started };
        const said = await this.#session.lastLine();
        // Only the conversation is missing: start without it.
        if (started === 'resumed' && NO_CONVERSATION.test(said)) continue;
        await this.#session.end();
        this.#startup.forget();
        throw new Refusal('outcome_unknown', said || 'Claude Code ended as soon as it was started');
      }
      throw new Refusal('unreachable', 'Claude Code could not be started');
    } finally {
      this.#isStarting = false;
    }
  }

  async stop(): Promise<void> {
    const live = await this.#live();
    const pane = await this.#session.pane();
    const isInside = pane !== null && live !== null && isIn(live, pane);
    await this.#session.end();
    this.#startup.forget();
    if (live) {
      if (!isInside && runs(live)) signalTo(live.pid, 'SIGTERM');
      if (!(await hasEnded(live)) && runs(live)) signalTo(live.pid, 'SIGKILL');
      if (!(await hasEnded(live)))
        throw new Refusal('outcome_unknown', `Claude Code (pid ${live.pid}) still runs after it was killed`);
    }
    this.#seen = null;
  }

  async screen(lines: number, options?: ScreenOptions): Promise<string> {
    const live = await this.#live();
    const pane = live ? (await this.#terminalOf(live))?.pane : (await this.#session.pane())?.id;
    if (pane === undefined) throw new Refusal('unreachable', live ? 'no terminal' : 'the session is not running');
    return lastLines(this.#tmux, pane, lines, options);
  }

  async saveFile(name: string, bytes: Uint8Array, offset?: number): Promise<string> {
    return saveClientFile(this.target.folder, name, bytes, offset);
  }

  async close(): Promise<void> {
    for (const stop of this.#stops) stop();
  }

  /** Watches the folder of the transcript, once there is one. */
  #follow(): void {
    const { folder } = this.#record;
    for (const watch of this.#watched) watch.set(folder === null ? [] : [folder]);
  }

  /** The current registry entry of this session's client; null if the client does not run. */
  async #live(): Promise<ClaudeSession | null> {
    const all = await (this.#registry?.sessions() ?? claudeSessions(this.#folder));
    const meant = this.#meant(all.filter(({ kind }) => kind === 'interactive'));
    const found = meant && runs(meant) ? meant : null;
    // The process still runs without an entry: the entry is being written.
    if (!found && this.#seen && runs(this.#seen)) return this.#seen;
    this.#seen = found;
    this.#conversation = found?.sessionId ?? this.#conversation;
    return found;
  }

  #meant(all: readonly ClaudeSession[]): ClaudeSession | null {
    const isHere = (one: ClaudeSession): boolean => tmuxSessionOf(one) === this.#session.name;
    const mayBe = all.filter((one) => isHere(one) || !tmuxSessionOf(one)?.startsWith('ccc-'));
    const same = mayBe.find(({ pid, procStart }) => pid === this.#seen?.pid && procStart === this.#seen.procStart);
    if (same) return same;
    const bound = mayBe.filter(({ sessionId }) => sessionId === this.#conversation);
    const own = bound.find(isHere) ?? bound[0] ?? mayBe.find(isHere);
    if (own || this.target.sharesFolder) return own ?? null;
    const inFolder = mayBe.filter(({ cwd }) => realPath(cwd) === this.#cwd);
    return inFolder.length === 1 ? (inFolder[0] ?? null) : null;
  }

  /** The tmux pane of a client; null if it runs outside of tmux. */
  async #terminalOf({ pid, tmux }: ClaudeSession): Promise<TmuxPane | null> {
    const tty = ttyOf(pid);
    // A system without /proc does not tell the tty, so the client's own entry counts.
    const id = tty === null && process.platform !== 'linux' ? /%\d+$/.exec(tmux ?? '')?.[0] : undefined;
    const pane = tty === null ? id : (await paneOn(this.#tmux, tty))?.id;
    return pane === undefined ? null : this.#tmux.terminal(pane);
  }

  /** The options to start the client with, best first. A conversation that runs elsewhere is not opened a second time. */
  async #ways(): Promise<[string[], 'resumed' | 'fresh'][]> {
    const ways: [string[], 'resumed' | 'fresh'][] = [];
    const bound = this.#conversation;
    if (bound !== null && transcriptOf([this.#folder], bound)) ways.push([['--resume', bound], 'resumed']);
    const isTaken =
      this.target.sharesFolder || (await claudeSessions(this.#folder)).some(({ cwd }) => realPath(cwd) === this.#cwd);
    if (!isTaken && hasConversations(this.#folder, this.#cwd)) ways.push([['-c'], 'resumed']);
    return [...ways, [[], 'fresh']];
  }

  /** False if the client ended. */
  async #startWith(flags: readonly string[], until: number): Promise<boolean> {
    const [name = '', ...words] = this.target.command;
    const program = Bun.which(name, { PATH: this.env['PATH'] ?? '' });
    if (program === null)
      throw new Refusal('not_found', `there is no program ${name}; install it, or configure its path`);
    const moved = this.env['CLAUDE_CONFIG_DIR'];
    const command = [...(moved ? [`CLAUDE_CONFIG_DIR=${moved}`] : []), program, ...words, ...flags];
    const pane = await this.#session.start(command, this.target.folder);
    if (!(await this.#ready((one) => isIn(one, pane), until))) return false;
    await this.#session.forget();
    return true;
  }

  /** Waits until the client has a status in the registry, or asks its user a question before that. False if the client ended. */
  async #ready(isIt: (one: ClaudeSession) => boolean, until: number): Promise<boolean> {
    for (let looks = 1; ; looks += 1) {
      const found = (await claudeSessions(this.#folder)).find(isIt);
      if (found?.status !== undefined) {
        this.#seen = found;
        this.#conversation = found.sessionId;
        return true;
      }
      const pane = await this.#session.pane();
      if (pane ? pane.isDead : !found) return false;
      if (looks % DIALOG_LOOKS === 0 && (await this.#startup.look()) && this.#startup.hasDialog) return true;
      if (performance.now() > until) {
        const said = await this.#session.lastLine();
        const seconds = this.target.startTimeoutMs / 1000;
        throw new Refusal(
          'outcome_unknown',
          `Claude Code was not ready within ${seconds} s${said && `; it shows: ${said}`}`,
        );
      }
      await Bun.sleep(PAUSE_MS);
    }
  }
}

/** Waits until a client has ended; false if it still runs after `ms`. */
async function hasEnded(live: ClaudeSession, ms = END_MS): Promise<boolean> {
  const until = performance.now() + ms;
  while (runs(live) && performance.now() < until) await Bun.sleep(PAUSE_MS);
  return !runs(live);
}

function asLive({ sessionId, startedAt = 0, status, statusUpdatedAt = 0 }: ClaudeSession): LiveClient {
  return { conversation: sessionId, startedAt, idleSince: status === 'idle' ? statusUpdatedAt : null };
}

function isIn({ pid }: ClaudeSession, pane: Pane): boolean {
  return pid === pane.pid || (pane.tty !== null && isProcessAlive(pid) && ttyOf(pid) === pane.tty);
}

/** The name of the tmux session in a client's registry entry, which has `name:@window.%pane`. */
function tmuxSessionOf({ tmux }: ClaudeSession): string | null {
  return tmux === undefined ? null : (tmux.split(':')[0] ?? null);
}

/** Does Claude Code have a conversation of this folder? Its folder name has only the beginning of a long path. */
function hasConversations(folder: string, cwd: string): boolean {
  const slug = cwd.replace(/[^A-Za-z0-9]/g, '-').slice(0, 150);
  try {
    return readdirSync(`${folder}/projects`).some(
      (name) =>
        name.startsWith(slug) && readdirSync(`${folder}/projects/${name}`).some((file) => file.endsWith('.jsonl')),
    );
  } catch {
    return false;
  }
}

const left = (because: string, retry: boolean): Submission => ({ outcome: 'left', because, retry });
