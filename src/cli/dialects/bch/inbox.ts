import { waiting } from '../../../flow/deliver.ts';
import { bchCommand, FLAG, TEXT } from './command.ts';
import { brief, full } from './format.ts';

export default bchCommand({
  usage: 'inbox',
  options: { json: FLAG, brief: FLAG, match: TEXT },
  words: [0, 0],
  async run(bch, values) {
    const who = await bch.reader();
    const mail = await waiting(who, { match: values.match, any: !values.match });
    const messages = mail.map(({ message }) => message);
    if (values.json) return bch.say(JSON.stringify(messages, null, 2));
    if (messages.length === 0) return bch.say('inbox empty');
    bch.say(messages.map(values.brief ? brief : full).join('\n'));
  },
});
