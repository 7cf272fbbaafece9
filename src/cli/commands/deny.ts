import { answerApproval } from '../approval.ts';
import { command } from '../command.ts';

export default command({
  usage: 'deny <id> [reason …]',
  about:
    'Says no to what an agent asked you for. Only a person can, at a terminal. The agent is told, and why, if you say it.',
  options: { yes: { type: 'boolean', help: 'do not ask once more; a terminal is needed all the same' } },
  words: [1, Infinity],
  examples: ['parley deny 1f2e3d4c', 'parley deny 1f2e3d4c "not on a Friday"'],
  async run(context, values, [prefix = '', ...reason]) {
    await answerApproval(context, prefix, { signal: 'declined', note: reason.join(' '), sure: values.yes ?? false });
  },
});
