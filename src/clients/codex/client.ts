import type { Client } from '../../delivery/client.ts';
import { claudeShape } from '../../delivery/hook-script.ts';
import { hook, POLL, wake } from '../ways.ts';
import { CodexLive } from './live.ts';
import { CodexHookRecord } from './proof.ts';
import { codexHome } from './rpc.ts';
import { CodexSession } from './session.ts';
import { codexComposer, codexEnding } from './state.ts';

/** Codex 0.166. Only Stop uses `block`: after a tool, `block` would replace the tool's output. */
export const codex: Client = {
  name: 'codex',
  hook: {
    name: 'codex',
    events: {
      SessionStart: 'context',
      UserPromptSubmit: 'context',
      PreToolUse: 'context',
      PostToolUse: 'context',
      Stop: 'block',
    },
    beginsTurn: ['UserPromptSubmit'],
    endsTurn: ['Stop'],
    deafAfter: [],
    // Codex counts four bytes as a token and shows 2,500 tokens.
    counts: 'bytes',
    registers: ['SessionStart', 'UserPromptSubmit', 'PostToolUse', 'Stop'],
    timeout: 10,
    settings(command) {
      return `Codex, ~/.codex/hooks.json (then trust it when Codex asks):\n${claudeShape(command, this.timeout, this.registers)}`;
    },
  },
  typing: { composer: codexComposer, enterAfter: 5, blindEnterAfter: 20, ending: codexEnding },
  hookRecord: ({ session, env }, ids, since) => new CodexHookRecord(codexHome(env), session, ids, since),
  session: (target, env) => new CodexSession(target, env),
  // Only the daemon (`app-server`) serves several sessions. A window without the daemon is one session.
  sharesProcess: ({ words }) => words.includes('app-server'),
  isWindowed: true,
  live: (env) => new CodexLive(env),
  ways: [
    wake('codex', 'primary'),
    hook('codex', 'fallback', 'its hook looks for mail after every tool call and at the end of a turn', ' --hooks'),
    POLL,
  ],
};
