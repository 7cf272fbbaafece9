import {
  isRefused,
  uninstallProfile,
  appliedLines,
  Installer,
  isHere,
  oneAtATime,
  removedLines,
} from '../../clients/settings/installer.ts';
import { forgetSessionsOf } from '../../delivery/hook-session.ts';
import { command } from '../../core/command.ts';
import { yesWith } from '../../platform/authority.ts';
import { parleyHome, userHome } from '../../platform/env.ts';
import { temporaryHome } from '../../clients/own-program.ts';
import { gitTop } from '../../platform/git.ts';
import { isTerminal } from '../../platform/terminal.ts';
import { makeMailbox } from '../make-mailbox.ts';
import { existsSync, readFileSync } from 'node:fs';
import { CLIENT_NAMES } from '../../clients/client-names.ts';
import type { ClientSettings, InstallTarget } from '../../clients/settings/client-settings.ts';
import { SETTINGS_CLIENTS } from '../../clients/installable.ts';
import { nearest } from '../../core/nearest.ts';
import { Refusal } from '../../core/refusal.ts';
import { unbindClient } from '../../delivery/client-bindings.ts';
import { agentName } from '../context.ts';
import type { Context } from '../context.ts';
import { scriptText, writeScript } from '../hook-setup.ts';
import { visibleLine } from '../../core/gate.ts';
import { grantAdvice, grantFrom, reachOf } from '../install/allow.ts';
import { canAsk, forgetConsents, inboundFrom, openQuestions, topicLines } from '../install/consent.ts';
import type { Consent, ConsentQuestion, Topic } from '../install/consent.ts';
import { isUserAsked, tablesLine } from '../../clients/codex/trust.ts';
import type { Removed } from '../../clients/settings/installer.ts';
import { applyPlan, planFor } from '../install/plan.ts';
import type { Plan } from '../install/plan.ts';

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
    if (clients.some(({ name }) => name === order.as))
      throw new Refusal(
        'invalid_request',
        `sessions share @${order.as} and have names of their own if you leave out --as; for one mailbox for all of them choose another name`,
      );
    if (order.inbound !== null && clients.every((client) => !client.inboundRule))
      throw new Refusal('invalid_request', '--inbound is for Claude Code: no other client has such a setting');
    const reach = await reachOf(context);
    const plans: Plan[] = [];
    for (const client of clients) plans.push(await planFor(context, target, client, order));
    const isOrdered = named.length > 0 || values.yes === true;
    const questions =
      dry || values.yes || context.json || !canAsk(context.env) ? [] : questionsAbout(context, target, plans);
    const isAsked = questions.some(({ topic }) => topic === 'reply');
    const given = { target, reach, isAsked };
    if (dry || !isOrdered) report(context, plans, { ...given, dry: true });
    if (dry) return;
    if (!isOrdered && (context.json || !isTerminal(0)))
      return context.note('nothing was changed; to do this: parley install --yes');
    const allowed = answer(context, questions, isOrdered);
    if (allowed === null) return context.note('nothing was changed');
    for (const { mailbox, refused } of plans)
      if (mailbox?.isMissing && refused === null) await makeMailbox(context.ownHome, mailbox.agent);
    oneAtATime(context.env, () => {
      keepScript(context);
      const done = plans.map((plan) => applyPlan(context, withAnswers(plan, questions, allowed)));
      report(context, done, { ...given, dry: false, isListed: !isOrdered });
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
  const [question = '', ...before] = questionLines(questions, isOrdered).toReversed();
  for (const line of before.toReversed()) context.note(line);
  const said = yesWith(context, question);
  if (said === null) return isOrdered ? [] : null;
  const [unknown] = said.filter((word) => !questions.some(({ topic }) => topic === word));
  if (unknown !== undefined)
    throw new Refusal('invalid_request', `"${visibleLine(unknown, 40)}" is not asked for here; nothing was changed`);
  return said;
}

/** What is asked, what each answer does, and the question itself as the last line. */
function questionLines(questions: readonly ConsentQuestion[], isOrdered: boolean): string[] {
  if (questions.length === 0) return ['Make these changes? yes, or y, makes them; Enter changes nothing. Type yes:'];
  const more = `yes ${questions.map(({ topic }) => topic).join(' ')}`;
  const topics = topicLines(questions);
  if (isOrdered)
    return [
      'Parley makes its changes in any case. You may also allow this; it is yours to decide:',
      ...topics,
      `  ${more}: what you name is allowed`,
      '  Enter, or yes or y alone: nothing more is allowed',
      'Allow more? Type yes:',
    ];
  return [
    'Parley would make the changes above. What you may answer:',
    '  yes, or y: they are made, and nothing more is allowed',
    `  ${more}: they are made, and what you name is allowed; it is yours to decide:`,
    ...topics.map((line) => `  ${line}`),
    '  Enter, or anything else: nothing is changed',
    'Make these changes? Type yes:',
  ];
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

interface Report {
  target: InstallTarget;
  /** Where mail can go that a model sends: see `reachOf`. */
  reach: string;
  /** The user is asked what models may do without a dialog, so no note says it. */
  isAsked: boolean;
  dry: boolean;
  /** The user has just read all of it as what would be done. */
  isListed?: boolean;
}

function report(context: Context, given: readonly Plan[], { target, reach, isAsked, dry, isListed }: Report): void {
  const plans = given.map((plan) => ({
    ...plan,
    advice: [
      ...plan.advice,
      ...(isAsked && plan.grant === null ? [] : grantAdvice(plan.client, target, plan.grant, reach)),
    ],
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
    const title = `${client.title}${mailbox ? `, as @${mailbox.agent}` : ''}`;
    if (refused !== null) {
      context.say(`${title}:\n  nothing was changed: ${refused}`);
      continue;
    }
    context.say(`${title}:${isListed ? ' done' : ''}`);
    if (mailbox?.isMissing && !isListed)
      context.say(`  ${(dry ? 'would make' : 'made').padEnd(10)} mailbox @${mailbox.agent}`);
    for (const line of [...appliedLines(applied, isListed), ...removedLines(removed)]) context.say(line);
    for (const one of isListed ? [] : advice) context.say(`  note: ${one}`);
  }
  const named = plans.filter(({ client, mailbox, refused }) => refused === null && mailbox?.agent === client.name);
  const [first, ...others] = named.map(({ client }) => client.name);
  if (!dry && first !== undefined)
    context.say(
      `Each session has a name of its own: @${first}.api in the folder api${others.length > 0 ? `, also for ${others.join(', ')}` : ''}. ` +
        `Mail for @${first} goes to one of its sessions.`,
    );
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
  const isListed = !dry && isUserAsked(context, yes);
  const some = results.filter(({ removed }) => removed.length > 0);
  if (some.length === 0) context.say('nothing was added by `parley install`');
  for (const { client, removed } of some) {
    context.say(`${client.title}:`);
    for (const line of removedLines(removed)) context.say(line);
    if (client.name === 'codex') for (const one of codexTables) context.say(tablesLine(one, isListed));
  }
}

/** A client without Parley reads no mailbox. The mailbox itself stays. */
function unbind({ env }: Context, { name }: ClientSettings, removed: readonly Removed[]): void {
  if (removed.length === 0 || isRefused(removed)) return;
  unbindClient(parleyHome(env), name);
  forgetConsents(env, name);
  forgetSessionsOf(parleyHome(env), name);
}
