import {
  isRefused,
  uninstallProfile,
  appliedLines,
  Installer,
  isHere,
  oneAtATime,
  removedLine,
} from '../../clients/settings/installer.ts';
import { forgetSessionsOf } from '../../delivery/hook-session.ts';
import { command } from '../../core/command.ts';
import { yesWith } from '../../platform/authority.ts';
import { parleyHome, userHome } from '../../platform/env.ts';
import { stableProgram, temporaryHome } from '../../clients/own-program.ts';
import { gitTop } from '../../platform/git.ts';
import { isTerminal } from '../../platform/terminal.ts';
import { makeMailbox } from '../make-mailbox.ts';
import { existsSync, readFileSync } from 'node:fs';
import { CLIENT_NAMES } from '../../clients/client-names.ts';
import { additionsOf } from '../../clients/settings/client-settings.ts';
import type { ClientSettings, InstallTarget } from '../../clients/settings/client-settings.ts';
import { SETTINGS_CLIENTS } from '../../clients/installable.ts';
import type { Recorded } from '../../clients/settings/manifest.ts';
import type { Who } from '../../core/mail/workspace.ts';
import { AgentName } from '../../core/names.ts';
import { nearest } from '../../core/nearest.ts';
import { Refusal } from '../../core/refusal.ts';
import { bindClient, clientBindings, clientOf, unbindClient } from '../../delivery/client-bindings.ts';
import { agentName, Context } from '../context.ts';
import { scriptText, writeScript } from '../hook-setup.ts';
import { visibleLine } from '../../core/gate.ts';
import { grantAdvice, grantFrom, grantWith, reachOf, toolsOf } from '../install/allow.ts';
import type { Grant } from '../install/allow.ts';
import {
  asksAboutMessages,
  canAsk,
  consentTo,
  forgetConsents,
  inboundFrom,
  keepConsent,
  openQuestions,
  questionLines,
  widened,
} from '../install/consent.ts';
import type { Consent, ConsentQuestion, Topic } from '../install/consent.ts';
import { recordChangedHooks, tablesLine } from '../../clients/codex/trust.ts';
import type { Applied, Removed } from '../../clients/settings/installer.ts';
import { parleyProfile } from '../install/parley-profile.ts';

export default command({
  usage: `install [${CLIENT_NAMES.join('|')} …]`,
  about:
    'Adds Parley to clients: its hook, which shows waiting mail to the model, its tools (`parley mcp`) and its skill. ' +
    'Without a client it looks for installed clients, shows what it would do, and asks.\n' +
    'Each session of a client has a name of its own, such as @claude.api in the folder api, and mail for @claude goes to one of its sessions. ' +
    'With --as all sessions of the client use that one mailbox; it can be changed later.\n' +
    'Nothing else in the settings changes. A copy of each file is kept, and --uninstall restores the same bytes, or removes only what ' +
    'Parley added if the file has changed since. A file that cannot be read is not changed.\n' +
    'What a client asks you to trust, you decide. What its models may do without a dialog (--allow), and whether messages come in without one ' +
    '(--inbound), is asked once at a terminal, and the answer is kept. --yes allows nothing.',
  options: {
    as: { type: 'string', value: 'agent', help: 'give the client this mailbox instead of one with its own name' },
    project: {
      type: 'boolean',
      help: 'add the tools to this project only, if the client has project settings',
    },
    global: { type: 'boolean', help: 'add the tools for all projects (default)' },
    hooks: { type: 'boolean', help: 'add the hook and the tools (default)' },
    'no-hooks': { type: 'boolean', help: 'add the tools only; mail waits until the model asks for it' },
    allow: {
      type: 'string',
      value: 'what',
      help: 'let the models use tools without a dialog: reply (to answer mail), tools (all of Parley), or none',
    },
    inbound: {
      type: 'string',
      value: 'what',
      help: 'whether Claude Code in bypass mode asks you about each message: ask, or allow (messages come in)',
    },
    'dry-run': { type: 'boolean', help: 'say what would be done, and do nothing' },
    uninstall: { type: 'boolean', help: 'take out what was added, of these clients or of all' },
    yes: {
      type: 'boolean',
      help: 'do not ask, and allow nothing more; with --uninstall, also remove what Codex wrote about Parley',
    },
  },
  words: [0, CLIENT_NAMES.length],
  examples: [
    'parley install',
    'parley install claude --dry-run',
    'parley install codex --as reviewer',
    'parley install claude --inbound ask',
    'parley install --uninstall',
  ],
  async run(context: Context, values, words) {
    if (values.project && values.global) throw new Refusal('invalid_request', '--project or --global, not both');
    if (values.hooks && values['no-hooks']) throw new Refusal('invalid_request', '--hooks or --no-hooks, not both');
    const target = { home: userHome(context.env), env: context.env, project: gitTop(context.cwd) ?? context.cwd };
    const named = [...new Set(words)].map(clientCalled);
    const dry = values['dry-run'] ?? false;
    if (values.uninstall)
      return oneAtATime(context.env, () => uninstall(context, target, named, { dry, yes: values.yes ?? false }));
    const clients = named.length > 0 ? named : SETTINGS_CLIENTS.filter((client) => isHere(client, target));
    if (clients.length === 0)
      throw new Refusal(
        'not_found',
        `no known client is installed; to prepare for one: parley install ${CLIENT_NAMES[0]}`,
      );
    const order = {
      as: values.as === undefined ? undefined : agentName(values.as),
      project: values.project ?? false,
      hooks: !values['no-hooks'],
      grant: grantFrom(values.allow, context.env),
      inbound: inboundFrom(values.inbound, context.env),
    };
    if (order.inbound !== null && clients.every((client) => !client.inboundRule))
      throw new Refusal('invalid_request', '--inbound is for Claude Code: no other client has such a setting');
    const reach = await reachOf(context);
    const plans: Plan[] = [];
    for (const client of clients) plans.push(await planFor(context, target, client, order, values.yes ?? false));
    const isOrdered = named.length > 0 || values.yes === true;
    if (dry || !isOrdered) report(context, target, plans, reach, true);
    if (dry) return;
    if (!isOrdered && (context.json || !isTerminal(0)))
      return context.note('nothing was changed; to do this: parley install --yes');
    const questions = values.yes || context.json || !canAsk(context.env) ? [] : questionsAbout(context, target, plans);
    const allowed = answer(context, questions, isOrdered);
    if (allowed === null) return context.note('nothing was changed');
    for (const { mailbox, refused } of plans)
      if (mailbox?.isMissing && refused === null) await makeMailbox(context.ownHome, mailbox.agent);
    oneAtATime(context.env, () => {
      keepScript(context);
      const done = plans.map((plan) => applyPlan(context, withAnswers(plan, questions, allowed)));
      report(context, target, done, reach, false);
    });
  },
});

/** What is still to be decided for these clients, and is not decided by an option. */
function questionsAbout({ env }: Context, target: InstallTarget, plans: readonly Plan[]): ConsentQuestion[] {
  const open = plans.filter(({ refused }) => refused === null);
  return openQuestions(
    env,
    target,
    open.map(({ client }) => client),
  ).flatMap(({ topic, clients }) => {
    const left = clients.filter((client) => open.some((plan) => plan.client === client && plan[topic] === null));
    return left.length === 0 ? [] : [{ topic, clients: left }];
  });
}

/** One question for everything. What is allowed beside the changes; null if nothing may be changed. */
function answer(context: Context, questions: readonly ConsentQuestion[], isOrdered: boolean): readonly string[] | null {
  if (isOrdered && questions.length === 0) return [];
  const words = questions.map(({ topic }) => topic).join(' ');
  for (const line of questions.length === 0 ? [] : questionLines(questions)) context.note(line);
  const more = isOrdered
    ? `Allow some of it? Name it after yes: yes ${words}.`
    : `Make these changes?${questions.length === 0 ? '' : ` To allow more, name it after yes: yes ${words}.`}`;
  const said = yesWith(context, more);
  if (said === null) return isOrdered ? [] : null;
  const [unknown] = said.filter((word) => !questions.some(({ topic }) => topic === word));
  if (unknown !== undefined)
    throw new Refusal('invalid_request', `"${visibleLine(unknown, 40)}" is not asked for here; nothing was changed`);
  return said;
}

/** A plan with what the user answered. What was asked and not allowed is a no. */
function withAnswers(plan: Plan, questions: readonly ConsentQuestion[], allowed: readonly string[]): Plan {
  const answerTo = (topic: Topic): Consent | null => {
    const isAsked = questions.some((one) => one.topic === topic && one.clients.includes(plan.client));
    return isAsked ? (allowed.includes(topic) ? 'allow' : 'ask') : null;
  };
  const [reply, inbound] = [answerTo('reply'), answerTo('inbound')];
  return {
    ...plan,
    grant: reply === 'allow' ? 'reply' : plan.grant,
    reply: plan.reply ?? reply,
    inbound: plan.inbound ?? inbound,
  };
}

function clientCalled(name: string): ClientSettings {
  const found = SETTINGS_CLIENTS.find((one) => one.name === name);
  if (found) return found;
  const shown = name.replace(/\p{Cc}/gu, '?').slice(0, 40);
  const [near] = nearest(name, CLIENT_NAMES);
  throw new Refusal(
    'invalid_request',
    `no client is called "${shown}"; ${near ? `did you mean ${near}?` : `use some of ${CLIENT_NAMES.join(', ')}`}`,
  );
}

/** What one client gets, or why it gets nothing. A refused client does not stop the others. */
interface Plan {
  client: ClientSettings;
  mailbox: ClientMailbox | null;
  /** What its model may do without a dialog. */
  grant: Grant | null;
  /** What the user decided now, or before and it is to be done now; null if it stays as it is. */
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
interface Order {
  as: AgentName | undefined;
  project: boolean;
  hooks: boolean;
  grant: Grant | 'none' | null;
  inbound: Consent | null;
}

async function planFor(
  context: Context,
  target: InstallTarget,
  client: ClientSettings,
  order: Order,
  isForced: boolean,
): Promise<Plan> {
  const again = `parley install ${client.name}`;
  const installer = new Installer(target.home, again);
  const program = stableProgram(context.env, again);
  const profile = parleyProfile(client, target, { ...order, program });
  const plan: Plan = {
    client,
    mailbox: null,
    grant: order.grant === 'none' ? null : order.grant,
    reply: order.grant === null ? null : order.grant === 'none' ? 'ask' : 'allow',
    inbound: inboundOf(context, client, target, order, isForced),
    apply: (dry, { grant, inbound }) =>
      installer.apply(
        additionsOf(client, target, { ...profile, allow: toolsOf(grant), inbound: inbound === 'allow' }),
        dry,
      ),
    applied: [],
    narrow: (dry) => {
      const topics = [
        ...(order.grant === 'none' ? ['reply' as const] : []),
        ...(order.inbound === 'ask' ? ['inbound' as const] : []),
      ];
      const recorded = installer.recorded('parley', [client.name]);
      return installer.remove(
        topics.flatMap((topic) => widened(topic, recorded)),
        dry,
      );
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

/** What `parley run` was told counts here, too, where the user is there to see it in the list of changes. */
function inboundOf(
  { env }: Context,
  client: ClientSettings,
  target: InstallTarget,
  order: Order,
  isForced: boolean,
): Consent | null {
  if (!client.inboundRule || order.inbound !== null) return client.inboundRule ? order.inbound : null;
  const isOpen = !isForced && canAsk(env) && asksAboutMessages(client, target);
  return isOpen && consentTo(env, client.name, 'inbound') === 'allow' ? 'allow' : null;
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
function applyPlan({ env }: Context, plan: Plan): Plan {
  const { client, mailbox, advice } = plan;
  if (plan.refused !== null || mailbox === null) return plan;
  try {
    const removed = plan.narrow(false);
    const applied = plan.apply(false, plan);
    recordChangedHooks(env, applied);
    bindClient(parleyHome(env), client.name, mailbox.agent);
    for (const topic of ['reply', 'inbound'] as const)
      if (plan[topic] !== null) keepConsent(env, client.name, topic, plan[topic]);
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

function report(context: Context, target: InstallTarget, given: readonly Plan[], reach: string, dry: boolean): void {
  const plans = given.map((plan) => ({
    ...plan,
    advice: [...plan.advice, ...grantAdvice(plan.client, target, plan.grant, reach)],
  }));
  if (plans.some(({ refused }) => refused !== null)) process.exitCode = 1;
  if (context.json)
    return context.sayJson({
      dryRun: dry,
      clients: plans.map(({ client, mailbox, applied, removed, refused, advice }) => ({
        client: client.name,
        agent: mailbox?.agent ?? null,
        changes: applied,
        removed,
        refused,
        advice,
      })),
    });
  for (const { client, mailbox, applied, removed, refused, advice } of plans) {
    context.say(`${client.title}${mailbox ? `, as @${mailbox.agent}` : ''}:`);
    if (refused !== null) {
      context.say(`  nothing was changed: ${refused}`);
      continue;
    }
    if (mailbox?.isMissing) context.say(`  ${(dry ? 'would make' : 'made').padEnd(10)} mailbox @${mailbox.agent}`);
    for (const line of [...appliedLines(applied), ...removed.map(removedLine)]) context.say(line);
    for (const one of advice) context.say(`  note: ${one}`);
  }
  for (const { client, mailbox, refused } of plans) {
    if (dry || refused !== null || mailbox?.agent !== client.name) continue;
    context.say(
      `Each session of ${client.title} is @${client.name}.<folder>. Mail for @${client.name} goes to one of them.`,
    );
  }
  if (!dry) context.say('Restart a client to use it. `parley install --uninstall` removes everything again.');
  const home = temporaryHome(context.env);
  if (home !== null)
    context.note(`HOME is ${home}, a temporary folder: what is installed there is lost when it is emptied`);
}

/** The hook's script is part of Parley's own home. */
function keepScript({ env }: Context): void {
  const path = `${parleyHome(env)}/hook`;
  if (!existsSync(path) || readFileSync(path, 'utf8') !== scriptText(env)) writeScript(env);
}

function uninstall(
  context: Context,
  target: InstallTarget,
  named: readonly ClientSettings[],
  { dry, yes }: { dry: boolean; yes: boolean },
): void {
  const clients = named.length > 0 ? named : SETTINGS_CLIENTS;
  const installer = new Installer(target.home, 'parley install --uninstall');
  const { results, codexTables } = uninstallProfile(context, installer, 'parley', clients, { dry, yes });
  if (!dry) for (const { client, removed } of results) unbind(context, client, removed);
  if (context.json)
    return context.sayJson({
      dryRun: dry,
      clients: results.map(({ client, removed }) => ({ client: client.name, removed })),
      codexTables,
    });
  const some = results.filter(({ removed }) => removed.length > 0);
  if (some.length === 0) context.say('nothing was added by `parley install`');
  for (const { client, removed } of some) {
    context.say(`${client.title}:`);
    for (const one of removed) context.say(removedLine(one));
    if (client.name === 'codex') for (const one of codexTables) context.say(tablesLine(one));
  }
}

/** A client without Parley reads no mailbox. The mailbox itself stays. */
function unbind({ env }: Context, { name }: ClientSettings, removed: readonly Removed[]): void {
  if (removed.length === 0 || isRefused(removed)) return;
  unbindClient(parleyHome(env), name);
  forgetConsents(env, name);
  forgetSessionsOf(parleyHome(env), name);
}
