import type { Program } from '../../support/program.ts';
import type { Place } from './place.ts';
import { Terminal } from './terminal.ts';

/** The tmux server of the sessions that a test starts with `c2c start`. It lies in the home of the test, and ends with it. */
export const SOCKET = { C2C_TMUX_SOCKET: 'c2c-test' };

/** `c2c start …` as it is typed, and the terminal in which the client runs then. */
export async function aManaged(place: Place, program: Program, ...args: string[]): Promise<Terminal> {
  const command = ['start', ...args.slice(0, 1), '--json', ...args.slice(1)];
  const { out, err, code } = await program.run(command, { name: 'c2c', cwd: place.project });
  if (code !== 0) throw new Error(`c2c start ${args.join(' ')} ended with ${code}: ${err}`);
  const { terminal, pid } = JSON.parse(out) as { terminal: string; pid: number };
  const pane = terminal.slice(terminal.lastIndexOf(':') + 1);
  return new Terminal(SOCKET.C2C_TMUX_SOCKET, pane, pid, program.env);
}
