import { clientNamed } from '../../clients/clients.ts';
import type { Typing } from '../../delivery/client.ts';
import { TerminalWay } from '../../delivery/terminal.ts';
import { unseen } from '../../sessions/terminal.ts';
import type { Terminal } from '../../sessions/terminal.ts';
import type { Env } from '../env.ts';
import { signsOf } from './signs.ts';
import { readTerminal } from './terminal-spec.ts';
import type { Seat } from './terminal-loop.ts';
import type { Wanted } from './wanted.ts';

/** How long the client's own word that it got what was typed is waited for. */
const PROOF_MS = 3000;
/** A client that nobody described to us: its screen cannot be read, and its own state must do alone. */
const UNKNOWN: Typing = { composer: unseen, enterAfter: 20, blindEnterAfter: 20 };

/** A terminal with its client, as a loop needs it. Whoever took it leaves it. */
export async function takeSeat(wanted: Wanted, env: Env, own?: Terminal): Promise<Seat & { close(): Promise<void> }> {
  const { terminal, close } = own ? { terminal: own, close: async () => {} } : await openTerminal(wanted, env);
  const signs = await signsOf(wanted, env);
  const known = clientNamed(wanted.client)?.typing ?? UNKNOWN;
  // Of a terminal that somebody else owns nobody can read the screen.
  const manners = wanted.terminal?.startsWith('pty:')
    ? { ...known, composer: unseen, enterAfter: known.blindEnterAfter }
    : known;
  const enterAfter = wanted.options.submit_delay_ms ?? manners.enterAfter;
  const typing = (where: Terminal) =>
    new TerminalWay({ ...manners, terminal: where, states: signs, enterAfter, proofWithin: PROOF_MS });
  return { terminal, signs, typing, close };
}

async function openTerminal(wanted: Wanted, env: Env): Promise<{ terminal: Terminal; close(): Promise<void> }> {
  const spec = readTerminal(wanted.terminal ?? '');
  if (spec.kind === 'foreign') {
    const { ForeignPty } = await import('../../sessions/pty.ts');
    // Whoever names a terminal by its numbers has asked for it.
    const terminal = ForeignPty.open({ asked: true, where: { pts: spec.pts }, terminal: spec.terminalPid });
    return { terminal, close: () => terminal.close() };
  }
  const { TmuxServer } = await import('../../sessions/tmux.ts');
  const { socket, path } = spec;
  const server = await TmuxServer.open({ ...(socket && { socket }), ...(path && { path }), env });
  try {
    return { terminal: await server.terminal(spec.target), close: () => server.close() };
  } catch (error) {
    await server.close();
    throw error;
  }
}
