import { clientNamed } from '../clients/clients.ts';
import type { Env } from '../core/env.ts';
import type { AgentName } from '../core/names.ts';
import { reasonOf } from '../core/refusal.ts';
import { TerminalHolder } from '../delivery/held-session.ts';
import { parleyHome } from '../platform/env.ts';
import { restoreFileLimit } from '../platform/exec.ts';
import { isTerminal } from '../platform/terminal.ts';
import { HeldTerminal } from '../sessions/pass-through.ts';

export interface HoldOrder {
  client: string;
  program: string;
  /** All words for the client. */
  args: readonly string[];
  name: AgentName;
  cwd: string;
  folder: string;
  env: Env;
}

/** Can this process hold a client's terminal? It needs one itself. */
export function canHold(): boolean {
  return isTerminal(0) && isTerminal(1);
}

/** Runs a client in a terminal of ours until it ends, and lets the follower type its mail there. Ends this process as the client ended. */
export async function holdClient({ client, program, args, name, cwd, folder, env }: HoldOrder): Promise<void> {
  // For the client: the runtime has raised it for itself.
  restoreFileLimit();
  let holder: TerminalHolder | null = null;
  const held = new HeldTerminal([program, ...args], { cwd, env, drew: () => holder?.drew() });
  const { pid, startedAt } = held.pty;
  const { held: heldClient, typing } = clientNamed(client) ?? {};
  const own = heldClient?.({ pid, startedAt, folder, args, env });
  const how = own && typing ? { own, composer: typing.composer } : null;
  holder = new TerminalHolder({ home: parleyHome(env), client, name, folder, held, typing: how });
  // Without the socket the client runs all the same. The screen is its own by now: nothing is said there.
  await holder.open().catch((error: unknown) => void reasonOf(error));
  const end = await held.ended();
  holder.close();
  if (typeof end === 'number') {
    process.exitCode = end;
    return;
  }
  process.removeAllListeners(end);
  process.kill(process.pid, end);
  // A signal that was ignored when we started does not end us.
  process.exitCode = 1;
}
