import { Refusal } from '../../../protocol/refusal.ts';
import type { Env } from '../../env.ts';

/** Managed sessions have a tmux server of their own, so that nobody's own work ends with it. */
const SOCKET = 'c2c';
/** What tmux sets itself for what it starts. */
const NOT_OURS = ['TMUX', 'TMUX_PANE', 'TERM', 'TERM_PROGRAM', 'TERM_PROGRAM_VERSION', 'PWD', 'OLDPWD', 'SHLVL', '_'];
/** The number of the shell becomes that of the client: it can be told before the client runs. */
const EXEC = 'C2C_MCP_CLIENT_PID=$$; export C2C_MCP_CLIENT_PID; exec "$@"';

export interface TmuxSession {
  socket: string;
  /** Where its server is reached, also by programs with another environment. */
  path: string;
  session: string;
  pane: string;
  pid: number;
}

export function tmuxSocket(env: Env): string {
  const named = env['C2C_TMUX_SOCKET'] || SOCKET;
  if (/^[A-Za-z0-9._-]+$/.test(named)) return named;
  throw new Refusal('bad_config', 'C2C_TMUX_SOCKET takes letters, digits, . _ -');
}

/** Starts a program in a tmux session that nobody looks at yet, with this environment and no other. */
export async function startInTmux(order: {
  env: Env;
  cwd: string;
  name: string;
  command: readonly string[];
}): Promise<TmuxSession> {
  const { env, cwd, name, command } = order;
  const socket = tmuxSocket(env);
  // Dots and colons mean something else in a target.
  const session = name.replaceAll(/[.:]/g, '_');
  const clean = Object.fromEntries(
    Object.entries(env).filter(([key, value]) => value !== undefined && !NOT_OURS.includes(key)),
  );
  // Only names stand on the command line, which everybody can read; tmux takes the values from its client.
  const names = Object.keys(clean).filter((key) => /^[A-Za-z_][A-Za-z0-9_]*$/.test(key));
  const settings = ['start-server', ';', 'set-option', '-g', 'update-environment', names.join(' '), ';'];
  const shape = ['new-session', '-d', '-s', session, '-x', '200', '-y', '50', '-c', cwd];
  const told = ['-P', '-F', '#{pane_id} #{pane_pid} #{socket_path}'];
  const words = [...settings, ...shape, ...told, '/bin/sh', '-c', EXEC, 'sh', ...command];
  const said = await tmux(socket, words, clean);
  const [, pane = '', pid = '', path = ''] = /^(%\d+) (\d+) (.*)$/.exec(said.trim()) ?? [];
  if (pane === '') throw new Refusal('unreachable', `tmux started nothing: ${said.slice(0, 200)}`);
  return { socket, path, session, pane, pid: Number(pid) };
}

/** Ends a session with what still runs in it. One that is gone already is no error. */
export async function endTmux({ socket, session }: Pick<TmuxSession, 'socket' | 'session'>, env: Env): Promise<void> {
  await tmux(socket, ['kill-session', '-t', `=${session}`], env).catch(() => 'it is gone');
}

async function tmux(socket: string, words: readonly string[], env: Env): Promise<string> {
  if (!Bun.which('tmux', { PATH: env['PATH'] ?? '' })) {
    throw new Refusal('unreachable', 'tmux is not installed here; install it, or start it with --pty');
  }
  const child = Bun.spawn(['tmux', '-u', '-L', socket, ...words], {
    env,
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  });
  const [out, err, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  if (code === 0) return out;
  throw new Refusal('unreachable', `tmux: ${err.trim().slice(0, 300)}`);
}
