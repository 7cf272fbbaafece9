import { waiting } from '../../flow/deliver.ts';
import { asOwed, claimedBy } from '../../flow/claimed.ts';
import { command } from '../command.ts';
import { forgetDaily } from '../retention.ts';
import { gist, headline, whole } from '../words.ts';

export default command({
  usage: 'inbox',
  about: 'Everything that waits for you, oldest first, scoped mail of other contexts included. Takes nothing.',
  options: {
    brief: { type: 'boolean', help: 'one line a message' },
    match: { type: 'string', value: 'context', help: 'only what a session in this context would take' },
    loud: { type: 'boolean', help: 'leave out what waits quietly' },
  },
  words: [0, 0],
  examples: ['parley inbox', 'parley inbox --match "$(git remote get-url origin)" --json'],
  async run(context, values) {
    const who = await context.who('read');
    const match = values.match;
    const mail = await waiting(who, { match, any: match === undefined, loudOnly: values.loud ?? false });
    const known = await who.home.ledger.open(who.name);
    const claimed = await claimedBy(who);
    const rows = mail.map(({ message, quiet }) => {
      const attention = known.get(message.id)?.attention;
      return { message, quiet, attention: attention && asOwed(attention, claimed.has(message.id)) };
    });
    if (context.json) {
      context.sayJson(rows.map(({ message, quiet, attention }) => ({ ...message, quiet, attention })));
      return forgetDaily(context, who.home);
    }
    const held = [...known.values()].filter((copy) => copy.state === 'held').length;
    if (rows.length === 0) context.say('inbox empty');
    const now = context.desk.now();
    for (const row of rows) {
      const { paint } = context;
      context.say(
        values.brief ? `${headline(row, now, paint)}: ${gist(row.message.body)}` : `${whole(row, now, paint)}\n`,
      );
    }
    if (held > 0) context.note(`${held} more ${held === 1 ? 'is' : 'are'} held by a reader or waiting for a time`);
    if (rows.length > 0) context.note('take one: parley take [id]   all: parley drain   answer: parley reply <id> "…"');
    await forgetDaily(context, who.home);
  },
});
