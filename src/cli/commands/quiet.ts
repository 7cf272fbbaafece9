import { isHushed } from '../../attention/hush.ts';
import type { Quiet } from '../../protocol/quiet.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { command } from '../command.ts';
import { momentFrom } from '../input.ts';

export default command({
  usage: 'quiet [on|off|until|hours] [when]',
  about:
    'While it is quiet nothing disturbs you but what a person sends as urgent. Mail waits, and what you owe stays owed. Without words ' +
    'it says how it stands. Hours are of this machine’s clock and may cross midnight.',
  options: {},
  words: [0, 2],
  examples: [
    'parley quiet',
    'parley quiet on',
    'parley quiet until 2h',
    'parley quiet until 07:30',
    'parley quiet hours 22:00-07:00',
    'parley quiet off',
  ],
  async run(context, _values, [word, when]) {
    const who = await context.who();
    const now = context.desk.now();
    if (word !== undefined) {
      const quiet = quietFrom(word, when, now);
      await who.home.directory.amend(who.name, () => ({ quiet }));
    }
    const quiet = (await who.home.directory.get(who.name))?.parley?.quiet;
    const isNow = isHushed(quiet, now, minutesOfDay(now));
    if (context.json) return context.sayJson({ agent: who.name, quiet: quiet ?? null, now: isNow });
    context.say(told(quiet, isNow));
  },
});

function quietFrom(word: string, when: string | undefined, now: number): Quiet | undefined {
  if ((word === 'on' || word === 'off') && when === undefined) return word === 'on' ? { on: true } : undefined;
  if (word === 'until' && when !== undefined) return { until: momentFrom(when, now) };
  if (word === 'hours' && when !== undefined) return { hours: hoursFrom(when) };
  throw new Refusal('invalid_request', 'usage: parley quiet on | off | until <time> | hours <22:00-07:00>');
}

function hoursFrom(text: string): string {
  const [, from, to] = /^((?:[01]\d|2[0-3]):[0-5]\d)-((?:[01]\d|2[0-3]):[0-5]\d)$/.exec(text) ?? [];
  if (from === undefined || from === to)
    throw new Refusal(
      'invalid_request',
      `"${text.slice(0, 40)}" are no hours; write two different times such as 22:00-07:00`,
    );
  return text;
}

function told(quiet: Quiet | undefined, isNow: boolean): string {
  if (!quiet || (!isNow && 'until' in quiet)) return 'not quiet: mail comes as it should';
  if ('on' in quiet) return 'quiet until you say `parley quiet off`';
  if ('until' in quiet) return `quiet until ${quiet.until}`;
  return `quiet every day ${quiet.hours.replace('-', ' to ')}; ${isNow ? 'it is quiet now' : 'not now'}`;
}

function minutesOfDay(now: number): number {
  const at = new Date(now);
  return at.getHours() * 60 + at.getMinutes();
}
