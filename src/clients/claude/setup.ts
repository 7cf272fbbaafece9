import { join } from 'node:path';
import { SKILL } from '../backchannel-words.ts';
import { programLine } from '../../delivery/hook-script.ts';
import { serverSaid } from '../setup-client.ts';
import type { OwnCommand, SetupClient } from '../setup-client.ts';
import { hasMember } from '../settings/jsonc-edit.ts';
import { readTree } from '../settings/jsonc-tree.ts';
import { inShell } from '../shell-word.ts';

/** By this both programs know that a hook that reads mail is there, whoever put it there. */
const MARK = 'drain --hook';

/** Claude Code reads hooks and skills below its folder, and the servers of a user in `.claude.json` beside it. */
export const claudeSetup: SetupClient = {
  harness: 'claude-code',
  binary: 'claude',
  folder: '.claude',
  moved: 'CLAUDE_CONFIG_DIR',
  steps({ home, folder, isMoved }, own) {
    const settings = join(folder, 'settings.json');
    const skill = join(folder, 'skills/backchannel/SKILL.md');
    const servers = join(isMoved ? folder : home, '.claude.json');
    const owner = this.harness;
    const server = { type: 'stdio', command: own.program, args: [...own.words, 'mcp'] };
    return [
      {
        by: 'bch',
        path: settings,
        owner,
        what: 'hook',
        content: {
          format: 'json',
          at: ['hooks', 'UserPromptSubmit'],
          append: true,
          value: { hooks: [{ type: 'command', command: hookCommand(own) }] },
        },
        isThere: (text) => commandsIn(readTree(text).value).some((command) => command.includes(MARK)),
        done: `${settings} reads your mail before each prompt from now on`,
        there: 'a hook that reads mail is already installed',
      },
      {
        by: 'bch',
        path: skill,
        owner,
        what: 'skill',
        content: { format: 'whole', text: SKILL },
        isThere: (text) => text === SKILL,
        done: `the skill is written to ${skill}`,
        there: `the skill is already present in ${skill}`,
      },
      {
        path: servers,
        owner,
        content: { format: 'json', at: ['mcpServers', 'backchannel'], append: false, value: server },
        isThere: (text) => hasMember(text, ['mcpServers', 'backchannel']),
        ...serverSaid(servers),
      },
    ];
  },
};

/** Mail for the repository that the session works in, or else for its folder. */
function hookCommand({ program, words }: OwnCommand): string {
  const match = '--match "$(git remote get-url origin 2>/dev/null || pwd)"';
  return programLine(inShell(program), [...words, MARK, match].join(' '));
}

/** The commands of all hooks, of every event. */
function commandsIn(settings: unknown): string[] {
  const events = Object.values(tableIn(tableIn(settings)['hooks']));
  const hooks = events.flatMap(listIn).flatMap((entry) => listIn(tableIn(entry)['hooks']));
  return hooks.map((hook) => tableIn(hook)['command']).filter((command) => typeof command === 'string');
}

function tableIn(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

function listIn(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}
