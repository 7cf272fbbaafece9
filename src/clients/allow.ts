import { existsSync, readFileSync } from 'node:fs';
import { tableIn } from './install-client.ts';
import type { ClientName, InstallClient, Place } from './install-client.ts';
import type { Wish } from './settings/apply.ts';
import { hasMember } from './settings/jsonc-edit.ts';
import { readTree } from './settings/jsonc-tree.ts';
import { NotEditable } from './settings/not-editable.ts';
import { inToml } from './settings/text-block.ts';
import { claudeSettings } from './claude/install.ts';

/** One tool of Parley's server that runs without a permission dialog. */
type Rule = Pick<Wish, 'path' | 'content' | 'isThere'>;

/** The allow rule of each client for a tool, as it was seen to work with the real client; null where none was. */
const RULES: Record<ClientName, ((client: InstallClient, place: Place, tool: string) => Rule) | null> = {
  claude(_client, place, tool) {
    const value = `mcp__parley__${tool}`;
    return {
      path: claudeSettings(place),
      content: { format: 'json', at: ['permissions', 'allow'], append: true, value },
      isThere(text) {
        const { allow } = tableIn(tableIn(readTree(text).value)['permissions']);
        return Array.isArray(allow) && ['mcp__parley', 'mcp__parley__*', value].some((rule) => allow.includes(rule));
      },
    };
  },
  codex(client, place, tool) {
    const at = ['mcp_servers', 'parley', 'tools', tool];
    const [path = ''] = client.servers(place, false);
    return {
      path,
      content: { format: 'toml', at, block: `[${at.join('.')}]\napproval_mode = "approve"\n` },
      isThere: (text) =>
        inToml(text, [...at, 'approval_mode']) === 'approve' ||
        inToml(text, ['mcp_servers', 'parley', 'default_tools_approval_mode']) === 'approve',
    };
  },
  opencode(client, place, tool) {
    const at = ['permission', `parley_${tool}`];
    const [path = ''] = client.servers(place, false);
    return {
      path,
      content: { format: 'json', at, append: false, value: 'allow' },
      isThere: (text) => tableIn(tableIn(readTree(text).value)['permission'])[`parley_${tool}`] === 'allow',
    };
  },
  // Kimi 2.1 reads [[permission.rules]] and asks all the same.
  kimi: null,
  // Not run. Its only setting, `trust`, would allow every tool of the server.
  gemini: null,
};

/** The rules for these tools that a client lacks, and without which it may ask. Settings that cannot be read lack none. */
export function missingRules(client: InstallClient, place: Place, tools: readonly string[]): Wish[] {
  try {
    return allowWishes(client, place, tools).filter(({ path, isThere }) => {
      const text = existsSync(path) ? readFileSync(path, 'utf8') : null;
      return mayAsk(client.name, text) && (text === null || !isThere(text));
    });
  } catch (error) {
    if (error instanceof NotEditable) return [];
    throw error;
  }
}

/** OpenCode asks only where its settings say so. */
function mayAsk(client: ClientName, text: string | null): boolean {
  return client !== 'opencode' || (text !== null && hasMember(text, ['permission']));
}

/** What must be in a client's settings so that it does not ask before these tools. */
export function allowWishes(client: InstallClient, place: Place, tools: readonly string[]): Wish[] {
  const rule = RULES[client.name];
  if (rule === null) return [];
  return tools.map((tool) => ({
    by: 'parley',
    owner: client.name,
    what: `allow rule for ${tool}`,
    ...rule(client, place, tool),
  }));
}
