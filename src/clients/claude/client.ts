import type { Client, SessionPlace } from '../../delivery/client.ts';
import { claudeShape } from '../../delivery/hook-script.ts';
import { hook, POLL, wake } from '../ways.ts';
import { ShownInTranscript } from './evidence.ts';
import { ClaudeLiveSessions } from './live.ts';
import { ClaudeHookRecord } from './hook-record.ts';
import { ClaudeSessionDriver } from './session.ts';
import { claudeComposer, ClaudeStateReader } from './state.ts';

/** Claude Code 2.1. How each event passes on a hook's output was seen in the client's requests to the model. */
export const claude: Client = {
  name: 'claude',
  hook: {
    name: 'claude',
    events: {
      SessionStart: 'context',
      UserPromptSubmit: 'context',
      PreToolUse: 'context',
      PostToolUse: 'context',
      PostToolUseFailure: 'context',
      PostToolBatch: 'context',
      // At this event a context also prolongs the turn, at most eight times in a row.
      Stop: 'context',
    },
    beginsTurn: ['UserPromptSubmit'],
    endsTurn: ['Stop'],
    oneSession: true,
    // anthropics/claude-code#43750: hook output after a subagent's whole run was silently dropped.
    deafAfter: ['Agent', 'Task'],
    counts: 'characters',
    registers: ['SessionStart', 'UserPromptSubmit', 'PostToolUse', 'PostToolUseFailure', 'Stop'],
    timeout: 10,
    settings(command) {
      return `Claude Code, ~/.claude/settings.json:\n${claudeShape(command, this.timeout, this.registers)}`;
    },
  },
  typing: { composer: claudeComposer, enterAfter: 5, blindEnterAfter: 100 },
  state: ({ session, pid, env }) => new ClaudeStateReader(folderIn(env), session, pid),
  evidence: (folders, session) => new ShownInTranscript(folders, session),
  hookRecord: ({ session, env }, ids, since) => new ClaudeHookRecord(folderIn(env), session, ids, since),
  session: (target, env) => new ClaudeSessionDriver(target, env),
  live: (env) => new ClaudeLiveSessions(folderIn(env)),
  ways: [hook('claude', 'primary', 'its hook looks for mail after every tool call'), wake('claude', 'fallback'), POLL],
};

function folderIn(env: SessionPlace['env']): string {
  return env['CLAUDE_CONFIG_DIR'] || `${env['HOME']}/.claude`;
}
