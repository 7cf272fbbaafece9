import section from './section.md' with { type: 'text' };
import skill from './skill.md' with { type: 'text' };
import { programLine } from '../../delivery/hook-script.ts';
import { join } from 'node:path';
import { claudeFolder, claudeSettings } from '../../clients/claude/settings.ts';
import { codexSettings } from '../../clients/codex/settings.ts';
import { geminiSettings } from '../../clients/gemini/settings.ts';
import { additionsOf } from '../../clients/settings/client-settings.ts';
import type { ClientSettings, Hook, InstallProfile, InstallTarget } from '../../clients/settings/client-settings.ts';
import type { Addition } from '../../clients/settings/changes.ts';
import { inShell } from '../../clients/shell-word.ts';

/** The clients that `bch setup` knows, and the names that the original prints for them. */
export const BCH_CLIENTS: readonly { client: ClientSettings; harness: string }[] = [
  { client: claudeSettings, harness: 'claude-code' },
  { client: codexSettings, harness: 'codex' },
  { client: geminiSettings, harness: 'gemini-cli' },
];

/**
 * What `bch setup` adds to a client: the server, and for Claude Code a hook and a skill, for others a section in their file of
 * instructions. Codex gets no hook: its user would have to trust it.
 */
export function bchAdditions(
  { client, harness }: (typeof BCH_CLIENTS)[number],
  target: InstallTarget,
  program: string,
): Addition[] {
  const isClaude = client.name === 'claude';
  const path = join(claudeFolder(target), 'skills/backchannel/SKILL.md');
  const profile: InstallProfile = {
    by: 'bch',
    serverName: 'backchannel',
    server: { command: program, args: ['bch', 'mcp'], env: {} },
    forProject: false,
    hooks: isClaude ? [mailHook(program)] : [],
    files: isClaude ? [{ path, what: 'skill', text: skill }] : [],
    allow: [],
    section,
  };
  return additionsOf(client, target, profile, harness);
}

/** The hook that reads mail for the session's repository or, without one, for its folder. */
function mailHook(program: string): Hook {
  // Both programs recognise an installed mail hook by this text.
  const mark = 'drain --hook';
  const match = '--match "$(git remote get-url origin 2>/dev/null || pwd)"';
  const command = programLine(inShell(program), `bch ${mark} ${match}`);
  return { what: 'hook', command: () => command, events: ['UserPromptSubmit'], mark, anyEvent: true };
}
