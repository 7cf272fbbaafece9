import { recordChangedHooks } from '../../clients/codex/trust.ts';
import { stableProgram } from '../../clients/own-program.ts';
import { additionsOf, INBOUND } from '../../clients/settings/client-settings.ts';
import type { ClientSettings, InstallTarget } from '../../clients/settings/client-settings.ts';
import { Installer } from '../../clients/settings/installer.ts';
import type { Applied, Removed } from '../../clients/settings/installer.ts';
import type { Recorded } from '../../clients/settings/manifest.ts';
import type { Who } from '../../core/mail/workspace.ts';
import { AgentName } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import { bindClient, clientBindings, clientOf } from '../../delivery/client-bindings.ts';
import { parleyHome } from '../../platform/env.ts';
import { Context } from '../context.ts';
import { grantWith, rulesBeyond, toolsOf } from './allow.ts';
import type { Grant } from './allow.ts';
import { forgetRunAnswer, keepConsent } from './consent.ts';
import type { Consent } from './consent.ts';
import { parleyProfile } from './parley-profile.ts';

/** What one client gets, or why it gets nothing. A refused client does not stop the others. */
export interface Plan {
  client: ClientSettings;
  order: Order;
  mailbox: ClientMailbox | null;
  /** What its model may do without a dialog. */
  grant: Grant | null;
  /** What the user decides now; null if it stays as it is. */
  reply: Consent | null;
  inbound: Consent | null;
  apply: (dry: boolean, plan: Pick<Plan, 'grant' | 'inbound'>) => Applied[];
  applied: Applied[];
  /** Takes out what widened it and is not wanted any more. */
  narrow: (dry: boolean) => Removed[];
  removed: Removed[];
  refused: string | null;
  advice: string[];
}

/** What the options say. */
export interface Order {
  as: AgentName | undefined;
  project: boolean;
  hooks: boolean;
  grant: Grant | 'none' | null;
  inbound: Consent | null;
}

export async function planFor(
  context: Context,
  target: InstallTarget,
  client: ClientSettings,
  order: Order,
): Promise<Plan> {
  const again = `parley install ${client.name}`;
  const installer = new Installer(target.home, again);
  const program = stableProgram(context.env, again);
  const profile = parleyProfile(client, target, { ...order, program });
  const plan: Plan = {
    client,
    order,
    mailbox: null,
    grant: order.grant === 'none' ? null : order.grant,
    reply: order.grant === null ? null : order.grant === 'none' ? 'ask' : 'allow',
    inbound: client.inboundRule ? order.inbound : null,
    apply: (dry, { grant, inbound }) =>
      installer.apply(
        additionsOf(client, target, { ...profile, allow: toolsOf(grant), inbound: inbound === 'allow' }),
        dry,
      ),
    applied: [],
    narrow: (dry) => {
      const recorded = installer.recorded('parley', [client.name]);
      const rules = order.grant === null ? [] : rulesBeyond(order.grant === 'none' ? null : order.grant, recorded);
      const settings = order.inbound === 'ask' ? recorded.filter(({ what }) => what === INBOUND) : [];
      return installer.remove([...rules, ...settings], dry);
    },
    removed: [],
    refused: null,
    advice: client.advice(target, profile),
  };
  try {
    const mailbox = await clientMailbox(context, client.name, order.as);
    const recorded = installer.recorded('parley', [client.name]);
    const grant = order.grant === 'none' ? null : grantWith(order.grant, recorded);
    const former = formerMailbox(recorded);
    if (former !== undefined && former !== mailbox.agent)
      plan.advice.push(
        `its older settings named @${former}; its mailbox is @${mailbox.agent} now. To keep @${former}: ${again} --as ${former}`,
      );
    const planned = { ...plan, mailbox, grant, reply: grant === null ? plan.reply : ('allow' as const) };
    return { ...planned, removed: plan.narrow(true), applied: plan.apply(true, planned) };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return { ...plan, refused: error.message };
  }
}

/** The mailbox of a client, and whether it has to be made. */
interface ClientMailbox {
  agent: AgentName;
  isMissing: boolean;
}

/**
 * Chooses the mailbox of a client: the one that the user names, else the one it has, else one with its own name. Another client's
 * mailbox is given only to a client for which the user names it.
 */
async function clientMailbox(context: Context, client: string, named?: AgentName): Promise<ClientMailbox> {
  const bindings = clientBindings(parleyHome(context.env));
  const agent = named ?? bindings[client] ?? AgentName.parse(client);
  const holder = clientOf(bindings, agent);
  if (named === undefined && bindings[client] === undefined && holder !== undefined)
    throw new Refusal(
      'name_taken',
      `@${agent} is the mailbox of ${holder}; choose another: parley install ${client} --as <name>`,
    );
  const found = await mailboxCalled(context, agent);
  if (found && (await found.home.directory.get(agent))?.parley?.kind === 'human')
    throw new Refusal(
      'name_taken',
      `@${agent} is the mailbox of a person; choose another: parley install ${client} --as <name>`,
    );
  return { agent, isMissing: found === null };
}

async function mailboxCalled(context: Context, agent: AgentName): Promise<Who | null> {
  try {
    return await new Context(context.env, context.cwd, { as: agent }).who();
  } catch (error) {
    if (error instanceof Refusal && error.code === 'no_identity') return null;
    throw error;
  }
}

/** The mailbox that 0.1.0 wrote into the settings of a client, if it did. */
function formerMailbox(recorded: readonly Recorded[]): string | undefined {
  const lines = recorded.filter(({ what }) => what.startsWith('hook') || what.startsWith('MCP server'));
  const texts = lines.map(({ content }) => JSON.stringify(content));
  return texts.map((text) => /--as[^A-Za-z0-9]+([A-Za-z0-9][A-Za-z0-9._-]*)/.exec(text)?.[1]).find(Boolean);
}

/** Writes the settings of a client, then binds its mailbox. */
export function applyPlan({ env }: Context, plan: Plan): Plan {
  const { client, mailbox, advice } = plan;
  if (plan.refused !== null || mailbox === null) return plan;
  try {
    const removed = plan.narrow(false);
    const applied = plan.apply(false, plan);
    recordChangedHooks(env, applied);
    bindClient(parleyHome(env), client.name, mailbox.agent);
    for (const topic of ['reply', 'inbound'] as const)
      if (plan[topic] !== null) keepConsent(env, client.name, topic, plan[topic]);
    if (client.inboundRule && plan.order.inbound !== null) forgetRunAnswer(env, client.name);
    return { ...plan, applied, removed, advice: [...advice, ...trustAdvice(client, applied)] };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return { ...plan, applied: [], refused: error.message };
  }
}

function trustAdvice({ name }: ClientSettings, applied: readonly Applied[]): string[] {
  const isNew = applied.some(({ what, outcome }) => what.startsWith('hook') && outcome === 'replaced');
  return name === 'codex' && isNew
    ? ['The hook line changed: Codex does not run it before you trust it once more']
    : [];
}
