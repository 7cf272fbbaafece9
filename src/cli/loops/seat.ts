import { TerminalWay } from '../../delivery/terminal.ts';
import { unseen } from '../../sessions/terminal.ts';
import type { ReadComposer, Terminal } from '../../sessions/terminal.ts';
import type { Env } from '../env.ts';
import { signsOf } from './signs.ts';
import { readTerminal } from './terminal-spec.ts';
import type { Seat } from './terminal-loop.ts';
import type { Wanted } from './wanted.ts';

/** How long the client's own word that it got what was typed is waited for. */
const PROOF_MS = 3000;
/**
 * Between a paste and its Enter, at least. Enter waits in any case until the screen shows the paste, and then Claude Code 2.1, Codex 0.166
 * and OpenCode 1.18 take it for what it is, also behind 64 KB.
 */
const ENTER_MS = 5;
/** Where no screen says that the paste has come: the end of a bracketed paste is marked, so most clients need no more than this. */
const BLIND_ENTER_MS = 20;
const CLAUDE_BLIND_ENTER_MS = 100;

/** How a client is typed to: what its screen shows, how long after a paste Enter follows, and how a text must end. */
interface Manners {
  composer: ReadComposer;
  enterAfter: number;
  /** The same where its screen cannot be read. */
  blindEnterAfter: number;
  ending?: (text: string) => string;
}

/** A terminal with its client, as a loop needs it. Whoever took it leaves it. */
export async function takeSeat(wanted: Wanted, env: Env, own?: Terminal): Promise<Seat & { close(): Promise<void> }> {
  const { terminal, close } = own ? { terminal: own, close: async () => {} } : await openTerminal(wanted, env);
  const signs = await signsOf(wanted, env);
  const known = await mannersOf(wanted.client);
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

/** Where a client has manners of its own, they stand with the client. For a program that nobody knows, its sign must do alone. */
async function mannersOf(client: string): Promise<Manners> {
  const usual = { enterAfter: ENTER_MS, blindEnterAfter: BLIND_ENTER_MS };
  switch (client) {
    case 'claude': {
      const { claudeComposer } = await import('../../clients/claude/state.ts');
      return { ...usual, composer: claudeComposer, blindEnterAfter: CLAUDE_BLIND_ENTER_MS };
    }
    case 'codex': {
      const { codexComposer, codexEnding } = await import('../../clients/codex/state.ts');
      return { ...usual, composer: codexComposer, ending: codexEnding };
    }
    case 'opencode':
      return { ...usual, composer: (await import('../../clients/opencode/state.ts')).openCodeComposer };
    case 'kimi': {
      const { kimiComposer, KIMI_ENTER_AFTER } = await import('../../clients/kimi/state.ts');
      return { composer: kimiComposer, enterAfter: KIMI_ENTER_AFTER, blindEnterAfter: KIMI_ENTER_AFTER };
    }
    default:
      return { ...usual, composer: unseen, enterAfter: BLIND_ENTER_MS };
  }
}
