import { answerApproval } from '../approval.ts';
import { command } from '../command.ts';

export default command({
  usage: 'approve <id> [note …]',
  about:
    'Says yes to what an agent asked you for. Only a person can, at a terminal: the request is shown whole, and you are asked once more. ' +
    'No option says it for you.',
  options: { yes: { type: 'boolean', help: 'do not ask once more; a terminal is needed all the same' } },
  words: [1, Infinity],
  examples: ['parley approve 1f2e3d4c', 'parley approve 1f2e3d4c "only on staging"'],
  async run(context, values, [prefix = '', ...note]) {
    await answerApproval(context, prefix, { signal: 'agree', note: note.join(' '), sure: values.yes ?? false });
  },
});
