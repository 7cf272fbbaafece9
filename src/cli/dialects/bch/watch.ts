import { watchMail } from '../../watching.ts';
import { bchCommand, FLAG, TEXT } from './command.ts';
import { brief } from './format.ts';

export default bchCommand({
  usage: 'watch',
  options: { exec: TEXT, 'urgent-only': FLAG, match: TEXT, peek: FLAG },
  words: [0, 0],
  async run(bch, values) {
    const who = await bch.reader();
    const peek = values.peek ?? false;
    await watchMail(who, {
      selection: { match: values.match, any: peek && !values.match, urgentOnly: values['urgent-only'] ?? false },
      peek,
      greeting: `watching inbox for ${who.name}${peek ? ' (peek: messages stay queued)' : ''} (ctrl-c to stop)`,
      exec: values.exec,
      env: bch.env,
      render: ({ message }) => `${brief(message)}\n`,
    });
  },
});
