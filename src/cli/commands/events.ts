import { shortId } from '../../protocol/names.ts';
import { lineForModel } from '../../delivery/gate.ts';
import { listEvents } from '../../flow/events.ts';
import type { EventView } from '../../flow/events.ts';
import { Policy, policyWords } from '../../protocol/attention.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { command } from '../command.ts';
import { channelName } from '../context.ts';
import type { Context } from '../context.ts';
import { countFrom, pastFrom } from '../input.ts';
import { ago, clockTime, gist } from '../words.ts';

const POLICIES = Policy.inner.options;

export default command({
  usage: 'events',
  about:
    'Everything that you may see, quiet or not, with the decision on it, what became of it, and who answers for it. Looking changes nothing.',
  options: {
    stream: { type: 'string', value: '#channel', help: 'only of this channel' },
    policy: { type: 'string', value: 'policy', help: `only ${POLICIES.join(', ')}` },
    since: { type: 'string', value: 'when', help: 'only what came after: 2h, 1d or an ISO time' },
    limit: { type: 'string', value: 'n', help: 'how many (default 20, at most 200)' },
    all: { type: 'boolean', help: 'also each of those that were meant for nobody' },
    cursor: { type: 'string', value: 'text', help: 'the next page: what the page before names at its end' },
  },
  words: [0, 0],
  examples: ['parley events', 'parley events --stream "#deploy" --since 1d', 'parley events --policy must_respond'],
  async run(context, values) {
    const who = await context.who('read');
    const { stream, cursor } = values;
    const { events, cursor: next } = await listEvents([who], {
      limit: Math.min(countFrom(values.limit, 20), 200),
      ...(stream !== undefined && { stream: channelName(stream) }),
      ...(values.policy !== undefined && { policy: policyFrom(values.policy) }),
      ...(values.since !== undefined && { since: pastFrom(values.since, context.desk.now()) }),
      ...(cursor !== undefined && { cursor }),
    });
    if (context.json) return context.sayJson({ events, cursor: next });
    if (events.length === 0) return context.say('nothing found');
    const [folded, told] = values.all
      ? [[], events]
      : [events.filter(isAmbient), events.filter((one) => !isAmbient(one))];
    for (const event of told) context.say(line(context, event));
    for (const [place, some] of Map.groupBy(folded, ({ to }) => to)) context.say(fold(context, place, some));
    if (folded.length > 0)
      context.note('each of them: parley events --all   hand one to an agent: parley raise <id> <@agent>');
    if (next !== null) context.note(`the next: --cursor ${next}`);
  },
});

function isAmbient({ attention, claim }: EventView): boolean {
  return attention.directedness === 'ambient' && claim === null;
}

/** What was meant for nobody, as one line, and why it was not shown. */
function fold({ desk, paint }: Context, place: string, events: readonly EventView[]): string {
  const reasons = [...new Set(events.map(({ attention }) => attention.reason))];
  const [last] = events;
  return `${paint.bold(String(events.length))} in ${lineForModel(place, 64)} for nobody in particular (${reasons.join(', ')}), the last ${last ? `${shortId(last.id)} ${ago(last.at, desk.now())}` : ''}`;
}

function line(
  { desk, paint }: Context,
  { id, from, to, at, attention, body, disposition, proven, signal, claim, refused }: EventView,
): string {
  const marks = [
    policyWords(attention.policy),
    attention.directedness === 'ambient' ? attention.reason : '',
    signal ?? '',
    proven,
    disposition ?? '',
    refused > 0 ? `${refused} ${refused === 1 ? 'reply' : 'replies'} refused` : '',
    claim ? `claimed by @${claim.holder} until ${clockTime(claim.until)}` : '',
  ].filter(Boolean);
  const who = `${lineForModel(from, 64)} → ${lineForModel(to, 64)}`;
  const when = paint.dim(ago(at, desk.now()));
  const about = body === undefined ? '' : `\n  ${gist(body) || '(empty)'}`;
  return `${paint.bold(shortId(id))}  ${who}  ${when}  ${marks.join(' · ')}${about}`;
}

function policyFrom(text: string): Policy {
  const policy = POLICIES.find((one) => one === text.replaceAll(/[\s-]/g, '_'));
  if (policy) return policy;
  throw new Refusal('invalid_request', `"${text.slice(0, 40)}" is no policy; use ${POLICIES.join(', ')}`);
}
