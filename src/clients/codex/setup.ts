import { join } from 'node:path';
import { SECTION } from '../backchannel-words.ts';
import type { SetupClient } from '../setup-client.ts';
import { inToml } from '../settings/text-block.ts';

/** Codex has its servers in TOML. It gets no hook: those must be trusted by the user, and we touch no trust. */
export const codexSetup: SetupClient = {
  harness: 'codex',
  binary: 'codex',
  folder: '.codex',
  moved: 'CODEX_HOME',
  steps({ folder }, own) {
    const config = join(folder, 'config.toml');
    const agents = join(folder, 'AGENTS.md');
    const owner = this.harness;
    const at = ['mcp_servers', 'backchannel'];
    // A JSON string without control characters is a TOML string.
    const args = [...own.words, 'mcp'].map((word) => JSON.stringify(word)).join(', ');
    const block = `[${at.join('.')}]\ncommand = ${JSON.stringify(own.program)}\nargs = [${args}]\n`;
    return [
      {
        path: config,
        owner,
        what: 'MCP server',
        content: { format: 'toml', at, block },
        isThere: (text) => inToml(text, at) !== undefined,
        done: `MCP server added to ${config}`,
        there: 'MCP server already registered',
      },
      {
        path: agents,
        owner,
        what: 'messaging instructions',
        content: { format: 'markdown', block: SECTION },
        isThere: (text) => /backchannel/i.test(text),
        done: `messaging instructions added to ${agents}`,
        there: 'AGENTS.md section already present',
      },
    ];
  },
};
