import type { Client } from '../../delivery/client.ts';
import { claudeShape } from '../../delivery/hook-script.ts';
import { hook, POLL, wake } from '../ways.ts';
import { CodexLive } from './live.ts';
import { CodexHookRecord } from './proof.ts';
import { codexHome } from './rpc.ts';
import { CodexSession } from './session.ts';
import { codexComposer, codexEnding } from './state.ts';

/** Codex 0.166. A block after a tool would replace the tool's own output, so it is used only where a turn ends. */
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
    // It takes four bytes for a token and shows 2,500 of them.
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
  // It also runs without its daemon; then a session has a process of its own.
  sharesProcess: ({ words }) => words.includes('app-server'),
  isWindowed: true,
  live: (env) => new CodexLive(env),
  ways: [
    wake('codex', 'primary'),
    hook('codex', 'fallback', 'its hook looks after every tool call and at the end of a turn', ' --hooks'),
    POLL,
  ],
};
