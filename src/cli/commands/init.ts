import { command } from '../command.ts';
import { agentName } from '../context.ts';
import { prepareHook } from '../hook-setup.ts';
import { becomeDefault } from '../settings-file.ts';
import { parleyHome } from '../settings.ts';

export default command({
  usage: 'init <name>',
  about:
    'Makes a mailbox on this machine. The first one made is who you are here; others are used with --as or PARLEY_AGENT.',
  options: {
    human: { type: 'boolean', help: 'this mailbox belongs to a person' },
    default: { type: 'boolean', help: 'be this agent from now on' },
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
    const [home] = context.desk.homes;
    if (!home) return;
    const twins = await Promise.all(context.desk.homes.slice(1).map((other) => other.directory.get(name)));
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
