import { join } from 'node:path';
import { sectionStep, serverSaid } from '../setup-client.ts';
import type { SetupClient } from '../setup-client.ts';
import { hasMember } from '../settings/jsonc-edit.ts';

/** Gemini CLI has servers in its settings, and instructions in GEMINI.md. */
export const geminiSetup: SetupClient = {
  harness: 'gemini-cli',
  binary: 'gemini',
  folder: '.gemini',
  steps({ folder }, own) {
    const settings = join(folder, 'settings.json');
    const owner = this.harness;
    const at = ['mcpServers', 'backchannel'];
    return [
      {
        path: settings,
        owner,
        content: {
          format: 'json',
          at,
          append: false,
          value: { command: own.program, args: [...own.words, 'mcp'] },
        },
        isThere: (text) => hasMember(text, at),
        ...serverSaid(settings),
      },
      sectionStep(join(folder, 'GEMINI.md'), owner),
    ];
  },
};
