import type { Env } from '../../core/env.ts';
import { namesIn } from '../../delivery/hook-session.ts';
import { existsSync, readFileSync } from 'node:fs';
import { ruleFor } from '../../clients/settings/client-settings.ts';
import type { ClientSettings, InstallProfile, InstallTarget } from '../../clients/settings/client-settings.ts';
import type { Recorded } from '../../clients/settings/manifest.ts';
import { NotEditable } from '../../clients/settings/text-edit.ts';
import type { McpTool } from '../../protocols/c2a/mcp.ts';
import { MAIL_TOOL_LIST } from '../../protocols/mcp/mail-face.ts';
import type { MailTool } from '../../protocols/mcp/mail-face.ts';
import { Refusal } from '../../core/refusal.ts';
import { refuseUnlessUser } from '../../platform/authority.ts';
import type { Context } from '../context.ts';
import { parleyHome } from '../../platform/env.ts';

/** The tools that `--allow` lets a model use without a dialog, the narrowest grant first. */
const GRANTS = {
  reply: ['reply', 'react'],
  tools: MAIL_TOOL_LIST.map(({ name }) => name),
} satisfies Record<string, readonly MailTool[]>;
export type Grant = keyof typeof GRANTS;

/** The tools of 0.1.0 in whose place there are others. Rules for these are replaced. */
const FORMERLY: Partial<Record<MailTool, McpTool>> = {
  inbox: 'chat_list_events',
  read: 'chat_read_thread',
  reply: 'chat_send_message',
  react: 'chat_react',
  claim: 'chat_claim',
  defer: 'chat_defer',
  done: 'chat_resolve',
  agents: 'chat_who',
};

export function toolsOf(grant: Grant | null): InstallProfile['allow'] {
  return grant === null ? [] : GRANTS[grant].map((tool) => ({ tool, formerly: FORMERLY[tool] }));
}

/**
 * The grant of one client: what the user gives now, or else what the user gave to 0.1.0, whose rules name other tools. It is never more
 * than that: a rule to send becomes one to reply, unless all tools were allowed.
 */
export function grantWith(given: Grant | null, recorded: readonly Recorded[]): Grant | null {
  const isRecorded = (tool: McpTool): boolean => recorded.some(({ what }) => what === ruleFor(tool));
  if (given !== null) return given;
  if (isRecorded('chat_resolve')) return 'tools';
  return isRecorded('chat_send_message') || isRecorded('chat_react') ? 'reply' : null;
}

/** The rules that Parley wrote and that this grant does not have. Those of 0.1.0 which it replaces are left to that. */
export function rulesBeyond(grant: Grant | null, recorded: readonly Recorded[]): Recorded[] {
  const tools = toolsOf(grant).flatMap(({ tool, formerly }) => (formerly === undefined ? [tool] : [tool, formerly]));
  const kept = new Set(tools.map(ruleFor));
  return recorded.filter(({ what }) => what.startsWith(ruleFor('')) && !kept.has(what));
}

/** What `--allow` says; null if it says nothing. Only the user can give a grant; to take it back is open to all. */
export function grantFrom(word: string | undefined, env: Env): Grant | 'none' | null {
  if (word === undefined) return null;
  if (word !== 'none' && !Object.hasOwn(GRANTS, word))
    throw new Refusal('invalid_request', '--allow is reply, tools or none');
  if (word !== 'none') refuseUnlessUser(env, 'allow tools');
  return word as Grant | 'none';
}

/** True if the client may stop at a dialog when its model answers mail, and a rule would prevent that. Unreadable settings lack none. */
export function asksBeforeReply(client: ClientSettings, target: InstallTarget): boolean {
  const { allowRule } = client;
  if (allowRule === null) return false;
  try {
    return GRANTS.reply.some((tool) => {
      const { path, isThere } = allowRule(target, tool);
      const text = existsSync(path) ? readFileSync(path, 'utf8') : null;
      return (client.mayAsk?.(text) ?? true) && (text === null || !isThere(text));
    });
  } catch (error) {
    if (error instanceof NotEditable) return false;
    throw error;
  }
}

/** What a user should know about dialogs in this client. */
export function grantAdvice(
  client: ClientSettings,
  target: InstallTarget,
  grant: Grant | null,
  reach: string,
): string[] {
  const { name, title } = client;
  if (grant !== null) {
    return client.allowRule === null
      ? [`${title} has no allow rule that is known to work: it goes on asking`]
      : [
          grant === 'tools'
            ? `Its model sends mail without asking you, ${reach}`
            : 'Its model answers those who wrote to it without asking you; these rules do not let it write to others',
        ];
  }
  if (!asksBeforeReply(client, target)) return [];
  return [
    `${title} may ask you before its model answers mail. To let it answer without a dialog: parley install ${name} --allow reply`,
  ];
}

/** Where mail can go that a model sends with these tools, in one clause. */
export async function reachOf({ env, workspace }: Context): Promise<string> {
  const near = workspace.homes.filter(({ remote }) => remote === undefined);
  const records = (await Promise.all(near.map(({ directory }) => directory.list()))).flat();
  const people = records.filter(({ parley }) => parley?.kind === 'human').map(({ name }) => `@${name}`);
  const relays = namesIn(`${parleyHome(env)}/relays`);
  return [
    'to every agent of this home',
    ...(people.length > 0 ? [`to people (${people.join(', ')})`] : []),
    ...(relays.length > 0 ? [`through relays that agents here joined (${relays.join(', ')})`] : []),
  ].join(', ');
}
