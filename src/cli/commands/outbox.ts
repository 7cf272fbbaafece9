import { shortId } from '../../protocol/names.ts';
import { lineForModel } from '../../delivery/gate.ts';
import { Refusal } from '../../protocol/refusal.ts';
import type { Letter } from '../../storage/relay/letter.ts';
import type { Far, Waiting } from '../../storage/relay/relay.ts';
import { command } from '../command.ts';
import type { Context } from '../context.ts';
import { ago, gist } from '../words.ts';

export default command({
  usage: 'outbox [retry|drop <id|key>]',
  about:
    'What you sent to a relay and is not known to have arrived. What never left this machine (queued) is sent by the next command ' +
    'that reaches the relay. What may have arrived (unknown) is sent again by itself only to a relay that knows keys; otherwise ' +
    'ask the reader, then retry it or drop it.',
  options: {},
  words: [0, 2],
  examples: ['parley outbox', 'parley outbox retry 1f2e3d4c', 'parley outbox drop 1f2e3d4c'],
  async run(context, _values, [verb, key]) {
    const far = await farOf(context);
    if (verb === undefined) return list(context, await far.outbox());
    if ((verb !== 'retry' && verb !== 'drop') || key === undefined)
      throw new Refusal('invalid_request', 'usage: parley outbox [retry|drop <id|key>]');
    if (verb === 'drop') {
      await far.drop(key);
      return context.json ? context.sayJson({ dropped: key }) : context.say(`dropped ${key}`);
    }
    const { message } = await far.retry(key);
    const { id, to, ts } = message;
    const queuedAs = await far.queuedAs(id);
    if (context.json) return context.sayJson({ id, to, ts, step: 'stored', queuedAs });
    const before = queuedAs ? `, queued here as ${shortId(queuedAs)}` : '';
    context.say(`${context.paint.green('stored')} ${shortId(id)} at ${far.url} for ${lineForModel(to, 80)}${before}`);
  },
});

async function farOf(context: Context): Promise<Far> {
  if (!context.settings.agent)
    throw new Refusal('no_identity', 'no agent identity; run `parley init <name>` first (or set PARLEY_AGENT)');
  const [home] = context.desk.homes;
  if (home?.far) return home.far;
  throw new Refusal('not_found', `@${context.settings.agent} is at no relay; what it sends is stored at once`);
}

function list(context: Context, waiting: Waiting[]): void {
  if (context.json) {
    return context.sayJson(
      waiting.map(({ state, letter }) => ({
        state,
        ...letter.content,
        id: letter.id,
        key: letter.key,
        written: letter.written,
        why: letter.why,
      })),
    );
  }
  if (waiting.length === 0) return context.say('outbox empty');
  for (const { state, letter } of waiting) {
    const { to, body } = letter.content;
    const line = `${context.paint.bold(nameOf(letter))}  ${state}  to ${lineForModel(to, 80)}  ${ago(letter.written, context.desk.now())}`;
    context.say(
      `${line}\n  ${gist(body)}${letter.why ? `\n  ${context.paint.dim(lineForModel(letter.why, 400))}` : ''}`,
    );
  }
}

/** Its id, and its key if the sender gave it one. */
function nameOf({ id, key, named }: Letter): string {
  if (id === undefined || !named) return key;
  return `${id}  key ${lineForModel(key, 80)}`;
}
