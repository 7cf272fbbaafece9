import { findMessage } from '../../flow/desk.ts';
import { command } from '../command.ts';
import { agentName } from '../context.ts';
import { countFrom } from '../input.ts';
import { printRows } from '../rows.ts';

export default command({
  usage: 'history',
  about: 'What was said, newest first, in every home. Old bodies are forgotten after a while (see `parley config`).',
  options: {
    limit: { type: 'string', value: 'n', help: 'how many (default 20)' },
    before: { type: 'string', value: 'n', help: 'the next page: only what is older than this number' },
    with: { type: 'string', value: 'agent', help: 'only what this agent sent or got' },
    thread: { type: 'string', value: 'id', help: 'only the exchange of this message' },
  },
  words: [0, 0],
  examples: ['parley history', 'parley history --with codex-1 --limit 50', 'parley history --thread 1f2e3d4c'],
  async run(context, values) {
    const limit = countFrom(values.limit, 20);
    const agent = values.with === undefined ? undefined : agentName(values.with);
    const before = values.before === undefined ? undefined : countFrom(values.before, 1);
    const thread = values.thread === undefined ? undefined : await findMessage(context.desk, values.thread);
    const homes = thread ? [thread.home] : context.desk.homes;
    await printRows(context, homes, (home) => home.ledger.history({ limit, before, agent, thread: thread?.id }), limit);
  },
});
