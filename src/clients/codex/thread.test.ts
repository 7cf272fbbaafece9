import { describe, expect, it } from 'bun:test';
import { ScriptedCodex } from '../../../test/support/codex-daemon.ts';
import { AgentName } from '../../core/names.ts';
import { holdThread } from './thread.ts';

describe('a conversation of Codex in a folder that its user trusts only after it began', () => {
  it('gets the rights of a trusted folder, and keeps the options of its user', async () => {
    const codex = new ScriptedCodex();
    codex.approvalPolicy = 'never';
    const wanted = {
      home: codex.codexHome,
      parley: codex.home,
      name: AgentName.parse('codex.project'),
      folder: codex.folder,
      server: { command: 'parley', args: ['mcp'], env: {} },
      options: { approvalPolicy: 'on-request' },
      isUntrusted: true,
      pid: process.pid,
    };
    await holdThread(wanted, (line) => codex.shows(line.replace('thread ', '')));
    expect(codex.rights).toMatchObject([{ approvalPolicy: 'on-request', sandboxPolicy: { type: 'workspaceWrite' } }]);
    await codex.close();
  });
});
