import { shortId } from '../../protocol/names.ts';
import { disown, own } from '../../flow/appoint.ts';
import { findMessage } from '../../flow/desk.ts';
import type { Who } from '../../flow/desk.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { command } from '../command.ts';
import { channelName } from '../context.ts';
import type { Context } from '../context.ts';

export default command({
  usage: 'own [#channel|id]',
  about:
    'Makes a channel, or the exchange that a message is part of, yours: what is said there knocks at your door, and only at yours. ' +
    'Without words it lists what you own.',
  options: { release: { type: 'boolean', help: 'give it up' } },
  words: [0, 1],
  examples: ['parley own "#deploy"', 'parley own 1f2e3d4c', 'parley own "#deploy" --release', 'parley own'],
  async run(context, values, [text]) {
    const who = await context.who();
    if (text === undefined) return list(context, who);
    const what = text.startsWith('#') ? channelName(text) : await exchangeFrom(context, who, text);
    const changed = values.release ? await disown(who, what) : await own(who, what);
    const record = await who.home.directory.get(who.name);
    if (context.json) return context.sayJson({ agent: who.name, what, changed, owns: record?.parley?.owns ?? [] });
    const name = shown(what);
    if (values.release)
      context.say(changed ? `${name} is not @${who.name}'s any more` : `${name} was not @${who.name}'s`);
    else context.say(`${name} ${changed ? 'is' : 'was'} @${who.name}'s${changed ? ' now' : ' already'}`);
    if (!values.release && what.startsWith('#') && !record?.subscriptions.includes(what))
      context.note(`you get nothing from it before you subscribe: parley sub "${what}"`);
  },
});

/** The first message of the exchange. Only who has part in it can own it. */
async function exchangeFrom(context: Context, { name, home }: Who, prefix: string): Promise<string> {
  const { home: found, id } = await findMessage(context.desk, prefix);
  const message = await found.ledger.message(id);
  const isMine = found === home && (message?.from === name || (await home.ledger.copy(name, id)) !== null);
  if (!isMine) throw new Refusal('not_yours', `message ${prefix} is neither from you nor to you`);
  return message?.parley?.lineage?.root ?? id;
}

async function list(context: Context, who: Who): Promise<void> {
  const owns = (await who.home.directory.get(who.name))?.parley?.owns ?? [];
  if (context.json) return context.sayJson({ agent: who.name, owns });
  context.say(
    owns.length > 0
      ? owns.map(shown).join('\n')
      : `@${who.name} owns nothing; own a channel with \`parley own "#name"\``,
  );
}

function shown(what: string): string {
  return what.startsWith('#') ? what : `the exchange ${shortId(what)}`;
}
