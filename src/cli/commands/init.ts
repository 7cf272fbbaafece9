import { existsSync, readdirSync } from 'node:fs';
import { Refusal } from '../../protocol/refusal.ts';
import { command } from '../command.ts';
import { agentName } from '../context.ts';
import type { Context } from '../context.ts';
import type { Application } from '../enlist.ts';
import { prepareHook } from '../hook-setup.ts';
import { becomeDefault } from '../settings-file.ts';
import { parleyHome } from '../settings.ts';

export default command({
  usage: 'init <name>',
  about:
    'Makes a mailbox on this machine, or, with --url, on a relay. The first one made is who you are here; others are used with ' +
    '--as or PARLEY_AGENT.',
  options: {
    human: { type: 'boolean', help: 'this mailbox belongs to a person' },
    default: { type: 'boolean', help: 'be this agent from now on' },
    url: { type: 'string', value: 'url', help: 'make it on this relay' },
    token: { type: 'string', value: 'token', help: "the token of the relay's room" },
    room: { type: 'string', value: 'id', help: 'which room of the relay' },
    insecure: { type: 'boolean', help: 'accept a relay without TLS on a network that you trust' },
    session: {
      type: 'string',
      value: 'id',
      help: "bind this session of a client to the mailbox, for the client's hooks",
    },
  },
  words: [1, 1],
  examples: ['parley init claude-main', 'parley init codex-1', 'PARLEY_AGENT=codex-1 parley inbox'],
  async run(context, values, [text = '']) {
    const name = agentName(text);
    const { url, token, room, insecure = false, session } = values;
    if (url !== undefined) {
      const byDefault = values.default ?? false;
      return initAtRelay(context, { agent: name, url, token, room, insecure, session, byDefault });
    }
    if (token !== undefined || room !== undefined)
      throw new Refusal('invalid_request', '--token and --room are for a relay; say which: --url');
    const home = context.desk.homes.find((one) => one.label === 'parley');
    if (!home) return;
    refuseRelayName(home.root, name);
    const others = context.desk.homes.filter((one) => one !== home && !one.far);
    const twins = await Promise.all(others.map((other) => other.directory.get(name)));
    if (twins.some(Boolean)) {
      context.note(`@${name} is in another home too; from now on write @${name}%parley or @${name}%bch`);
    }
    const existed = (await home.directory.get(name)) !== null;
    await home.directory.register(name, values.human ? 'human' : 'agent');
    await home.spool.heal();
    await home.spool.adopt(name);
    prepareHook(context, { name, home }, values.session);
    const config = `${parleyHome(context.env)}/config.json`;
    const isDefault = becomeDefault(config, name, values.default ?? false) === name;
    if (context.json) return context.sayJson({ agent: name, home: home.root, default: isDefault, existed });
    const done = existed ? `mailbox @${name} was here already, in` : `made mailbox @${name} in`;
    context.say(`${context.paint.green(done)} ${home.root}`);
    context.say(
      isDefault
        ? `You are @${name} here. Next: parley send @<someone> "hello"   (parley agents lists who is here)`
        : `Act as it with --as ${name} or PARLEY_AGENT=${name}; to make it the default: parley init ${name} --default`,
    );
  },
});

async function initAtRelay(context: Context, application: Application): Promise<void> {
  const { enlist, welcome } = await import('../enlist.ts');
  const { agent, room } = application;
  const done = await enlist(context, application);
  const { url, root: home, isDefault, existed } = done;
  if (context.json) return context.sayJson({ agent, url, room, home, default: isDefault, existed });
  context.say(`${context.paint.green(existed ? 'you were here already:' : 'made mailbox')} @${agent} at ${url}`);
  welcome(context, agent, done);
}

/** One name, one inbox: see enlist.ts. */
function refuseRelayName(root: string, name: string): void {
  const relays = existsSync(`${root}/relays`) ? readdirSync(`${root}/relays`) : [];
  const taken = relays.find((one) => one.startsWith(`${name}@`));
  if (!taken) return;
  throw new Refusal(
    'name_taken',
    `@${name} is at a relay; use another name here, or remove ${root}/relays/${taken} to leave it`,
  );
}
