import { allowWishes, missingRules } from '../../clients/allow.ts';
import type { InstallClient, Place } from '../../clients/install-client.ts';
import type { Wish } from '../../clients/settings/apply.ts';
import { TOOL_LIST } from '../../doors/mcp/tools.ts';
import type { McpTool } from '../../doors/mcp/tools.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { startedByClient } from '../../sessions/authority.ts';
import { isSure } from '../consent.ts';
import type { Context } from '../context.ts';
import { parleyHome } from '../env.ts';
import type { Env } from '../env.ts';
import { namesIn } from '../../delivery/hook-session.ts';

/** What `--allow` grants to the models of a client, the narrowest first. */
const GRANTS = {
  reply: ['chat_send_message', 'chat_react'],
  tools: TOOL_LIST.map(({ name }) => name),
} satisfies Record<string, readonly McpTool[]>;
export type Grant = keyof typeof GRANTS;

/** The grant that `--allow` names. A model cannot give it to itself. */
export function grantFrom(word: string | undefined, env: Env): Grant | null {
  if (word === undefined) return null;
  if (!Object.hasOwn(GRANTS, word)) throw new Refusal('invalid_request', '--allow is reply or tools');
  const why = startedByClient(env);
  if (why !== null)
    throw new Refusal('not_yours', `Only the user can allow tools. ${why}. Run it in your own terminal.`);
  return word as Grant;
}

export function grantWishes(client: InstallClient, place: Place, grant: Grant | null): Wish[] {
  return grant === null ? [] : allowWishes(client, place, GRANTS[grant]);
}

/** True if the client may stop at a dialog when its model answers mail, and a rule would prevent that. */
export function asksBeforeReply(client: InstallClient, place: Place): boolean {
  return missingRules(client, place, GRANTS.reply).length > 0;
}

/** Asks the user at the terminal for the narrow grant. Anything but `yes` is a no. */
export function grantAtTerminal(
  context: Context,
  place: Place,
  clients: readonly InstallClient[],
  reach: string,
): Grant | null {
  const asking = clients.filter((client) => asksBeforeReply(client, place)).map(({ title }) => title);
  if (asking.length === 0 || startedByClient(context.env) !== null) return null;
  context.note(
    `\nA model that answers mail may stop at a permission dialog of ${asking.join(', ')}. ` +
      `Rules for ${GRANTS.reply.join(' and ')} let it answer without asking you, ${reach}.`,
  );
  return isSure(context, 'Add these rules?') ? 'reply' : null;
}

/** What a user should know about dialogs in this client. */
export function grantAdvice(client: InstallClient, place: Place, grant: Grant | null, reach: string): string[] {
  const { name, title } = client;
  if (grant !== null) {
    return allowWishes(client, place, GRANTS[grant]).length > 0
      ? [`Its model sends mail without asking you, ${reach}`]
      : [`${title} has no allow rule that is known to work: it goes on asking`];
  }
  if (!asksBeforeReply(client, place)) return [];
  return [
    `${title} may ask you before its model answers mail. To let it answer without a dialog, ${reach}: parley install ${name} --allow reply`,
  ];
}

/** Where mail can go that a model sends with these tools, in one clause. */
export async function reachOf({ env, desk }: Context): Promise<string> {
  const near = desk.homes.filter(({ far }) => far === undefined);
  const records = (await Promise.all(near.map(({ directory }) => directory.list()))).flat();
  const people = records.filter(({ parley }) => parley?.kind === 'human').map(({ name }) => `@${name}`);
  const relays = namesIn(`${parleyHome(env)}/relays`);
  return [
    'to every agent of this home',
    ...(people.length > 0 ? [`to people (${people.join(', ')})`] : []),
    ...(relays.length > 0 ? [`through relays that agents here joined (${relays.join(', ')})`] : []),
  ].join(', ');
}
