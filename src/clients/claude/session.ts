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
import { ClaudeOpening } from './opening.ts';
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

/** In case a file event was lost, and because a client that was killed writes nothing. */
const LOOK_MS = 1000;
/** Limit for the client to acknowledge what was typed, ms. */
const PROOF_MS = 5000;
/** Limit for a client to end, before it is killed, ms. */
const END_MS = 5000;
const PAUSE_MS = 100;
/** A client that was killed loses its terminal first. Only one that still runs after this has none. */
const ENDING_MS = 500;
/** A client that starts is looked at so often before its screen is. */
const DIALOG_LOOKS = 5;
/** Enter waits in any case until the screen shows the paste. */
const ENTER_AFTER_MS = 5;

/** What it says before it ends, where there is nothing to go on with. */
const NOTHING_THERE = /^No conversation found/;

/**
 * One session of Claude Code. Its registry says what it does, its transcript what was said, and tmux is where it is started and typed to.
 *
 * Which client is meant: the process that it was before; else the one with the conversation that this session had last; else the one in our
 * tmux session; else the only one in its folder, which a person opened by hand. A client in the tmux session of another name is never meant.
 */
export class ClaudeSessionDriver implements SessionDriver {
  readonly #folder: string;
  readonly #cwd: string;
  readonly #tmux: TmuxServer;
  readonly #session: TmuxSession;
  readonly #opening: ClaudeOpening;
  readonly #record: TurnRecord;
  readonly questions: ClaudeQuestions;
  readonly #watched = new Set<FolderWatch>();
  /** While this session is followed. */
  #registry: FollowedRegistry | null = null;
  readonly #stops = new Set<() => void>();
  /** The client as it was seen last. */
  #seen: ClaudeSession | null = null;
  #conversation: string | null;
  #isStarting = false;
  /** The last state that was told is one of a client that ran. */
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
    this.#opening = new ClaudeOpening(this.#tmux, this.#session, program, target.startTimeoutMs);
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
    // What it shows counts only as long as it says nothing of itself.
    if (live?.status === undefined) await this.#opening.refresh();
    else this.#opening.forget();
    const opening = this.#opening.status ?? (this.#isStarting ? 'starting' : 'stopped');
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
      // One that was shown is looked at by those who are told; it may have gone meanwhile.
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
    // A registry can be read in the moment in which it is written. That a client has ended is said only after two looks.
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
    if (this.#record.isInTurn(asLive(live))) return left('a turn of this session has not ended', true);
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
      // On a first attempt the same words are a person's, who may not have made up their mind.
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
    // A panel or a question opened: that is no answer to a prompt.
    if (proof.state === 'dialog' && !isCommand(prompt.text))
      return { outcome: 'unknown', because: `Claude Code says after Enter that it is ${proof.detail ?? proof.state}` };
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
      // It was started before, and its user has not answered what it asks.
      if (await this.#opening.look()) {
        const pane = await this.#session.pane();
        if (await this.#ready((one) => pane !== null && isIn(one, pane), until)) return { started: 'resumed' };
      }
      for (const [flags, started] of await this.#ways()) {
        if (await this.#startWith(flags, until)) return { started };
        const said = await this.#session.lastLine();
        // Only what it was to go on with is missing.
        if (started === 'resumed' && NOTHING_THERE.test(said)) continue;
        await this.#session.end();
        this.#opening.forget();
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
    this.#opening.forget();
    if (live) {
      if (!isInside && runs(live)) signalTo(live.pid, 'SIGTERM');
      if (!(await hasEnded(live)) && runs(live)) signalTo(live.pid, 'SIGKILL');
      if (!(await hasEnded(live)))
        throw new Refusal('outcome_unknown', `Claude Code (pid ${live.pid}) was killed and does not end`);
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

  /** Where its transcript is written, as soon as that is there. */
  #follow(): void {
    const { folder } = this.#record;
    for (const watch of this.#watched) watch.set(folder === null ? [] : [folder]);
  }

  /** The client that is meant, as it says of itself now; null if it does not run. */
  async #live(): Promise<ClaudeSession | null> {
    const all = await (this.#registry?.sessions() ?? claudeSessions(this.#folder));
    const meant = this.#meant(all.filter(({ kind }) => kind === 'interactive'));
    const found = meant && runs(meant) ? meant : null;
    // One that still runs, and is not in the registry, is being written there.
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

  /** The pane that a client runs in; null if it runs outside of tmux. */
  async #terminalOf({ pid, tmux }: ClaudeSession): Promise<TmuxPane | null> {
    const tty = ttyOf(pid);
    // Where the system does not tell, the client's own word for it must do.
    const id = tty === null && process.platform !== 'linux' ? /%\d+$/.exec(tmux ?? '')?.[0] : undefined;
    const pane = tty === null ? id : (await paneOn(this.#tmux, tty))?.id;
    return pane === undefined ? null : this.#tmux.terminal(pane);
  }

  /** How it may be started, the best first. A conversation that runs elsewhere is not opened a second time. */
  async #ways(): Promise<[string[], 'resumed' | 'fresh'][]> {
    const ways: [string[], 'resumed' | 'fresh'][] = [];
    const bound = this.#conversation;
    if (bound !== null && transcriptOf([this.#folder], bound)) ways.push([['--resume', bound], 'resumed']);
    const isTaken =
      this.target.sharesFolder || (await claudeSessions(this.#folder)).some(({ cwd }) => realPath(cwd) === this.#cwd);
    if (!isTaken && hasConversations(this.#folder, this.#cwd)) ways.push([['-c'], 'resumed']);
    return [...ways, [[], 'fresh']];
  }

  /** False if it ended. */
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

  /** Waits until the client says something of itself, or asks its user something before that. False if it ended. */
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
      if (looks % DIALOG_LOOKS === 0 && (await this.#opening.look()) && this.#opening.hasDialog) return true;
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

/** Waits for a client that ends. */
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

/** The name of the tmux session in which a client says that it runs: `name:@window.%pane`. */
function tmuxSessionOf({ tmux }: ClaudeSession): string | null {
  return tmux === undefined ? null : (tmux.split(':')[0] ?? null);
}

/** Whether Claude Code has a conversation of this folder. Of a long path it keeps only the beginning in the name. */
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
