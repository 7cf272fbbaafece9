// A client in a terminal: a private tmux server of the test, which ends with it.
//
//   const terminal = await aTerminal(place, ['/bin/cat']);
//   await terminal.paste('several\nlines'); await terminal.keys('Enter'); await terminal.shows('lines');
//   terminal.pane, terminal.socket                       // for a product that types into tmux itself
import { isProcessAlive } from '../../../src/platform/process.ts';
import { within } from '../../support/within.ts';
import { opens } from './opened.ts';
import type { Place } from './place.ts';

const DEADLINE = 200_000;
/** A screen that is the same in so many looks in a row, so far apart, is drawn. */
const [LOOKS, LOOK_MS] = [10, 50];

export interface TerminalOptions {
  env?: Record<string, string>;
  cwd?: string;
  /** How long after a paste the client takes Enter for Enter, in ms. */
  enterMs?: number | undefined;
}

export class Terminal {
  constructor(
    readonly socket: string,
    readonly pane: string,
    /** The process in the pane. */
    readonly pid: number,
    readonly env: Record<string, string>,
    readonly enterMs = 0,
  ) {}

  /** What stands on the screen now. */
  screen(): Promise<string> {
    return this.tmux('capture-pane', '-p', '-t', this.pane);
  }

  /** Waits until the screen shows a text. */
  shows(text: string | RegExp, ms = DEADLINE): Promise<string> {
    const isShown = (screen: string): boolean => (typeof text === 'string' ? screen.includes(text) : text.test(screen));
    return this.until(isShown, `show ${String(text)}`, ms);
  }

  /** Waits until the screen is as it should be; `what` says how, after "the screen did not". */
  async until(isSo: (screen: string) => boolean, what: string, ms = DEADLINE): Promise<string> {
    const end = performance.now() + ms;
    for (;;) {
      const screen = await this.screen();
      if (isSo(screen)) return screen;
      if (performance.now() > end) throw new Error(`the screen did not ${what} in ${ms} ms:\n${screen}`);
      // Each look starts a process: without a pause the looking would slow down what is looked at.
      await Bun.sleep(LOOK_MS);
    }
  }

  /** Waits until the screen shows a text and changes no more: the first sight of a dialog may be half of it. */
  async drawn(text: string): Promise<string> {
    let [before, same] = ['', 0];
    return this.until((screen) => {
      same = screen === before && screen.includes(text) ? same + 1 : 0;
      before = screen;
      return same >= LOOKS;
    }, `rest and show ${text}`);
  }

  /** Presses Enter until a dialog is gone from the screen: a client may drop keys that come in the moment in which it opens. */
  async confirm(dialog: string, ms = DEADLINE): Promise<void> {
    const until = performance.now() + ms;
    await this.shows(dialog, ms);
    while ((await this.screen()).includes(dialog)) {
      if (performance.now() > until) throw new Error(`${dialog} did not go away in ${ms} ms`);
      await this.keys('Enter');
      await this.#without(dialog, 2000);
    }
  }

  async #without(text: string, ms: number): Promise<void> {
    const until = performance.now() + ms;
    while (performance.now() < until && (await this.screen()).includes(text)) await Bun.sleep(50);
  }

  /** Types literally, without Enter. */
  async type(text: string): Promise<void> {
    await this.tmux('send-keys', '-t', this.pane, '-l', text);
  }

  /** Presses keys by their tmux names: `keys('Down', 'Enter')`. */
  async keys(...names: string[]): Promise<void> {
    await this.tmux('send-keys', '-t', this.pane, ...names);
  }

  /** Pastes in brackets, as a user does. */
  async paste(text: string): Promise<void> {
    await this.tmux('set-buffer', '-b', 'test', '--', text);
    await this.tmux('paste-buffer', '-p', '-d', '-b', 'test', '-t', this.pane);
  }

  /** Pastes a prompt and sends it. */
  async submit(text: string): Promise<void> {
    await this.paste(text);
    if (this.enterMs > 0) await Bun.sleep(this.enterMs);
    await this.keys('Enter');
  }

  /** Waits until the client has ended by itself. */
  async ended(): Promise<void> {
    await within(DEADLINE, async () => !isProcessAlive(this.pid));
  }

  /** Presses keys until the client has ended: it may want them again, within a time that is short on a busy machine. */
  async leave(...names: string[]): Promise<void> {
    const until = performance.now() + DEADLINE;
    while (isProcessAlive(this.pid) && performance.now() < until) {
      await this.keys(...names).catch(() => 'it has ended');
      for (let look = 0; look < 20 && isProcessAlive(this.pid); look += 1) await Bun.sleep(100);
    }
    await this.ended();
  }

  tmux(...args: string[]): Promise<string> {
    return tmux(this.socket, this.env, args);
  }

  /** Ends the tmux server, and with it the client. */
  async close(): Promise<void> {
    await this.tmux('kill-server').catch(() => 'it ended before');
  }
}

export async function aTerminal(place: Place, command: string[], options: TerminalOptions = {}): Promise<Terminal> {
  const socket = `parley-${crypto.randomUUID().slice(0, 8)}`;
  const env = { ...place.env, ...options.env };
  const cwd = options.cwd ?? place.project;
  const shape = ['-d', '-x', '200', '-y', '50', '-c', cwd, '-P', '-F', '#{pane_id} #{pane_pid}'];
  // By way of env: tmux gives a single word to a shell, whose process would then be the pane's.
  const told = await tmux(socket, env, ['new-session', ...shape, '--', 'env', ...command]);
  const [pane = '', pid = ''] = told.trim().split(' ');
  return opens(new Terminal(socket, pane, Number(pid), env, options.enterMs));
}

async function tmux(socket: string, env: Record<string, string>, args: string[]): Promise<string> {
  const child = Bun.spawn(['tmux', '-L', socket, '-f', '/dev/null', ...args], { env, stdout: 'pipe', stderr: 'pipe' });
  const [out, err, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  if (code !== 0) throw new Error(`tmux ${args[0]} ended with ${code}: ${err.trim()}`);
  return out;
}
