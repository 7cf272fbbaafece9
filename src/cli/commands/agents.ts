import { shortId } from '../../protocol/names.ts';
import { lineForModel } from '../../delivery/gate.ts';
import { command } from '../command.ts';
import { isUnread, unreadAdvice } from '../unread.ts';
import { ago } from '../words.ts';

export default command({
  usage: 'agents',
  about: 'Everyone with a mailbox on this machine, in every home.',
  options: {},
  words: [0, 0],
  examples: ['parley agents', 'parley agents --json'],
  async run(context) {
    const now = context.desk.now();
    const rows = [];
    for (const home of context.desk.homes) {
      for (const record of await home.directory.list()) {
        const { name, subscriptions, lastSeen, parley } = record;
        rows.push({
          name,
          home: home.label,
          kind: parley?.kind ?? 'agent',
          owner: parley?.owner ?? false,
          roles: parley?.roles ?? [],
          owns: parley?.owns ?? [],
          subscriptions,
          lastSeen,
          unread: name !== context.settings.agent && isUnread(home, record, now),
        });
      }
    }
    if (context.json) return context.sayJson(rows);
    if (rows.length === 0) return context.say('nobody is here yet; make a mailbox with `parley init <name>`');
    for (const row of rows) {
      const notes = [
        ...row.subscriptions.map((name) => lineForModel(name, 80)),
        ...row.roles.map((role) => `@${role}`),
        row.kind === 'human' ? (row.owner ? 'a person, the owner' : 'a person') : '',
        ...row.owns.map((what) => `owns ${what.startsWith('#') ? lineForModel(what, 80) : shortId(what)}`),
      ].filter(Boolean);
      const where = row.home === 'parley' ? '' : `%${row.home}`;
      const about = notes.length > 0 ? ` (${notes.join(', ')})` : '';
      context.say(
        `${context.paint.bold(`@${row.name}${where}`)}${about}  ${context.paint.dim(`seen ${ago(row.lastSeen, now)}`)}`,
      );
    }
    for (const { name, unread } of rows) if (unread) context.note(await unreadAdvice(name));
  },
});
