import { shortId } from '../../protocol/names.ts';
import { lineForModel } from '../../delivery/gate.ts';
import { command } from '../command.ts';

export default command({
  usage: 'whoami',
  about: 'Who you are here, where that comes from, and where your mail waits.',
  options: {},
  words: [0, 0],
  examples: ['parley whoami'],
  async run(context) {
    const who = await context.who('read');
    const from = context.loaded.origins.find((origin) => origin.name === 'agent')?.from ?? 'default';
    const { label, root, far } = who.home;
    const own = (await who.home.directory.get(who.name))?.parley;
    const { kind = 'agent', owner = false, roles = [], owns = [], quiet = null } = own ?? {};
    const about = { kind, owner, roles, owns, quiet };
    if (context.json)
      return context.sayJson({ agent: who.name, home: label, root, from, ...about, ...(far && { url: far.url }) });
    context.say(`@${who.name} ${far ? `at ${far.url}` : `in ${root}`} (from ${from})`);
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
