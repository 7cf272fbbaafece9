import { isFree, type TmuxSession } from '../../sessions/tmux-session.ts';
import type { TmuxServer } from '../../sessions/tmux.ts';
import { claudeComposer } from './state.ts';

/** Each look starts processes of tmux. */
const LOOK_MS = 1000;

/**
 * The client in our tmux session while its registry says nothing of it: it starts, or it asks its user something first, such as whether it
 * may trust the folder. That question is its user's to answer, however long it takes.
 */
export class ClaudeOpening {
  /** It shows a question, as of the last look. */
  hasDialog = false;
  /** Its process, and when it was seen first. */
  #found: { pid: number; since: number } | null = null;
  #lookedAt = -Infinity;

  constructor(
    readonly tmux: TmuxServer,
    readonly session: TmuxSession,
    /** As it is started: a program that somebody else runs there is no client. */
    readonly program: string,
    /** One that shows nothing to answer is not waited for longer than this. */
    readonly startTimeoutMs: number,
  ) {}

  /** As of the last look; null if there is no such client. */
  get status(): 'waiting' | 'starting' | null {
    if (!this.#found) return null;
    if (this.hasDialog) return 'waiting';
    return performance.now() - this.#found.since < this.startTimeoutMs ? 'starting' : null;
  }

  /** Looks now and then. The first look is waited for; what changes later is seen a little later. */
  async refresh(): Promise<void> {
    const isFirst = this.#lookedAt === -Infinity;
    if (performance.now() - this.#lookedAt < LOOK_MS) return;
    // A tmux that hangs does not say that the client is gone.
    const look = this.look().catch(() => false);
    if (isFirst) await look;
  }

  /** Whether there is one now. */
  async look(): Promise<boolean> {
    this.#lookedAt = performance.now();
    const pane = await this.session.pane();
    // A client that starts runs a shell for a moment; its pane is not free for that.
    const isOurs = pane?.command.includes(this.program);
    if (!pane || pane.isDead || (isFree(pane) && !isOurs)) return this.forget();
    const screen = await (await this.tmux.terminal(pane.id)).screen();
    this.hasDialog = screen !== null && claudeComposer(screen) === 'dialog';
    const isSame = this.#found?.pid === pane.pid;
    if (!isSame && !this.hasDialog && !isOurs) return this.forget();
    this.#found = { pid: pane.pid, since: (isSame && this.#found?.since) || performance.now() };
    return true;
  }

  forget(): false {
    this.#found = null;
    this.hasDialog = false;
    return false;
  }
}
