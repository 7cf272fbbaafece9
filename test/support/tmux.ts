// A private tmux server of the test.
import { temporaryHome } from './home.ts';

/**
 * A program for a pane that says a line and ends. It ends when tmux has drawn the line: what tmux has not read by then is lost. Only then it
 * answers where its cursor is.
 */
export function saysAndEnds(line: string, code: number): string[] {
  const script = 'stty -icanon -echo; printf "%s\\n\\033[6n" "$1"; dd bs=1 count=6 of=/dev/null 2>/dev/null; exit "$2"';
  return ['sh', '-c', script, 'sh', line, String(code)];
}

export class TestTmux {
  readonly path = `${temporaryHome()}/s`;

  /** Starts a program in a session of its own; gives its pane. */
  async start(session: string, command: string[], more: string[] = []): Promise<string> {
    const words = ['new-session', '-d', '-s', session, '-x', '120', '-y', '40', ...more, '-P', '-F', '#{pane_id}'];
    return (await this.run(...words, '--', 'env', ...command)).trim();
  }

  async run(...words: string[]): Promise<string> {
    const child = Bun.spawn(['tmux', '-S', this.path, '-f', '/dev/null', ...words], {
      env: { ...process.env, TMUX: undefined, LC_ALL: 'C.UTF-8', BUN_RUNTIME_TRANSPILER_CACHE_PATH: '0' },
      stdout: 'pipe',
      stderr: 'pipe',
    });
    const [out, err, code] = await Promise.all([
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
      child.exited,
    ]);
    if (code !== 0) throw new Error(`tmux ${words[0]}: ${err}`);
    return out;
  }

  async close(): Promise<void> {
    await this.run('kill-server').catch(() => 'it ended before');
  }
}
