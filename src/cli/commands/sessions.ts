import { namesIn, HookSessionFolder } from '../../delivery/hook-session.ts';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { agentSessions, SessionLines } from '../agent-sessions.ts';
import type { AgentSession } from '../agent-sessions.ts';
import { clientBindings, clientOf, isShared } from '../../delivery/client-bindings.ts';
import { agentName, channelName } from '../context.ts';
import { SessionNames } from '../../delivery/session-names.ts';
import { whyWaiting } from '../../delivery/wake-budget.ts';
import type { Context } from '../context.ts';
import { ceaseDefault } from '../settings-file.ts';
import { relayMailboxes } from '../relay-mailboxes.ts';
import type { RelayMailbox } from '../relay-mailboxes.ts';
import { hasNoReader, noReaderAdvice } from '../unread.ts';
import { agentFrom } from '../find.ts';
import { command } from '../../core/command.ts';
import { ago } from '../../core/time.ts';
import { lineForModel } from '../../core/gate.ts';
import { giveRole, takeRole } from '../../core/obligations/owners.ts';
import type { Who } from '../../core/mail/workspace.ts';
import { parleyHome } from '../../platform/env.ts';
import { shortId } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import { refuseUnlessUser } from '../../platform/authority.ts';
import { openRemoteHome } from '../../protocols/backchannel/homes.ts';

const whoamiCommand = command({
  usage: 'whoami',
  about: 'Shows which agent you are, which setting says so, and where your mailbox is.',
  examples: ['parley whoami'],
  async run(context: Context) {
    const who = await context.who('read');
    const from = context.loaded.origins.find((origin) => origin.name === 'agent')?.from ?? 'default';
    const { label, root, remote } = who.home;
    const own = (await who.home.directory.get(who.name))?.parley;
    const { kind = 'agent', owner = false, roles = [], owns = [], quiet = null } = own ?? {};
    const about = { kind, owner, roles, owns, quiet };
    if (context.json)
      return context.sayJson({
        agent: who.name,
        home: label,
        root,
        from,
        ...about,
        ...(remote && { url: remote.url }),
      });
    context.say(`@${who.name} ${remote ? `at ${remote.url}` : `in ${root}`} (from ${from})`);
    const notes = [
      kind === 'human' ? (owner ? 'a person, the owner' : 'a person') : '',
      roles.length > 0
        ? `has the ${roles.length === 1 ? 'role' : 'roles'} ${roles.map((role) => `@${role}`).join(', ')}`
        : '',
      owns.length > 0
        ? `owns ${owns.map((what) => (what.startsWith('#') ? lineForModel(what, 80) : shortId(what))).join(', ')}`
        : '',
      quiet ? 'wants quiet: parley quiet' : '',
    ].filter(Boolean);
    if (notes.length > 0) context.say(notes.join('; '));
  },
});

const agentsCommand = command({
  usage: 'agents',
  about:
    'Lists the agents and people with a mailbox on this machine, in every home; at a relay, those of your room. ' +
    'Of an agent that is a session of a client: the client, its folder, what it does now, when and by which way mail reaches it, and how much waits. ' +
    'With --mine: every mailbox that you can use here, those at relays too, with the number of waiting messages.',
  options: { mine: { type: 'boolean', help: 'only my mailboxes, with how much waits in each' } },
  examples: ['parley agents', 'parley agents --mine', 'parley agents --json'],
  async run(context: Context, values) {
    if (values.mine) return listMine(context);
    const now = context.workspace.now();
    const rows = [];
    const sessions = await agentSessions(context.env, (trouble) => context.note(`parley: ${trouble}`));
    for (const home of context.workspace.homes) {
      for (const record of await home.directory.list()) {
        const { name, subscriptions, lastSeen, parley } = record;
        const running = (home.label === 'parley' && sessions.get(name)) || [];
        const nobodyReads = name !== context.settings.agent && (await hasNoReader(home, record, now));
        rows.push({
          name,
          home: home.label,
          kind: parley?.kind ?? 'agent',
          owner: parley?.owner ?? false,
          roles: parley?.roles ?? [],
          owns: parley?.owns ?? [],
          subscriptions,
          lastSeen,
          nobodyReads,
          // The name of 0.1.0 for the same.
          unread: nobodyReads,
          sessions: running,
          // The sessions that read it together, where it is the mailbox of a client.
          sharedBy: home.label === 'parley' && isShared(home.root, name) ? runningOf(sessions, name) : [],
          waitsBecause: running.length > 0 ? await whyWaiting({ name, home }) : null,
          // Nobody waits for a network here.
          waiting: home.remote ? null : (await home.mailboxes.ids(name)).length,
        });
      }
    }
    if (context.json) return context.sayJson(rows);
    if (rows.length === 0) return context.say('there are no mailboxes yet; make one with `parley init <name>`');
    const lines = new SessionLines(context.env);
    for (const row of rows) {
      const notes = [
        ...row.subscriptions.map((name) => lineForModel(name, 80)),
        ...row.roles.map((role) => `@${role}`),
        row.kind === 'human' ? (row.owner ? 'a person, the owner' : 'a person') : '',
        ...row.owns.map((what) => `owns ${what.startsWith('#') ? lineForModel(what, 80) : shortId(what)}`),
      ].filter(Boolean);
      const where = row.home === 'parley' ? '' : `%${row.home}`;
      const about = notes.length > 0 ? ` (${notes.join(', ')})` : '';
      const shared = row.sharedBy.map((session) => `@${session}`).join(', ');
      const isGroup = row.home === 'parley' && isShared(parleyHome(context.env), row.name);
      const group = isGroup ? `  mail for any session of ${row.name}: ${shared || 'none runs'}` : '';
      const running = row.sessions.map((session) => `  ${lineForModel(lines.of(row.name, session), 400)}`);
      const isSession = row.sessions.length > 0 || isGroup;
      const why = row.waitsBecause === null ? '' : ` (${row.waitsBecause})`;
      const waiting = isSession && row.waiting ? `  ${row.waiting} waiting${why}` : '';
      const isRunning = shared !== '' || row.sessions.some(({ state }) => state !== 'not running');
      const seen = isRunning ? '' : `  ${context.paint.dim(`seen ${ago(row.lastSeen, now)}`)}`;
      context.say(
        `${context.paint.bold(`@${row.name}${where}`)}${about}${group}${running.join('  ·')}${waiting}${seen}`,
      );
    }
    const unread = rows.filter(({ nobodyReads }) => nobodyReads).map(({ name }) => name);
    if (unread.length > 0) context.note(noReaderAdvice(unread));
    noteRelayMailboxes(context);
  },
});

/** The names of the sessions of this client that run. */
function runningOf(sessions: ReadonlyMap<string, readonly AgentSession[]>, client: string): string[] {
  const runs = (one: AgentSession): boolean => one.client === client && one.state !== 'not running';
  return [...sessions].flatMap(([name, all]) => (name !== client && all.some(runs) ? [name] : [])).toSorted();
}

/** The agents of a relay are listed only for the mailbox that one acts as. A broken file of another must not stop the list. */
function noteRelayMailboxes(context: Context): void {
  try {
    const roots = context.workspace.homes.map(({ root }) => root);
    const others = relayMailboxes(parleyHome(context.env)).filter(({ root }) => !roots.includes(root));
    if (others.length === 0) return;
    const names = others.map(({ agent, url }) => `@${agent} at ${url}`).join(', ');
    context.note(`you also have ${names}; use --as, or see \`parley agents --mine\``);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    context.note(error.message);
  }
}

/** A mailbox of this user. `waiting` is null if the relay did not say. */
interface OwnMailbox {
  name: string;
  home: string;
  url?: string;
  room?: string | undefined;
  waiting: number | null;
  unsent?: number;
  trouble?: string;
}

async function listMine(context: Context): Promise<void> {
  const rows: OwnMailbox[] = [];
  const local = context.workspace.homes.find(({ label }) => label === 'parley');
  for (const { name } of (await local?.directory.list()) ?? [])
    rows.push({ name, home: 'parley', waiting: (await local?.mailboxes.ids(name))?.length ?? 0 });
  rows.push(...(await Promise.all(relayMailboxes(parleyHome(context.env)).map((one) => atRelay(context, one)))));
  if (context.json) return context.sayJson(rows);
  if (rows.length === 0) return context.say('you have no mailbox yet; make one with `parley init <name>`');
  for (const { name, url, room, waiting, unsent = 0, trouble } of rows) {
    const where = url === undefined ? '' : ` at ${url}${room === undefined ? '' : ` (room ${room})`}`;
    const isDefault = name === context.settings.agent ? '  you' : '';
    const counts = [waiting === null ? '' : `${waiting} waiting`, unsent > 0 ? `${unsent} in the outbox` : ''];
    context.say(
      `${context.paint.bold(`@${name}`)}${where}  ${counts.filter(Boolean).join(', ') || 'unknown'}${context.paint.dim(isDefault)}`,
    );
    if (trouble !== undefined) context.note(`  ${trouble}`);
  }
}

/** Asks the relay what waits. One that does not answer must not hide the other mailboxes. */
async function atRelay(context: Context, { agent, url, room, root, unsent }: RelayMailbox): Promise<OwnMailbox> {
  const row = { name: agent, home: 'relay', url, room, unsent };
  try {
    const { mailboxes } = openRemoteHome({ root, durability: context.settings.durability });
    return { ...row, waiting: (await mailboxes.ids(agent)).length };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return { ...row, waiting: null, trouble: error.message };
  }
}

const roleCommand = command({
  usage: 'role [add|remove] [@agent] [role]',
  about:
    'Gives a role to an agent, or removes it. Without arguments it lists the roles. Mail to @role asks one agent with that role, and ' +
    'the others can look it up. A name is an agent or a role, never both.',
  words: [0, 3],
  examples: ['parley role', 'parley role add @codex-1 reviewer', 'parley role remove @codex-1 reviewer'],
  async run(context: Context, _values, [verb, agent, name]) {
    if (verb === undefined) return list(context);
    if ((verb !== 'add' && verb !== 'remove') || agent === undefined || name === undefined)
      throw new Refusal('invalid_request', 'usage: parley role add|remove @agent <role>');
    const role = agentName(name);
    const who = await agentFrom(context.workspace, agent);
    const changed = verb === 'add' ? await giveRole(who, role) : await takeRole(who, role);
    const roles = (await who.home.directory.get(who.name))?.parley?.roles ?? [];
    if (context.json) return context.sayJson({ agent: who.name, home: who.home.label, role, changed, roles });
    const now = verb === 'add' ? `has the role @${role}` : `has no role @${role}`;
    context.say(`@${who.name} ${changed ? `now ${now}` : `${now} already`}`);
  },
});

async function list(context: Context): Promise<void> {
  const roles: { role: string; home: string; members: string[] }[] = [];
  for (const home of context.workspace.homes) {
    const records = await home.directory.list();
    const names = [...new Set(records.flatMap((record) => record.parley?.roles ?? []))].sort();
    for (const role of names) {
      const members = records.filter((record) => record.parley?.roles.includes(role)).map((record) => record.name);
      roles.push({ role, home: home.label, members });
    }
  }
  if (context.json) return context.sayJson(roles);
  if (roles.length === 0) return context.say('there are no roles; give one with `parley role add @agent <role>`');
  for (const { role, home, members } of roles) {
    const where = home === 'parley' ? '' : `%${home}`;
    context.say(`${context.paint.bold(`@${role}${where}`)}  ${members.map((name) => `@${name}`).join(', ')}`);
  }
}

const channelsCommand = command({
  usage: 'channels',
  about: 'Lists the channels and who subscribes to each.',
  examples: ['parley channels'],
  async run(context: Context) {
    const rows = [];
    for (const home of context.workspace.homes) {
      for (const channel of await home.directory.channels()) {
        rows.push({
          channel,
          home: home.label,
          subscribers: (await home.directory.subscribers(channel)).map(({ name }) => name),
        });
      }
    }
    if (context.json) return context.sayJson(rows);
    if (rows.length === 0) return context.say('no channels yet; `parley sub "#general"` makes one');
    for (const { channel, home, subscribers } of rows) {
      context.say(
        `${context.paint.bold(channel)}${home === 'parley' ? '' : `%${home}`}  ${subscribers.map((name) => `@${name}`).join(', ')}`,
      );
    }
  },
});

const subCommand = command({
  usage: 'sub <#channel>',
  about: 'Subscribes you to a channel. The first subscriber creates it.',
  words: [1, 1],
  examples: ['parley sub "#backend"'],
  async run(context: Context, _values, [text = '']) {
    const who = await context.who();
    const channel = channelName(text);
    await who.home.directory.subscribe(who.name, channel);
    if (context.json) return context.sayJson({ agent: who.name, channel, subscribed: true });
    context.say(`subscribed to ${channel}`);
  },
});

const unsubCommand = command({
  usage: 'unsub <#channel>',
  about: 'Ends your subscription to a channel.',
  words: [1, 1],
  examples: ['parley unsub "#backend"'],
  async run(context: Context, _values, [text = '']) {
    const who = await context.who();
    const channel = channelName(text);
    await who.home.directory.unsubscribe(who.name, channel);
    if (context.json) return context.sayJson({ agent: who.name, channel, subscribed: false });
    context.say(`unsubscribed from ${channel}`);
  },
});

const forgetCommand = command({
  usage: 'forget <agent>',
  about:
    'Deletes an agent: its record, its mailbox with all waiting mail, and its copies in the ledger. What it wrote to others stays with them. ' +
    'This cannot be undone.',
  options: { yes: { type: 'boolean', help: 'delete it; without this it only says what would be deleted' } },
  words: [1, 1],
  examples: ['parley forget codex-1 --yes', 'parley forget codex-1%bch --yes'],
  async run(context: Context, values, [text = '']) {
    const who = await agentFrom(context.workspace, text);
    const { name, home } = who;
    if (home.remote)
      throw new Refusal(
        'not_yours',
        `@${name} is at ${home.remote.url}; only the operator of that relay can remove it`,
      );
    if ((await home.directory.get(name))?.parley?.kind === 'human')
      refuseUnlessUser(context.env, "forget a person's mailbox");
    if (home.label === 'parley' && new SessionNames(home.root).isRunning(name))
      throw new Refusal('already_claimed', `@${name} is a running session; end it first (nothing was deleted)`);
    const waiting = (await home.mailboxes.ids(name)).length;
    if (!values.yes) {
      const mail =
        waiting === 0 ? 'no waiting mail' : `with ${waiting} waiting ${waiting === 1 ? 'message' : 'messages'}`;
      throw new Refusal('invalid_request', `this would delete @${name} in ${home.root} (${mail}); add --yes to do it`);
    }
    const wasOwner = (await home.directory.get(name))?.parley?.owner === true;
    const client = clientOf(clientBindings(parleyHome(context.env)), name);
    const asides = await remove(who);
    forgetSessions(who);
    const { copies, messages } = await home.journal.forget(name);
    await home.directory.remove(name);
    // Mail may have been sent to it before its record was gone.
    await home.mailboxes.remove(name);
    const wasDefault = home.label === 'parley' && ceaseDefault(join(parleyHome(context.env), 'config.json'), name);
    if (context.json)
      return context.sayJson({ agent: name, home: home.label, waiting, copies, messages, asides, wasDefault });
    context.say(
      `forgot @${name}: its record and mailbox (${waiting} waiting), ${copies} copies and ${messages} messages in the ledger`,
    );
    if (wasOwner) context.note('it was the owner; name another: parley init <name> --human --owner');
    if (client !== undefined && home.label === 'parley')
      context.note(`${client} still uses this mailbox; give it another: parley install ${client} --as <name>`);
    if (wasDefault) context.note('it was your default agent; choose another: parley init <name> --default');
  },
});

/** The mailbox first: until the record is gone, an interrupted removal can be run again. */
async function remove({ name, home }: Who): Promise<number> {
  await home.mailboxes.remove(name);
  const asides = (await home.mailboxes.asides()).filter((path) => path.startsWith(`${home.root}/aside/${name}/`));
  for (const path of asides) rmSync(path, { recursive: true, force: true });
  return asides.length;
}

/** A session that was bound to it asks again who it is. */
function forgetSessions({ name, home }: Who): void {
  for (const id of namesIn(`${home.root}/sessions`)) {
    const session = HookSessionFolder.open(home.root, id);
    if (session?.binding()?.agent === name) rmSync(`${home.root}/sessions/${id}`, { recursive: true, force: true });
  }
  rmSync(`${home.root}/names/${name}.json`, { force: true });
}

export const commands = {
  whoami: whoamiCommand,
  agents: agentsCommand,
  role: roleCommand,
  channels: channelsCommand,
  sub: subCommand,
  unsub: unsubCommand,
  forget: forgetCommand,
};
