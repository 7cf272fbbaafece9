import { waiting } from '../flow/deliver.ts';
import { Refusal } from '../protocol/refusal.ts';
import type { Context } from './context.ts';
import { forgetDaily } from './retention.ts';

/** `parley` alone: who you are, what waits, and the next command. */
export async function showOverview(context: Context): Promise<void> {
  const who = await context.who('read').catch((error: unknown) => {
    if (error instanceof Refusal && error.code === 'no_identity') return error;
    throw error;
  });
  if (who instanceof Refusal) {
    if (context.json) return context.sayJson({ agent: null, next: 'parley init <name>' });
    context.say(`You have no mailbox here yet (${who.message}).`);
    return context.say('Next: parley init <name>      See it work first: parley demo      Everything: parley help');
  }
  const mail = await waiting(who, { any: true });
  const loud = mail.filter((one) => !one.quiet);
  const urgent = loud.filter((one) => one.message.priority === 'urgent').length;
  if (context.json) {
    return context.sayJson({
      agent: who.name,
      home: who.home.root,
      waiting: loud.length,
      urgent,
      quiet: mail.length - loud.length,
    });
  }
  const counts = [
    `${loud.length} waiting`,
    urgent > 0 ? `${urgent} urgent` : '',
    `${mail.length - loud.length} quiet`,
  ].filter(Boolean);
  context.say(`You are ${context.paint.bold(`@${who.name}`)}: ${counts.join(', ')}.`);
  context.say(
    mail.length > 0
      ? 'Next: parley inbox'
      : 'Next: parley send @<someone> "…"      Who is here: parley agents      Everything: parley help',
  );
  await forgetDaily(context, who.home);
}
