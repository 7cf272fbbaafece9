import { send } from '../../../flow/send.ts';
import type { Draft } from '../../../protocol/message.ts';
import type { MessageId, Scope } from '../../../protocol/names.ts';
import { bchCommand, FLAG, TEXT, TEXTS } from './command.ts';

export default bchCommand({
  usage: 'send <@agent|#channel> <message>',
  options: { urgent: FLAG, scope: TEXT, thread: TEXT, ref: TEXTS },
  words: [2, Infinity],
  async run(bch, values, [to = '', ...words]) {
    const who = await bch.who();
    // Scope, thread and refs are the users' own words here: stored as they are, never a path and never looked up by force.
    const draft: Draft = {
      to,
      body: words.join(' '),
      priority: values.urgent ? 'urgent' : 'normal',
      scope: (values.scope || undefined) as Scope | undefined,
      thread: (values.thread || undefined) as MessageId | undefined,
      refs: values.ref,
      intent: 'none',
    };
    const { message } = await send(bch.desk, who.name, draft);
    bch.say(`sent ${message.id.slice(0, 8)} to ${to}`);
  },
});
