import { lineForModel } from '../../delivery/gate.ts';
import { findMessage } from '../../flow/desk.ts';
import { why } from '../../flow/why.ts';
import { command } from '../command.ts';

export default command({
  usage: 'why <id>',
  about:
    'Who did what with a message, when, and why: how each copy was judged, claims, reactions, refusals, escalations and its end. The words of ' +
    'the message are not part of it.',
  options: {},
  words: [1, 1],
  examples: ['parley why 1f2e3d4c', 'parley why 1f2e3d4c --json'],
  async run(context, _values, [prefix = '']) {
    const { home, id } = await findMessage(context.desk, prefix);
    await home.spool.heal();
    const lines = await why(home, id);
    if (context.json) return context.sayJson({ id, home: home.label, lines });
    const rows = lines.map(({ at, who, what, why: because }) => ({ at, who: named(who), what, because }));
    const width = Math.max(...rows.map(({ who }) => who.length));
    for (const { at, who, what, because } of rows) {
      const reason = because === '' ? '' : context.paint.dim(`  ${lineForModel(because)}`);
      context.say(`${at}  ${context.paint.bold(who.padEnd(width))}  ${lineForModel(what)}${reason}`);
    }
  },
});

/** What nobody decided but the program is its own doing. */
function named(who: string): string {
  return who === 'parley' ? 'Parley' : `@${lineForModel(who, 128)}`;
}
