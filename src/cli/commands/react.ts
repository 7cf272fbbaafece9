import type { Who } from '../../flow/desk.ts';
import { nearest } from '../../flow/nearest.ts';
import { react } from '../../flow/react.ts';
import type { Reacted } from '../../flow/react.ts';
import { MessageId, SendKey, shortId } from '../../protocol/names.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { isKnownSignal, Signal, SIGNALS } from '../../protocol/signal.ts';
import { command } from '../command.ts';
import { refuseForgedConsent } from '../consent.ts';
import { agentName } from '../context.ts';
import type { Context } from '../context.ts';
import { eventFrom } from '../event.ts';

/** Ids of ours. One that is complete may be of a message that is still on its way. */
const WHOLE_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

export default command({
  usage: 'react <id> <signal>',
  about:
    'Answers with one word instead of a message: it costs nobody a turn. ' +
    `Signals: ${Object.keys(SIGNALS).join(', ')}, or one of your own, x-….`,
  options: {
    eta: { type: 'string', value: 'text', help: 'when, in your own words, with queued or working' },
    for: { type: 'string', value: '@agent', help: 'whose duty a done of yours ends, where you wait for it' },
    key: { type: 'string', value: 'key', help: 'react once per key' },
  },
  words: [2, 2],
  examples: [
    'parley react 1f2e3d4c working --eta "20 min"',
    'parley react 1f2e3d4c declined',
    'parley react 1f2e3d4c done --for @codex-1',
  ],
  async run(context, values, [prefix = '', word = '']) {
    const signal = signalFrom(word);
    const { who, id, isHere } = await targetOf(context, prefix);
    await refuseForgedConsent(who, id, signal);
    const reacted = await react(context.desk, who, id, {
      signal,
      ifUnknown: isHere ? 'refuse' : 'keep',
      ...(values.eta !== undefined && { eta: etaFrom(values.eta) }),
      ...(values.for !== undefined && { recipient: agentName(values.for) }),
      ...(values.key !== undefined && { key: keyFrom(values.key) }),
    });
    report(context, id, signal, reacted);
  },
});

/** A reaction can come before what it reacts to: then the whole id is needed. */
async function targetOf(context: Context, text: string): Promise<{ who: Who; id: MessageId; isHere: boolean }> {
  try {
    return { ...(await eventFrom(context, text)), isHere: true };
  } catch (error) {
    const isUnknown = error instanceof Refusal && error.code === 'not_found';
    if (!isUnknown || !WHOLE_ID.test(text)) throw error;
    return { who: await context.who(), id: MessageId.parse(text), isHere: false };
  }
}

function signalFrom(word: string): Signal {
  const signal = Signal.safeParse(word.toLowerCase());
  if (signal.success) return signal.data;
  const [near] = nearest(word, Object.keys(SIGNALS));
  const shown = word.replace(/\p{Cc}/gu, '?').slice(0, 40);
  throw new Refusal('invalid_request', `"${shown}" is no signal; ${near ? `did you mean ${near}?` : signal.why}`);
}

function etaFrom(text: string): string {
  if (text.length <= 200 && !/\p{Cc}/u.test(text)) return text;
  throw new Refusal('invalid_request', '--eta is one line of at most 200 characters');
}

function keyFrom(text: string): SendKey {
  const key = SendKey.safeParse(text);
  if (key.success) return key.data;
  throw new Refusal('invalid_request', `--key: ${key.why}`);
}

/** What the reaction says of the message that it answers, and no more. */
export function report(context: Context, id: MessageId, signal: Signal, { sent, disposition, final }: Reacted): void {
  if (context.json) return context.sayJson({ id, signal, reaction: sent?.message.id ?? null, disposition, final });
  const glyph = isKnownSignal(signal) ? `${SIGNALS[signal].glyph} ` : '';
  const state = disposition === null ? 'noted' : final ? disposition : `${disposition}, still owed`;
  context.say(`${glyph}${signal} on ${shortId(id)}: ${state}`);
}
