import { join } from 'node:path';
import { sectionStep, serverSaid } from '../setup-client.ts';
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
    const owner = this.harness;
    const at = ['mcp_servers', 'backchannel'];
    // A JSON string without control characters is a TOML string.
    const args = [...own.words, 'mcp'].map((word) => JSON.stringify(word)).join(', ');
    const block = `[${at.join('.')}]\ncommand = ${JSON.stringify(own.program)}\nargs = [${args}]\n`;
    return [
      {
        path: config,
        owner,
        content: { format: 'toml', at, block },
        isThere: (text) => inToml(text, at) !== undefined,
        ...serverSaid(config),
      },
      sectionStep(join(folder, 'AGENTS.md'), owner),
    ];
  },
};
