import { existsSync, readFileSync } from 'node:fs';
import { CLIENT_NAMES } from '../../clients/install-client.ts';
import type { InstallClient, Place } from '../../clients/install-client.ts';
import { INSTALL_CLIENTS } from '../../clients/install-clients.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { command } from '../command.ts';
import { isSure } from '../consent.ts';
import type { Context } from '../context.ts';
import { scriptText, writeScript } from '../hook-setup.ts';
import { fulfil, notedFor, takeOut } from '../install/carry-out.ts';
import type { Done, Removed } from '../install/carry-out.ts';
import { isHere } from '../install/here.ts';
import { manifestIn } from '../install/manifest-place.ts';
import { parleyGift } from '../install/parley-gift.ts';
import { doneLine, removedLine } from '../install/told.ts';
import { inTurn } from '../install/turn.ts';
import { lastingProgram } from '../lasting.ts';
import { gitTop } from '../origin.ts';
import { parleyHome, userHome } from '../env.ts';
import { isTerminal } from '../terminal.ts';

export default command({
  usage: `install [${CLIENT_NAMES.join('|')} …]`,
  about:
    'Adds Parley to clients: its hook, which puts waiting mail before the model, and its tools (`parley mcp`). Without a name it looks ' +
    'which clients are here, shows what it would do, and asks. What is in their settings stays, comments included; a file that cannot ' +
    'be read is left alone, and then nothing of that client is changed. Everything is listed with a copy of each file as it was, and ' +
    '--uninstall gives back the very bytes, or takes out only what is ours where others wrote since. It never answers for you: not ' +
    'what a client asks you to trust, and not what its models may do.',
  options: {
    project: {
      type: 'boolean',
      help: "the tools only for the project here, where the client has a project's settings",
    },
    global: { type: 'boolean', help: 'the tools for all projects (as without it)' },
    hooks: { type: 'boolean', help: 'the hook for Codex too, which will ask you to trust it' },
    'dry-run': { type: 'boolean', help: 'say what would be done, and do nothing' },
    uninstall: { type: 'boolean', help: 'take out what was added, of these clients or of all' },
    yes: { type: 'boolean', help: 'do not ask' },
  },
  words: [0, CLIENT_NAMES.length],
  examples: ['parley install', 'parley install claude --dry-run', 'parley install --uninstall'],
  async run(context, values, words) {
    if (values.project && values.global) throw new Refusal('invalid_request', '--project or --global, not both');
    const place = {
      home: userHome(context.env),
      env: context.env,
      project: gitTop(context.cwd) ?? context.cwd,
    };
    const named = [...new Set(words)].map(clientCalled);
    const dry = values['dry-run'] ?? false;
    if (values.uninstall) return inTurn(context.env, () => uninstall(context, place, named, dry));
    const { name: agent } = await context.who();
    const clients = named.length > 0 ? named : INSTALL_CLIENTS.filter((client) => isHere(client, place));
    if (clients.length === 0)
      throw new Refusal(
        'not_found',
        `no client that Parley knows is here; name it if it comes later: parley install ${CLIENT_NAMES[0]}`,
      );
    const from = context.loaded.origins.find(({ name }) => name === 'agent')?.from;
    // What only this call says is written down; otherwise each session finds its own name where it runs.
    const isNamed = from === 'flag' || from === 'PARLEY_AGENT';
    const order = { agent, named: isNamed, project: values.project ?? false, hooks: values.hooks ?? false };
    const isAsked = named.length > 0 || values.yes === true || dry;
    if (!isAsked && (context.json || !isTerminal(0))) {
      carryOut(context, place, clients, { ...order, dry: true });
      return context.note('nothing was changed; to do this: parley install --yes');
    }
    if (!isAsked) {
      carryOut(context, place, clients, { ...order, dry: true });
      if (!isSure(context, 'Shall this be done?')) return context.note('nothing was changed');
    }
    inTurn(context.env, () => carryOut(context, place, clients, { ...order, dry }));
  },
});

function clientCalled(name: string): InstallClient {
  const found = INSTALL_CLIENTS.find((one) => one.name === name);
  if (found) return found;
  const shown = name.replace(/\p{Cc}/gu, '?').slice(0, 40);
  throw new Refusal('invalid_request', `no client is called "${shown}"; use some of ${CLIENT_NAMES.join(', ')}`);
}

/** One client after the other; one whose files must be left alone keeps nobody else from being served. */
function carryOut(
  context: Context,
  place: Place,
  clients: readonly InstallClient[],
  order: { agent: string; named: boolean; project: boolean; hooks: boolean; dry: boolean },
): void {
  const program = lastingProgram(context.env, 'parley install');
  const manifest = manifestIn(place.home);
  if (!order.dry) keepScript(context);
  const results = clients.map((client) => {
    const gift = parleyGift(context.env, { ...order, client: client.name, program });
    const again = `parley install ${client.name}`;
    return {
      client,
      advice: client.advice(place, gift),
      ...attempted(() => fulfil(client.wishes(place, gift), manifest, { dry: order.dry, again })),
    };
  });
  if (results.some(({ refused }) => refused)) process.exitCode = 1;
  if (context.json)
    return context.sayJson({
      agent: order.agent,
      dryRun: order.dry,
      clients: results.map(({ client, done, refused, advice }) => ({
        client: client.name,
        changes: done,
        refused,
        advice,
      })),
    });
  for (const { client, done, refused, advice } of results) {
    context.say(`${client.title}, as @${order.agent}:`);
    if (refused) context.say(`  nothing was changed: ${refused}`);
    for (const one of done) context.say(doneLine(one));
    for (const one of refused ? [] : advice) context.say(`  note: ${one}`);
  }
  if (!order.dry)
    context.say('Start a client anew to use it. `parley install --uninstall` takes everything out again.');
}

function attempted(act: () => Done[]): { done: Done[]; refused: string | null } {
  try {
    return { done: act(), refused: null };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return { done: [], refused: error.message };
  }
}

/** The hook's script is part of Parley's own home. */
function keepScript({ env }: Context): void {
  const path = `${parleyHome(env)}/hook`;
  if (!existsSync(path) || readFileSync(path, 'utf8') !== scriptText(env)) writeScript(env);
}

function uninstall(context: Context, place: Place, named: readonly InstallClient[], dry: boolean): void {
  const clients = named.length > 0 ? named : INSTALL_CLIENTS;
  const manifest = manifestIn(place.home);
  const again = 'parley install --uninstall';
  const results = clients.map((client): { client: InstallClient; removed: Removed[] } => ({
    client,
    removed: takeOut(notedFor(manifest, 'parley', [client.name], again), manifest, { dry, again }),
  }));
  if (results.some(({ removed }) => removed.some(({ outcome }) => outcome === 'refused'))) process.exitCode = 1;
  if (context.json)
    return context.sayJson({
      dryRun: dry,
      clients: results.map(({ client, removed }) => ({ client: client.name, removed })),
    });
  const some = results.filter(({ removed }) => removed.length > 0);
  if (some.length === 0) context.say('nothing was added by `parley install`');
  for (const { client, removed } of some) {
    context.say(`${client.title}:`);
    for (const one of removed) context.say(removedLine(one));
  }
}
