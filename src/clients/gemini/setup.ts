import { join } from 'node:path';
import { SECTION } from '../backchannel-words.ts';
import type { SetupClient } from '../setup-client.ts';
import { hasMember } from '../settings/jsonc-edit.ts';

/** Gemini CLI has servers in its settings, and instructions in GEMINI.md. */
export const geminiSetup: SetupClient = {
  harness: 'gemini-cli',
  binary: 'gemini',
  folder: '.gemini',
  steps({ folder }, own) {
    const settings = join(folder, 'settings.json');
    const instructions = join(folder, 'GEMINI.md');
    const owner = this.harness;
    const at = ['mcpServers', 'backchannel'];
    return [
      {
        path: settings,
        owner,
        what: 'MCP server',
        content: {
          format: 'json',
          at,
          append: false,
          value: { command: own.program, args: [...own.words, 'mcp'] },
        },
        isThere: (text) => hasMember(text, at),
        done: `MCP server added to ${settings}`,
        there: 'MCP server already registered',
      },
      {
        path: instructions,
        owner,
        what: 'messaging instructions',
        content: { format: 'markdown', block: SECTION },
        isThere: (text) => /backchannel/i.test(text),
        done: `messaging instructions added to ${instructions}`,
        there: 'GEMINI.md section already present',
      },
    ];
  },
};
