import { serveMcp } from '../../wire/mcp-stdio.ts';
import { backchannelFace } from './mcp.ts';
import { FLAG, TEXT, TEXTS, command } from '../../core/command.ts';
import { forModel, lineForModel } from '../../core/gate.ts';
import { byCommand, takeAndPrint } from '../../delivery/print.ts';
import { watchMail } from '../../delivery/watch-mail.ts';
import { findWaiting, waiting } from '../../core/mail/deliver.ts';
import type { Delivered } from '../../core/mail/deliver.ts';
import { send } from '../../core/mail/send.ts';
import { servingLog } from '../../platform/log.ts';
import { anyChannel } from './names.ts';
import type { Draft, Message } from '../../core/message.ts';
import type { MessageId, Scope } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import type { Bch } from './workspace.ts';

const sendCommand = command({
  usage: 'send <@agent|#channel> <message>',
  options: { urgent: FLAG, scope: TEXT, thread: TEXT, ref: TEXTS },
  words: [2, Infinity],
  async run(bch: Bch, values, [to = '', ...words]) {
    const who = await bch.who();
    // Scope, thread and refs are the user's own words: stored unchanged, never used as a path, and they need not exist.
    const draft: Draft = {
      to,
      body: words.join(' '),
      priority: values.urgent ? 'urgent' : 'normal',
      scope: (values.scope || undefined) as Scope | undefined,
      thread: (values.thread || undefined) as MessageId | undefined,
      refs: values.ref,
      intent: 'none',
    };
    const { message } = await send(bch.workspace, who.name, draft);
    bch.say(`sent ${message.id.slice(0, 8)} to ${to}`);
  },
});

const inboxCommand = command({
  usage: 'inbox',
  options: { json: FLAG, brief: FLAG, match: TEXT },
  async run(bch: Bch, values) {
    const who = await bch.reader();
    const mail = await waiting(who, { match: values.match, any: !values.match });
    const messages = mail.map(({ message }) => message);
    if (values.json) return bch.say(JSON.stringify(messages, null, 2));
    if (messages.length === 0) return bch.say('inbox empty');
    bch.say(messages.map(values.brief ? brief : full).join('\n'));
  },
});

const drainCommand = command({
  usage: 'drain',
  options: { json: FLAG, hook: FLAG, match: TEXT },
  async run(bch: Bch, values) {
    // The hook runs at every prompt of every session: without an identity it must print nothing.
    if (values.hook && !bch.identity) return;
    const who = await bch.reader(values.hook ? 'serve' : 'read');
    const mail = await waiting(who, { match: values.match });
    const wanted = mail.map(({ message }) => message);
    const render = (delivered: Delivered[]): string => {
      const messages = delivered.map(({ message }) => message);
      if (values.json) return `${JSON.stringify(messages, null, 2)}\n`;
      const title = values.hook ? [`[backchannel] ${messages.length} message(s) for ${who.name}:`] : [];
      return [...title, ...messages.map(full), ''].join('\n');
    };
    const taken = await takeAndPrint({ who }, wanted, byCommand('bch drain', who), render);
    if (taken.length > 0) return;
    if (values.json) bch.say('[]');
    else if (!values.hook) bch.say('inbox empty');
  },
});

const readCommand = command({
  usage: 'read <id> [--keep]',
  options: { keep: FLAG },
  words: [1, 1],
  async run(bch: Bch, values, [prefix = '']) {
    const who = await bch.reader();
    const id = await findWaiting(who, prefix).catch((error: unknown) => {
      if (!(error instanceof Refusal && ['not_found', 'already_claimed'].includes(error.code))) throw error;
      throw new Refusal('not_found', `no unread message with id ${prefix}`);
    });
    const taken = await takeAndPrint(
      { who },
      [id],
      byCommand('bch read', who),
      (delivered) => delivered.map(({ message }) => `${full(message)}\n`).join(''),
      values.keep,
    );
    if (taken.length === 0) throw new Refusal('already_claimed', `message ${prefix} was claimed by another session`);
  },
});

const watchCommand = command({
  usage: 'watch',
  options: { exec: TEXT, 'urgent-only': FLAG, match: TEXT, peek: FLAG },
  async run(bch: Bch, values) {
    const who = await bch.reader();
    const peek = values.peek ?? false;
    await watchMail(who, {
      selection: { match: values.match, any: peek && !values.match, urgentOnly: values['urgent-only'] ?? false },
      peek,
      greeting: `watching inbox for ${who.name}${peek ? ' (peek: messages stay queued)' : ''} (ctrl-c to stop)`,
      exec: values.exec,
      env: bch.env,
      render: ({ message }) => `${brief(message)}\n`,
    });
  },
});

const subCommand = command({
  usage: 'sub <#channel>',
  words: [1, 1],
  async run(bch: Bch, _values, [channel = '']) {
    const { name, home } = await bch.who();
    if (!(await home.directory.get(name))) {
      throw new Refusal('no_identity', `unknown agent "${name}" — run \`bch init ${name}\` first`);
    }
    await home.directory.subscribe(name, anyChannel(channel));
    bch.say(`subscribed to ${channel}`);
  },
});

const unsubCommand = command({
  usage: 'unsub <#channel>',
  words: [1, 1],
  async run(bch: Bch, _values, [channel = '']) {
    const { name, home } = await bch.who();
    // An agent without a record has no subscriptions.
    if (await home.directory.get(name)) await home.directory.unsubscribe(name, anyChannel(channel));
    bch.say(`unsubscribed from ${channel}`);
  },
});

const agentsCommand = command({
  usage: 'agents',
  async run(bch: Bch) {
    for (const { name, subscriptions, lastSeen } of await bch.workspace.home.directory.list()) {
      const channels = subscriptions.length > 0 ? ` (${subscriptions.map((one) => lineForModel(one)).join(', ')})` : '';
      bch.say(`${name}${channels} — last seen ${lineForModel(lastSeen)}`);
    }
  },
});

const channelsCommand = command({
  usage: 'channels',
  async run(bch: Bch) {
    // Not `directory.channels()`: it lists only names that Parley itself allows.
    const records = await bch.workspace.home.directory.list();
    const channels = [...new Set(records.flatMap((record) => record.subscriptions))].sort();
    if (channels.length === 0) return bch.say('no channels yet — `bch sub #general` to create one');
    bch.say(channels.map((channel) => lineForModel(channel)).join('\n'));
  },
});

const whoamiCommand = command({
  usage: 'whoami',
  async run(bch: Bch) {
    const { name, home } = await bch.who('read');
    bch.say(`${name} via ${home.remote?.url ?? 'local spool'}`);
  },
});

const mcpCommand = command({
  usage: 'mcp',
  async run(bch: Bch) {
    const log = servingLog({ json: bch.env['PARLEY_LOG'] === 'json', verbose: false });
    await serveMcp(backchannelFace(bch.workspace, await bch.who('serve')), log);
  },
});

const BRIEF = 120;

/** The whole message, as the original prints it. The hook prints it too, so every text in it is made safe for models. */
function full(message: Message): string {
  const { scope, thread, refs } = message;
  return [
    head(message),
    ...(scope ? [`  scope: ${lineForModel(scope)}`] : []),
    ...(thread ? [`  thread: ${lineForModel(thread)}`] : []),
    ...(refs?.length ? [`  refs: ${refs.map((ref) => lineForModel(ref, 2048)).join(', ')}`] : []),
    forModel(message.body),
  ].join('\n');
}

/** One line. */
function brief(message: Message): string {
  const line = message.body.replace(/\s+/g, ' ');
  // Do not keep half of a surrogate pair.
  const cut = line.length > BRIEF ? `${line.slice(0, BRIEF).replace(/[\uD800-\uDBFF]$/, '')}…` : line;
  return `${head(message)}: ${forModel(cut)}`;
}

function head({ id, from, to, priority, ts }: Message): string {
  return `${lineForModel(from)} -> ${lineForModel(to)}${priority === 'urgent' ? ' [URGENT]' : ''} (${ts}, id ${id.slice(0, 8)})`;
}

export const commands = {
  send: sendCommand,
  inbox: inboxCommand,
  drain: drainCommand,
  read: readCommand,
  watch: watchCommand,
  sub: subCommand,
  unsub: unsubCommand,
  agents: agentsCommand,
  channels: channelsCommand,
  whoami: whoamiCommand,
  mcp: mcpCommand,
};
