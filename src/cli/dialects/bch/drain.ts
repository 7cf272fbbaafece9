import { waiting } from '../../../flow/deliver.ts';
import type { Delivered } from '../../../flow/deliver.ts';
import { byCommand, takeAndPrint } from '../../show.ts';
import { bchCommand, FLAG, TEXT } from './command.ts';
import { full } from './format.ts';

export default bchCommand({
  usage: 'drain',
  options: { json: FLAG, hook: FLAG, match: TEXT },
  words: [0, 0],
  async run(bch, values) {
    // The hook runs at every prompt of every session: who has no mailbox must not hear of it.
    if (values.hook && !bch.identity) return;
    const who = await bch.reader(values.hook ? 'serve' : 'read');
    const mail = await waiting(who, { match: values.match });
    const wanted = mail.map(({ message }) => message);
    const render = (delivered: Delivered[]): string => {
      const messages = delivered.map(({ message }) => message);
      if (values.json) return `${JSON.stringify(messages, null, 2)}\n`;
      const title = values.hook ? [`[backchannel] ${messages.length} message(s) for ${who.name}:`] : [];
      return [...title, ...messages.map(full), ''].join('\n');
    };
    const taken = await takeAndPrint(who, wanted, byCommand('bch drain', who), render);
    if (taken.length > 0) return;
    if (values.json) bch.say('[]');
    else if (!values.hook) bch.say('inbox empty');
  },
});
