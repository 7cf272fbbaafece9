import { blocked, COUNTED, owe } from '../../flow/owe.ts';
import { isMessageId, shortId } from '../../protocol/names.ts';
import { Refusal } from '../../protocol/refusal.ts';
import type { DutyPage } from '../../storage/ledger/duties.ts';
import { lineForModel } from '../../delivery/gate.ts';
import { command } from '../command.ts';
import type { Context } from '../context.ts';
import { countFrom } from '../input.ts';
import { ago, clockTime, gist } from '../words.ts';

type Owed = Awaited<ReturnType<typeof owe>>['duties'][number];

export default command({
  usage: 'owe',
  about:
    'What you owe: every message that you must answer and have not, the oldest first. Being shown it is no answer. With --blocking: what ' +
    'others owe you.',
  options: {
    blocking: { type: 'boolean', help: 'what you are waiting for from others' },
    limit: { type: 'string', value: 'n', help: 'how many (default 20)' },
    after: { type: 'string', value: 'place', help: 'the next page: what the page before names at its end' },
  },
  words: [0, 0],
  examples: ['parley owe', 'parley owe --blocking', 'parley owe --json'],
  async run(context, values) {
    const who = await context.who('read');
    const page: DutyPage = { limit: countFrom(values.limit, 20), after: placeFrom(values.after) };
    const { duties, count, more } = await (values.blocking ? blocked(who, page) : owe(who, page));
    const last = duties.at(-1);
    const next = more && last ? `${last.at}:${last.id}` : null;
    if (context.json) return context.sayJson({ duties, count, more, next });
    if (duties.length === 0) return context.say(values.blocking ? 'nobody owes you anything' : 'you owe nothing');
    for (const duty of duties) context.say(line(context, duty, values.blocking ?? false));
    if (next) context.note(`${total(count, duties.length)}the next: --after ${next}`);
    if (!values.blocking)
      context.note(
        'answer: parley reply <id> "…"   one word: parley react <id> done   later: parley defer <id> --reason "…"',
      );
  },
});

function line({ desk, paint }: Context, duty: Owed, blocking: boolean): string {
  const { id, from, mailbox, kind, state, due, at, note, message } = duty;
  const marks = [
    kind === 'obligation' ? paint.red('blocks its sender') : '',
    state === 'open' ? '' : paint.yellow(state),
    due === null ? '' : `${state === 'deferred' ? 'until' : 'due'} ${clockTime(due)}`,
  ].filter(Boolean);
  const who = blocking ? `@${mailbox} owes you` : `for @${lineForModel(from, 64)}`;
  const about = message ? gist(message.body) || '(empty)' : '(the body is no longer kept)';
  const why = note === null ? '' : `\n  ${paint.dim(lineForModel(note))}`;
  return `${paint.bold(shortId(id))}  ${who}  ${paint.dim(ago(new Date(at).toISOString(), desk.now()))}${marks.length > 0 ? `  ${marks.join(' · ')}` : ''}\n  ${about}${why}`;
}

/** How many there are, as far as they were counted. */
function total(count: number, shown: number): string {
  if (count >= COUNTED) return `${COUNTED} or more; `;
  return count > shown ? `${count} in all; ` : '';
}

function placeFrom(text: string | undefined): DutyPage['after'] {
  if (text === undefined) return undefined;
  const [, at = '', id] = /^(\d{1,15}):(.+)$/.exec(text) ?? [];
  if (isMessageId(id)) return { at: Number(at), id };
  throw new Refusal('invalid_request', 'that is no place; use what the page before names after --after');
}
