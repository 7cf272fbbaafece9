import { shortId } from '../../protocol/names.ts';
import { raise } from '../../flow/raise.ts';
import { command } from '../command.ts';
import { agentName } from '../context.ts';
import { eventFrom } from '../event.ts';

export default command({
  usage: 'raise <id> <@agent> [note …]',
  about:
    'Hands something that was said to nobody in particular to an agent: by a message of yours about it, which the agent must answer. ' +
    'Only a person can. What was raised stays what it is.',
  options: {},
  words: [2, Infinity],
  examples: ['parley raise 1f2e3d4c @codex', 'parley raise 1f2e3d4c @codex "this breaks the release"'],
  async run(context, _values, [prefix = '', to = '', ...note]) {
    const { who, id } = await eventFrom(context, prefix);
    const { message, copies, first } = await raise(context.desk, who, id, agentName(to), note.join(' '));
    if (context.json) return context.sayJson({ id: message.id, raised: id, first, copies });
    context.say(
      first ? `raised ${shortId(id)} to ${to}, as ${shortId(message.id)}` : `${shortId(id)} was raised to ${to} before`,
    );
  },
});
