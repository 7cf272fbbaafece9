import { existsSync, readFileSync } from 'node:fs';
import { CLIENT_NAMES } from '../../clients/install-client.ts';
import type { InstallClient, Place } from '../../clients/install-client.ts';
import { INSTALL_CLIENTS } from '../../clients/install-clients.ts';
import type { AgentName } from '../../protocol/names.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { bindClient, unbindClient } from '../client-bindings.ts';
import { command } from '../command.ts';
import { isSure } from '../consent.ts';
import { agentName } from '../context.ts';
import type { Context } from '../context.ts';
import { scriptText, writeScript } from '../hook-setup.ts';
import { grantAdvice, grantAtTerminal, grantFrom, grantWishes, reachOf } from '../install/allow.ts';
import type { Grant } from '../install/allow.ts';
import { fulfil, notedFor, takeOut } from '../install/carry-out.ts';
import type { Done, Removed } from '../install/carry-out.ts';
import { noteChangedHooks } from '../install/codex-trust.ts';
import { findCodexTables, offerRemoval, tablesLine } from '../install/codex-tables.ts';
import { isHere } from '../install/here.ts';
import { manifestIn } from '../install/manifest-place.ts';
import { formerMailbox } from '../install/older-lines.ts';
import { makeMailbox, ownMailbox } from '../install/own-mailbox.ts';
import type { OwnMailbox } from '../install/own-mailbox.ts';
import { parleyGift } from '../install/parley-gift.ts';
import { skillFiles } from '../install/skill.ts';
import { doneLine, removedLine } from '../install/told.ts';
import { inTurn } from '../install/turn.ts';
import { lastingProgram, temporaryHome } from '../lasting.ts';
import { gitTop } from '../origin.ts';
import { parleyHome, userHome } from '../env.ts';
import { forgetSessionsOf } from '../../delivery/hook-session.ts';
import { isTerminal } from '../terminal.ts';

export default command({
  usage: `install [${CLIENT_NAMES.join('|')} …]`,
  about:
    'Adds Parley to clients: its hook, which puts waiting mail before the model, its tools (`parley mcp`) and its skill. Each client gets a ' +
    'mailbox of its own, named like the client; --as gives it another. The settings of a client name only the client, so a later ' +
    '--as changes none of them. Without a name it looks which clients are here, shows what it would do, and asks. What is in their ' +
    'settings stays, comments included; a file that cannot be read is left alone, and then nothing of that client is changed. ' +
    'Everything is listed with a copy of each file as it was, and --uninstall gives back the very bytes, or takes out only what is ' +
    'ours where others wrote since. It never answers for you what a client asks you to trust. Only --allow changes what ' +
    'its models may do without a dialog.',
  options: {
    as: { type: 'string', value: 'agent', help: 'give the client this mailbox instead of one with its own name' },
    project: {
      type: 'boolean',
      help: "the tools only for the project here, where the client has a project's settings",
    },
    global: { type: 'boolean', help: 'the tools for all projects (as without it)' },
    hooks: { type: 'boolean', help: 'the hook and the tools (as without it)' },
    'no-hooks': { type: 'boolean', help: 'the tools only; mail then waits until the model asks for it' },
    allow: {
      type: 'string',
      value: 'what',
      help: 'let the models use tools without a dialog: reply (to answer mail), or tools (all of Parley)',
    },
    'dry-run': { type: 'boolean', help: 'say what would be done, and do nothing' },
    uninstall: { type: 'boolean', help: 'take out what was added, of these clients or of all' },
    yes: { type: 'boolean', help: 'do not ask; with --uninstall, also remove what Codex wrote about Parley' },
  },
  words: [0, CLIENT_NAMES.length],
  examples: [
    'parley install',
    'parley install claude --dry-run',
    'parley install codex --as reviewer',
    'parley install --uninstall',
  ],
  async run(context, values, words) {
    if (values.project && values.global) throw new Refusal('invalid_request', '--project or --global, not both');
    if (values.hooks && values['no-hooks']) throw new Refusal('invalid_request', '--hooks or --no-hooks, not both');
    const place = {
      home: userHome(context.env),
      env: context.env,
      project: gitTop(context.cwd) ?? context.cwd,
    };
    const named = [...new Set(words)].map(clientCalled);
    const dry = values['dry-run'] ?? false;
    if (values.uninstall)
      return inTurn(context.env, () => uninstall(context, place, named, { dry, yes: values.yes ?? false }));
    const clients = named.length > 0 ? named : INSTALL_CLIENTS.filter((client) => isHere(client, place));
    if (clients.length === 0)
      throw new Refusal(
        'not_found',
        `no client that Parley knows is here; name it if it comes later: parley install ${CLIENT_NAMES[0]}`,
      );
    const permit: Permit = { grant: grantFrom(values.allow, context.env), reach: await reachOf(context) };
    const plans: Plan[] = [];
    for (const client of clients)
      plans.push(
        await planFor(context, place, client, {
          as: values.as === undefined ? undefined : agentName(values.as),
          project: values.project ?? false,
          hooks: !values['no-hooks'],
          grant: permit.grant,
        }),
      );
    const isAsked = named.length > 0 || values.yes === true;
    if (dry || !isAsked) report(context, place, plans, permit, true);
    if (dry) return;
    if (!isAsked && (context.json || !isTerminal(0)))
      return context.note('nothing was changed; to do this: parley install --yes');
    if (!isAsked && !isSure(context, 'Shall this be done?')) return context.note('nothing was changed');
    if (!isAsked) permit.grant ??= grantAtTerminal(context, place, clients, permit.reach);
    for (const { mailbox, refused } of plans)
      if (mailbox?.isMissing && refused === null) await makeMailbox(context, mailbox.agent);
    inTurn(context.env, () => report(context, place, carryOut(context, place, plans, permit.grant), permit, false));
  },
});

function clientCalled(name: string): InstallClient {
  const found = INSTALL_CLIENTS.find((one) => one.name === name);
  if (found) return found;
  const shown = name.replace(/\p{Cc}/gu, '?').slice(0, 40);
  throw new Refusal('invalid_request', `no client is called "${shown}"; use some of ${CLIENT_NAMES.join(', ')}`);
}

/** What the models may do without a dialog, and where the mail goes that they send so. */
interface Permit {
  grant: Grant | null;
  reach: string;
}

/** What one client gets, or why it gets nothing. A refused client does not stop the others. */
interface Plan {
  client: InstallClient;
  mailbox: OwnMailbox | null;
  fulfil: (dry: boolean, grant: Grant | null) => Done[];
  done: Done[];
  refused: string | null;
  advice: string[];
}

async function planFor(
  context: Context,
  place: Place,
  client: InstallClient,
  order: { as: AgentName | undefined; project: boolean; hooks: boolean; grant: Grant | null },
): Promise<Plan> {
  const again = `parley install ${client.name}`;
  const manifest = manifestIn(place.home);
  const program = lastingProgram(context.env, again);
  const gift = {
    ...parleyGift(context.env, { ...order, client: client.name, program }),
    files: skillFiles(client, place),
  };
  const plan: Plan = {
    client,
    mailbox: null,
    fulfil: (dry, grant) =>
      fulfil([...client.wishes(place, gift), ...grantWishes(client, place, grant)], manifest, { dry, again }),
    done: [],
    refused: null,
    advice: client.advice(place, gift),
  };
  try {
    const mailbox = await ownMailbox(context, client.name, order.as);
    const former = formerMailbox(notedFor(manifest, 'parley', [client.name], again));
    if (former !== undefined && former !== mailbox.agent)
      plan.advice.push(
        `its older lines said @${former}; it is @${mailbox.agent} from now on. To keep that one: ${again} --as ${former}`,
      );
    return { ...plan, mailbox, done: plan.fulfil(true, order.grant) };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return { ...plan, refused: error.message };
  }
}

/** Writes the settings of each client, then notes its mailbox. */
function carryOut(context: Context, place: Place, plans: readonly Plan[], grant: Grant | null): Plan[] {
  keepScript(context);
  return plans.map((plan) => {
    if (plan.refused !== null || plan.mailbox === null) return plan;
    try {
      const done = plan.fulfil(false, grant);
      noteChangedHooks(context.env, done);
      bindClient(parleyHome(place.env), plan.client.name, plan.mailbox.agent);
      return { ...plan, done, advice: [...plan.advice, ...trustAdvice(plan.client, done)] };
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      return { ...plan, done: [], refused: error.message };
    }
  });
}

function trustAdvice({ name }: InstallClient, done: readonly Done[]): string[] {
  const isNew = done.some(({ what, outcome }) => what.startsWith('hook') && outcome === 'replaced');
  return name === 'codex' && isNew
    ? ['The hook line changed: Codex does not run it before you trust it once more']
    : [];
}

function report(context: Context, place: Place, given: readonly Plan[], permit: Permit, dry: boolean): void {
  const plans = given.map((plan) => ({
    ...plan,
    advice: [...plan.advice, ...grantAdvice(plan.client, place, permit.grant, permit.reach)],
  }));
  if (plans.some(({ refused }) => refused !== null)) process.exitCode = 1;
  if (context.json)
    return context.sayJson({
      dryRun: dry,
      clients: plans.map(({ client, mailbox, done, refused, advice }) => ({
        client: client.name,
        agent: mailbox?.agent ?? null,
        changes: done,
        refused,
        advice,
      })),
    });
  for (const { client, mailbox, done, refused, advice } of plans) {
    context.say(`${client.title}${mailbox ? `, as @${mailbox.agent}` : ''}:`);
    if (refused !== null) {
      context.say(`  nothing was changed: ${refused}`);
      continue;
    }
    if (mailbox?.isMissing) context.say(`  ${(dry ? 'would make' : 'made').padEnd(10)} mailbox @${mailbox.agent}`);
    for (const one of done) context.say(doneLine(one));
    for (const one of advice) context.say(`  note: ${one}`);
  }
  if (!dry) context.say('Restart a client to use it. `parley install --uninstall` takes everything out again.');
  noteTemporaryHome(context);
}

function noteTemporaryHome(context: Context): void {
  const home = temporaryHome(context.env);
  if (home !== null)
    context.note(`HOME is ${home}, a temporary folder: everything installed there is lost when it is emptied`);
}

/** The hook's script is part of Parley's own home. */
function keepScript({ env }: Context): void {
  const path = `${parleyHome(env)}/hook`;
  if (!existsSync(path) || readFileSync(path, 'utf8') !== scriptText(env)) writeScript(env);
}

function uninstall(
  context: Context,
  place: Place,
  named: readonly InstallClient[],
  { dry, yes }: { dry: boolean; yes: boolean },
): void {
  const clients = named.length > 0 ? named : INSTALL_CLIENTS;
  const manifest = manifestIn(place.home);
  const again = 'parley install --uninstall';
  const names = clients.map(({ name }) => name);
  // Before the hooks go: afterwards nobody can tell which of Codex's tables were about them.
  const found = findCodexTables(notedFor(manifest, 'parley', names, again));
  const codexTables = dry ? found : offerRemoval(context, found, yes);
  const results = clients.map((client): { client: InstallClient; removed: Removed[] } => ({
    client,
    removed: takeOut(notedFor(manifest, 'parley', [client.name], again), manifest, { dry, again }),
  }));
  if (!dry) for (const { client, removed } of results) unbind(context, client, removed);
  if (results.some(({ removed }) => removed.some(({ outcome }) => outcome === 'refused'))) process.exitCode = 1;
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
function unbind({ env }: Context, { name }: InstallClient, removed: readonly Removed[]): void {
  if (removed.length === 0 || removed.some(({ outcome }) => outcome === 'refused')) return;
  unbindClient(parleyHome(env), name);
  forgetSessionsOf(parleyHome(env), name);
}
