import type { HookClient } from '../hook-client.ts';
import { claudeShape } from '../settings-shape.ts';

/** Codex 0.166. A block after a tool would replace the tool's own output, so it is used only where a turn ends. */
export const codex: HookClient = {
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
};
