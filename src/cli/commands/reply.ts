import { findMessage } from '../../flow/desk.ts';
import { answer } from '../../flow/send.ts';
import { command } from '../command.ts';
import { deadlineFrom, intentFrom, textFrom } from '../input.ts';
import { bringHere } from '../mine.ts';
import { parseDraft, report } from './send.ts';

export default command({
  usage: 'reply <id> [text …]',
  about:
    'Answers the sender of a message, in its thread, and settles your copy as responded. Without text the body is read from stdin.',
  options: {
    intent: {
      type: 'string',
      value: 'intent',
      help: 'none, question, assignment, approval, blocker, fyi, status or thanks',
    },
    fyi: { type: 'boolean', help: 'for information: nobody owes an answer to it (--intent fyi)' },
    deadline: { type: 'string', value: 'when', help: 'when an answer is needed: 30m, 2h, 1d or an ISO time' },
    key: { type: 'string', value: 'key', help: 'send once per key' },
    ref: { type: 'string', multiple: true, value: 'path|url', help: 'something this is about' },
    urgent: { type: 'boolean', help: 'ask for attention sooner' },
  },
  words: [1, Infinity],
  examples: ['parley reply 1f2e3d4c "yes, rolled back at 14:02"'],
  async run(context, values, [prefix = '', ...text]) {
    const who = await context.who();
    // Mail of other programs may not have been looked at yet.
    await bringHere(who, prefix);
    await who.home.spool.adopt(who.name);
    const { home, id } = await findMessage(context.desk, prefix);
    const draft = parseDraft({
      to: '-',
      body: await textFrom(text, context.desk.bodyLimit),
      priority: values.urgent ? 'urgent' : 'normal',
      refs: values.ref,
      intent: intentFrom(values),
      deadline: deadlineFrom(values.deadline, context.desk.now()),
      key: values.key,
    });
    report(context, await answer(context.desk, who, home, id, draft));
  },
});
