import type { Env } from '../../core/env.ts';
import { namesIn } from '../../delivery/hook-session.ts';
import { existsSync, readFileSync } from 'node:fs';
import type { ClientSettings, InstallTarget } from '../../clients/settings/client-settings.ts';
import { NotEditable } from '../../clients/settings/text-edit.ts';
import { TOOL_LIST } from '../../protocols/c2a/mcp.ts';
import type { McpTool } from '../../protocols/c2a/mcp.ts';
import { Refusal } from '../../core/refusal.ts';
import { startedByClient, isSure } from '../../platform/authority.ts';
import type { Context } from '../context.ts';
import { parleyHome } from '../../platform/env.ts';

/** The tools that `--allow` lets a model use without a dialog, the narrowest grant first. */
const GRANTS = {
  reply: ['chat_send_message', 'chat_react'],
  tools: TOOL_LIST.map(({ name }) => name),
} satisfies Record<string, readonly McpTool[]>;
export type Grant = keyof typeof GRANTS;

export function toolsOf(grant: Grant | null): readonly string[] {
  return grant === null ? [] : GRANTS[grant];
}

/** The grant that `--allow` names. A model cannot give it to itself. */
export function grantFrom(word: string | undefined, env: Env): Grant | null {
  if (word === undefined) return null;
  if (!Object.hasOwn(GRANTS, word)) throw new Refusal('invalid_request', '--allow is reply or tools');
  const why = startedByClient(env);
  if (why !== null)
    throw new Refusal('not_yours', `Only the user can allow tools. ${why}. Run it in your own terminal.`);
  return word as Grant;
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

/** Asks the user at the terminal for the narrow grant. Anything but `yes` is a no. */
export function grantAtTerminal(
  context: Context,
  target: InstallTarget,
  clients: readonly ClientSettings[],
  reach: string,
): Grant | null {
  const asking = clients.filter((client) => asksBeforeReply(client, target)).map(({ title }) => title);
  if (asking.length === 0 || startedByClient(context.env) !== null) return null;
  context.note(
    `\nA model that answers mail may stop at a permission dialog of ${asking.join(', ')}. ` +
      `Rules for ${GRANTS.reply.join(' and ')} let it answer without asking you, ${reach}.`,
  );
  return isSure(context, 'Add these rules?') ? 'reply' : null;
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
      : [`Its model sends mail without asking you, ${reach}`];
  }
  if (!asksBeforeReply(client, target)) return [];
  return [
    `${title} may ask you before its model answers mail. To let it answer without a dialog, ${reach}: parley install ${name} --allow reply`,
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
