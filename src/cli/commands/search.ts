import { command } from '../command.ts';
import { agentName } from '../context.ts';
import { countFrom } from '../input.ts';
import { printRows } from '../rows.ts';

export default command({
  usage: 'search <words …>',
  about:
    'Messages that hold all these words, newest first, in every home. If there is none: those with words that begin so.',
  options: {
    limit: { type: 'string', value: 'n', help: 'how many (default 20)' },
    before: { type: 'string', value: 'n', help: 'the next page: only what is older than this number' },
    with: { type: 'string', value: 'agent', help: 'only what this agent sent or got' },
  },
  words: [1, Infinity],
  examples: ['parley search rollback migration', 'parley search deploy --with codex-1'],
  async run(context, values, words) {
    const limit = countFrom(values.limit, 20);
    const agent = values.with === undefined ? undefined : agentName(values.with);
    const before = values.before === undefined ? undefined : countFrom(values.before, 1);
    const page = { limit, before, agent };
    await printRows(
      context,
      context.desk.homes,
      (home) => home.ledger.search(words.join(' '), page, progress(context)),
      limit,
    );
  },
});

/** The first search after much mail has to index it: say so. */
function progress(context: { note(text: string): void }): (left: number) => void {
  return (left) => {
    if (left > 10_000) context.note(`indexing: ${left} messages left …`);
  };
}
