import { describe, expect, it } from 'bun:test';
import { NotEditable } from '../settings/text-edit.ts';
import { serverTables, trustTables, withoutTables } from './trust.ts';

const HOOKS = '/home/you/.codex/hooks.json';
const OURS = 'sh ~/.parley/hook codex';
const hooks = {
  paths: [HOOKS],
  text: JSON.stringify({
    hooks: {
      PostToolUse: [{ hooks: [{ command: 'theirs' }, { command: OURS }] }, { hooks: [{ command: OURS }] }],
      Stop: [{ hooks: [{ command: 'theirs' }] }],
    },
  }),
};
const table = (place: string): string => `hooks.state."${HOOKS}:${place}"`;

describe('what Codex writes about hooks', () => {
  it('is ours if the hook at that place is ours', () => {
    const places = ['post_tool_use:0:0', 'post_tool_use:0:1', 'post_tool_use:1:0', 'stop:0:0'];
    const config = places.map((place) => `[${table(place)}]\ntrusted_hash = "sha256:00"\n`).join('\n');
    expect(trustTables(config, hooks, new Set([OURS]))).toEqual([
      table('post_tool_use:0:1'),
      table('post_tool_use:1:0'),
    ]);
  });

  it('is found in either kind of quotes, and beside comments', () => {
    const config = `a = 1 # [x]\n[hooks.state.'${HOOKS}:post_tool_use:1:0'] # trusted\nb = 2\n`;
    const found = trustTables(config, hooks, new Set([OURS]));
    expect(withoutTables(config, found)).toBe('a = 1 # [x]\n');
  });

  it.each([
    ['line feeds', '\n'],
    ['Windows line ends', '\r\n'],
  ])('goes without a trace of its own, with %s', (_name, end) => {
    const before = ['model = "gpt"', '', '[tui]', 'x = 1', ''].join(end);
    const written = ['', '[hooks.state]', '', `[${table('post_tool_use:1:0')}]`, 'trusted_hash = "sha256:00"', ''];
    const after = ['', '[projects."/abs"]', 'trust_level = "trusted"', ''].join(end);
    expect(withoutTables(before + written.join(end) + after, [table('post_tool_use:1:0')])).toBe(before + after);
  });

  it('stays if it cannot be removed safely', () => {
    const config = `[hooks.state]\n"${HOOKS}:post_tool_use:1:0" = { trusted_hash = "sha256:00" }\n`;
    expect(trustTables(config, hooks, new Set([OURS]))).toEqual([]);
    expect(() => withoutTables(config, [table('post_tool_use:1:0')])).toThrow(NotEditable);
  });
});

describe('what Codex writes below a server', () => {
  it('is every table that we did not write', () => {
    const ours = '[mcp_servers.c2c]\ncommand = "c2c"\n\n[mcp_servers.c2c.env]\nA = "b"\n';
    const theirs = '\n[mcp_servers.c2c.tools.send]\napproval_mode = "approve"\n\n[mcp_servers.other.tools.x]\na = 1\n';
    expect(serverTables(ours + theirs, 'c2c', ours)).toEqual(['mcp_servers.c2c.tools.send']);
  });
});
