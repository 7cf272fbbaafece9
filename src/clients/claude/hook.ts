import type { HookClient } from '../hook-client.ts';
import { claudeShape } from '../settings-shape.ts';

/** Claude Code 2.1: what each event does with a hook's output was seen in its requests to the model. */
export const claude: HookClient = {
  name: 'claude',
  events: {
    SessionStart: 'context',
    UserPromptSubmit: 'context',
    PreToolUse: 'context',
    PostToolUse: 'context',
    PostToolUseFailure: 'context',
    PostToolBatch: 'context',
    // Here the context also makes the turn go on, at most eight times in a row.
    Stop: 'context',
  },
  beginsTurn: ['UserPromptSubmit'],
  endsTurn: ['Stop'],
  oneSession: true,
  // anthropics/claude-code#43750: what a hook says after a subagent's whole run was dropped in silence.
  deafAfter: ['Agent', 'Task'],
  counts: 'characters',
  registers: ['SessionStart', 'UserPromptSubmit', 'PostToolUse', 'PostToolUseFailure', 'Stop'],
  timeout: 10,
  settings(command) {
    return `Claude Code, ~/.claude/settings.json:\n${claudeShape(command, this.timeout, this.registers)}`;
  },
};
