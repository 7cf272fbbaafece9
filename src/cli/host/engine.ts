import type { ServiceContext, Log } from '../../core/service.ts';
import { PROMPTS } from '../../delivery/event-text.ts';
import { Hall } from '../../doors/host/hall.ts';
import { Host } from '../../flow/host/host.ts';
import { VERSION } from '../../platform/program.ts';
import { hashOf, newAgentToken } from '../../protocol/tokens.ts';

/** More than a timer can count; whoever sets it looks again. */
const LONGEST_MS = 2 ** 31 - 1;

/** The engine at work on the user's own home, and the hall in which its peers are. */
export interface Running {
  hall: Hall;
  /** Parts from everybody, and lets the engine finish what it has. */
  close(): Promise<void>;
}

export async function startEngine({ env, settings, homes }: ServiceContext, log: Log): Promise<Running> {
  const { bodyLimit, durability, composeMs } = settings;
  // The host serves every mailbox of the home: no agent in particular.
  const workspace = homes.openWorkspace(env, { bodyLimit, durability }, 'parley', { stays: true });
  const [home] = workspace.homes;
  if (!home) throw new Error('a workspace has a home');
  const engine = new Host({
    workspace,
    home,
    now: Date.now,
    after(ms, run) {
      const timer = setTimeout(run, Math.min(ms, LONGEST_MS));
      return { cancel: () => clearTimeout(timer) };
    },
    newToken: newAgentToken,
    hash: hashOf,
    log,
    render: PROMPTS,
    composeMs,
  });
  await engine.start();
  const hall = new Hall({ engine, version: VERSION, now: Date.now, log });
  return {
    hall,
    async close() {
      await hall.close();
      await engine.close();
      for (const { directory } of workspace.homes) await directory.close();
    },
  };
}
