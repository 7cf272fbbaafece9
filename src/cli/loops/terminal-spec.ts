import { Refusal } from '../../protocol/refusal.ts';

/** Where a client runs, as it is written on a command line and in a file. spec: c2c#terminals */
export type TerminalSpec =
  | { kind: 'tmux'; socket?: string; path?: string; target: string }
  | { kind: 'foreign'; terminalPid: number; pts: number };

const TMUX = /^tmux(?:@([A-Za-z0-9._-]+|\/[^:]+))?:(.+)$/;
const FOREIGN = /^pty:(\d{1,10}):(\d{1,6})$/;

/** `tmux:%3`, `tmux:work:0.1`, `tmux@c2c:work` (a server of that name), or `pty:<pid of the terminal>:<number of the pts>`. */
export function readTerminal(text: string): TerminalSpec {
  const [, server, target] = TMUX.exec(text) ?? [];
  if (target !== undefined) {
    const where = server === undefined ? {} : server.startsWith('/') ? { path: server } : { socket: server };
    return { kind: 'tmux', ...where, target: exact(target) };
  }
  const [, pid, pts] = FOREIGN.exec(text) ?? [];
  if (pid !== undefined && pts !== undefined) return { kind: 'foreign', terminalPid: Number(pid), pts: Number(pts) };
  throw new Refusal(
    'invalid_request',
    `"${text.replace(/\p{Cc}/gu, '?').slice(0, 80)}" names no terminal; write tmux:%3, tmux:work:0.1, tmux@<server>:<session> or pty:<terminal pid>:<pts>`,
  );
}

/** tmux takes the beginning of a name for the name, unless it is told not to. */
function exact(target: string): string {
  if (target.startsWith('%') || target.startsWith('=')) return target;
  return target.includes(':') ? `=${target}` : `=${target}:`;
}
