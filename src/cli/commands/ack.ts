import { shortId } from '../../protocol/names.ts';
import { onlyOne } from '../../flow/desk.ts';
import { settle } from '../../flow/settle.ts';
import { Disposition } from '../../protocol/receipt.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { command } from '../command.ts';
import { byCommand } from '../show.ts';
import { openId } from '../mine.ts';

const FINAL = Disposition.inner.options.filter((word) => word !== 'claimed' && word !== 'deferred');

export default command({
  usage: 'ack <id>',
  about: 'Settles a message that waits for you, or that you hold by `take --lease`, without showing it.',
  options: {
    outcome: { type: 'string', value: 'word', help: `${FINAL.join(', ')} (default: acknowledged)` },
    keep: { type: 'boolean', help: 'keep the file in cur/' },
  },
  words: [1, 1],
  examples: ['parley ack 1f2e3d4c', 'parley ack 1f2e3d4c --outcome ignored'],
  async run(context, values, [prefix = '']) {
    const who = await context.who('read');
    const outcome = values.outcome ?? 'acknowledged';
    const disposition = FINAL.find((word) => word === outcome);
    if (!disposition) throw new Refusal('invalid_request', `"${outcome}" is no outcome; use ${FINAL.join(', ')}`);
    const { id } = onlyOne(prefix, await openId(who, prefix));
    await settle(who, id, disposition, byCommand('ack', who), values.keep);
    if (context.json) return context.sayJson({ id, step: 'settled', disposition });
    context.say(`settled ${shortId(id)}: ${disposition}`);
  },
});
