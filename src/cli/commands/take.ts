import { shortId } from '../../protocol/names.ts';
import { findWaiting, waiting } from '../../flow/deliver.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { PartlyShown } from '../../storage/disk.ts';
import { command } from '../command.ts';
import { durationFrom } from '../input.ts';
import { byCommand, rendered, takeAndPrint } from '../show.ts';

export default command({
  usage: 'take [id]',
  about:
    'Takes one message: that one, or the oldest that waits for you here. It is settled as acknowledged when it has been printed. ' +
    'With --lease you hold it instead: end it with `parley ack`, `parley reply` or `parley release`, or it waits again when the time is up.',
  options: {
    match: { type: 'string', value: 'context', help: 'your context, for scoped mail' },
    lease: { type: 'string', value: 'span', help: 'hold it this long instead of settling it: 30s, 10m, 2h' },
    keep: { type: 'boolean', help: 'keep the file in cur/ after it is settled' },
  },
  words: [0, 1],
  examples: ['parley take', 'parley take 1f2e3d4c --lease 10m && parley ack 1f2e3d4c'],
  async run(context, values, [prefix]) {
    const who = await context.who('read');
    const match = values.match ?? context.settings.match;
    const id = prefix !== undefined ? await findWaiting(who, prefix) : (await waiting(who, { match }))[0]?.message.id;
    if (!id) {
      if (context.json) return context.sayJson(null);
      return context.say('nothing waits for you here');
    }
    if (values.lease !== undefined) {
      const claim = await who.home.spool.claim(who.name, [id], { ms: durationFrom(values.lease), bearer: true });
      if (claim.copies.length === 0) throw claimed(id);
      try {
        context.say(rendered(context, claim.copies, true).trimEnd());
      } catch (error) {
        const isPartlyShown = error instanceof PartlyShown;
        await who.home.spool.release(claim, [id], { because: 'it could not be shown' }, undefined, isPartlyShown);
        throw error;
      }
      if (!context.json)
        context.note(
          `held until ${new Date(claim.until).toISOString()}: parley ack ${shortId(id)}, or parley release ${shortId(id)}`,
        );
      return;
    }
    const render = (delivered: Parameters<typeof rendered>[1]): string => rendered(context, delivered, true);
    const taken = await takeAndPrint(who, [id], byCommand('take', who), render, values.keep);
    if (taken.length === 0) throw claimed(id);
  },
});

function claimed(id: string): Refusal {
  return new Refusal('already_claimed', `message ${shortId(id)} was claimed by another session`);
}
