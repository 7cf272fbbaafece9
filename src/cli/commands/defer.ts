import { shortId } from '../../protocol/names.ts';
import { defer } from '../../flow/defer.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { command } from '../command.ts';
import { eventFrom } from '../event.ts';
import { momentFrom } from '../input.ts';
import { clockTime } from '../words.ts';

export default command({
  usage: 'defer <id>',
  about:
    'Puts off what you owe, and tells whoever waits for it why. It stays owed: it comes back at the time that you name, or after half an hour.',
  options: {
    reason: { type: 'string', value: 'text', help: 'why it cannot be now; whoever waits is told (needed)' },
    until: { type: 'string', value: 'when', help: 'when it comes back: 30m, 2h, 07:30 or an ISO time' },
  },
  words: [1, 1],
  examples: ['parley defer 1f2e3d4c --reason "the tests run until five" --until 17:00'],
  async run(context, values, [prefix = '']) {
    const { reason = '' } = values;
    if (reason.trim() === '') throw new Refusal('invalid_request', 'say why, for whoever waits: --reason "…"');
    const until = values.until === undefined ? undefined : momentFrom(values.until, context.desk.now());
    const { who, id } = await eventFrom(context, prefix);
    const { state, due } = await defer(context.desk, who, id, { reason, ...(until !== undefined && { until }) });
    if (context.json)
      return context.sayJson({ id, state, reason, due: due === null ? null : new Date(due).toISOString() });
    context.say(`deferred ${shortId(id)}: still owed${due === null ? '' : `, again from ${clockTime(due)}`}`);
  },
});
