import { giveRole, takeRole } from '../../flow/appoint.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { command } from '../command.ts';
import { agentName } from '../context.ts';
import type { Context } from '../context.ts';
import { agentFrom } from '../whom.ts';

export default command({
  usage: 'role [add|remove] [@agent] [role]',
  about:
    'Gives a role to an agent, or takes it away; without words it lists the roles. Mail to @role goes to one of those who have it, and ' +
    'the others can look it up. A name is an agent or a role, never both.',
  options: {},
  words: [0, 3],
  examples: ['parley role', 'parley role add @codex-1 reviewer', 'parley role remove @codex-1 reviewer'],
  async run(context, _values, [verb, agent, name]) {
    if (verb === undefined) return list(context);
    if ((verb !== 'add' && verb !== 'remove') || agent === undefined || name === undefined)
      throw new Refusal('invalid_request', 'usage: parley role add|remove @agent <role>');
    const role = agentName(name);
    const who = await agentFrom(context.desk, agent);
    const changed = verb === 'add' ? await giveRole(who, role) : await takeRole(who, role);
    const roles = (await who.home.directory.get(who.name))?.parley?.roles ?? [];
    if (context.json) return context.sayJson({ agent: who.name, home: who.home.label, role, changed, roles });
    const now = verb === 'add' ? `has the role @${role}` : `has no role @${role}`;
    context.say(`@${who.name} ${changed ? `now ${now}` : `${now} already`}`);
  },
});

async function list(context: Context): Promise<void> {
  const roles: { role: string; home: string; members: string[] }[] = [];
  for (const home of context.desk.homes) {
    const records = await home.directory.list();
    const names = [...new Set(records.flatMap((record) => record.parley?.roles ?? []))].sort();
    for (const role of names) {
      const members = records.filter((record) => record.parley?.roles.includes(role)).map((record) => record.name);
      roles.push({ role, home: home.label, members });
    }
  }
  if (context.json) return context.sayJson(roles);
  if (roles.length === 0) return context.say('nobody has a role; give one with `parley role add @agent <role>`');
  for (const { role, home, members } of roles) {
    const where = home === 'parley' ? '' : `%${home}`;
    context.say(`${context.paint.bold(`@${role}${where}`)}  ${members.map((name) => `@${name}`).join(', ')}`);
  }
}
