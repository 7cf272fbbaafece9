import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { Machine, until } from './bch.ts';
import type { Options, Running } from './bch.ts';

/** A relay at work on a machine of its own, reached as any client would. */
export class RelayMachine extends Machine {
  /** Processes that must not outlive the test. */
  readonly #started: Running[] = [];

  /** `parley relay …` on a free port, once it says that it listens. */
  async relay(args: string[] = [], options: Options = {}): Promise<{ running: Running; url: string }> {
    const running = this.run('parley', ['relay', '--port', '0', ...args], options);
    return { running, url: await listening(running) };
  }

  run(name: 'bch' | 'parley', args: string[], options: Options = {}): Running {
    const running = this.start(name, args, options);
    this.#started.push(running);
    return running;
  }

  /** Ends whatever still runs: processes started here, and a daemon that was left in the background. */
  async endAll(): Promise<void> {
    for (const { child } of this.#started) if (child.exitCode === null) child.kill('SIGKILL');
    await Promise.all(this.#started.map((running) => running.ended()));
    const notice = `${this.program.home}/.parley/daemon.json`;
    if (!existsSync(notice)) return;
    const { pid } = JSON.parse(readFileSync(notice, 'utf8')) as { pid: number };
    if (this.isRunning(pid)) process.kill(pid, 'SIGKILL');
    await until('the daemon to end', () => !this.isRunning(pid));
  }

  /** Does this process run? A zombie does not. */
  isRunning(pid: number): boolean {
    try {
      return !/^\d+ \(.*\) [ZX]/s.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
    } catch {
      return false;
    }
  }

  /** Every message file of a mailbox that waits, by its id. */
  waiting(mailbox: string): string[] {
    const folder = `${this.root}/spool/${mailbox}/new`;
    return existsSync(folder) ? readdirSync(folder).map((name) => name.replace(/\.json$/, '')) : [];
  }
}

/** The address that a relay says it listens on. */
export async function listening(running: Running): Promise<string> {
  await until(
    'a relay that listens',
    () => /listening on http\S+\n/.test(running.out) || running.child.exitCode !== null,
  );
  const [, url] = /listening on (http\S+)\n/.exec(running.out) ?? [];
  if (!url) throw new Error(`no relay: ${running.out}${running.err}`);
  return url;
}
