import { sendTo } from '../../../protocols/c2c/mail.ts';
import type { Stored } from '../../../protocols/c2c/mail.ts';
import { Refusal } from '../../../protocol/refusal.ts';
import { bodyFrom } from '../../input.ts';
import { c2cCommand, FLAG, TEXT } from './command.ts';
import type { C2cCommand } from './command.ts';

const command = c2cCommand({
  usage: 'send <alias|#room> <text …|-> [--from <alias>] [--fail|--blocking|--urgent] [--deferrable] [--json]',
  options: {
    from: { ...TEXT, short: 'F' },
    json: { ...FLAG, short: 'j' },
    fail: FLAG,
    blocking: FLAG,
    urgent: FLAG,
    deferrable: FLAG,
    ephemeral: FLAG,
    'no-warn-substitution': FLAG,
  },
  words: [1, Infinity],
  async run(c2c, values, [to = '', ...words]) {
    if (values.ephemeral) {
      throw new Refusal(
        'not_in_this_version',
        'what is accepted here is kept until it is pruned, so nothing can be sent as ephemeral; leave the option out',
      );
    }
    const tags = (['fail', 'blocking', 'urgent'] as const).filter((tag) => values[tag]);
    if (tags.length > 1) throw new Refusal('invalid_request', `say only one of --${tags.join(' and --')}`);
    const from = await c2c.writer(values.from);
    const body = await bodyFrom(words, c2c.desk.bodyLimit);
    const stored = await sendTo(c2c, from, to, { body, tag: tags[0], deferrable: values.deferrable });
    if (values.json) return c2c.sayJson(stored);
    c2c.say(`ok -> ${stored.to_alias} (from ${stored.from_alias})${remarks(stored)}`);
  },
});

/** A text that begins with a hyphen is still a text: nobody who sends a list by a program thinks of `--`. */
const sendCommand: C2cCommand = {
  run(c2c, argv, called) {
    const [to = '', text = '', ...rest] = argv;
    const isText = /^-[^]*\s/.test(text) && !/^--[a-z-]+=/.test(text);
    return command.run(c2c, isText ? [...rest, '--', to, text] : argv, called);
  },
};
export default sendCommand;

function remarks({ message_id, stored_for, queued_offline, recipient_dnd, compacting_warning }: Stored): string {
  const facts = [
    `stored as ${message_id.slice(0, 8)}`,
    stored_for && `for ${stored_for.join(', ')}`,
    queued_offline && 'does not run now: it waits',
    recipient_dnd && 'wants no disturbance now',
    compacting_warning,
  ];
  return `: ${facts.filter(Boolean).join('; ')}`;
}
