import { isFree, type TmuxSession } from '../../sessions/tmux-session.ts';
import type { TmuxServer } from '../../sessions/tmux.ts';
import { claudeComposer } from './state.ts';

/** The shortest time between two looks, because each starts tmux processes. */
const LOOK_MS = 1000;

/**
 * A client in our tmux session that is not in its registry yet: it starts, or it first asks its user something, for example whether it may
 * trust the folder. Only the user answers that question, however long it takes.
 */
export class ClaudeStartup {
  /** At the last look the screen showed a question. */
  hasDialog = false;
  /** The client's process, and the time at which it was first seen. */
  #found: { pid: number; since: number } | null = null;
  #lookedAt = -Infinity;

  constructor(
    readonly tmux: TmuxServer,
    readonly session: TmuxSession,
    /** The program that Parley starts. Any other program in the pane is not the client. */
    readonly program: string,
    /** How long a client counts as starting while its screen shows no question. */
    readonly startTimeoutMs: number,
  ) {}

  /** The status at the last look; null if no client is starting. */
  get status(): 'waiting' | 'starting' | null {
    if (!this.#found) return null;
    if (this.hasDialog) return 'waiting';
    return performance.now() - this.#found.since < this.startTimeoutMs ? 'starting' : null;
  }

  /** Looks again if the last look is too old. Waits only for the first look. */
  async refresh(): Promise<void> {
    const isFirst = this.#lookedAt === -Infinity;
    if (performance.now() - this.#lookedAt < LOOK_MS) return;
    // A look that fails or hangs in tmux does not mean that the client is gone.
    const look = this.look().catch(() => false);
    if (isFirst) await look;
  }

  /** Is a client starting now? */
  async look(): Promise<boolean> {
    this.#lookedAt = performance.now();
    const pane = await this.session.pane();
    // A starting client runs a shell for a moment; its pane is in use all the same.
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
