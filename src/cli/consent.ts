import { readSync } from 'node:fs';
import { whyNotFor, whyNotUser } from '../sessions/authority.ts';
import type { Use } from '../sessions/authority.ts';
import type { Who } from '../flow/desk.ts';
import { shortId } from '../protocol/names.ts';
import type { MessageId } from '../protocol/names.ts';
import { Refusal } from '../protocol/refusal.ts';
import type { Signal } from '../protocol/signal.ts';
import type { Context } from './context.ts';
import type { Env } from './env.ts';
import { isTerminal } from './terminal.ts';

/** Refuses what only the user may do, with `what` as in "can approve". No option lifts this. */
export function refuseUnlessUser(env: Env, what: string): void {
  const why = whyNotUser(env);
  if (why) throw new Refusal('not_yours', `Only the user can ${what}. ${why}. Run it in your own terminal.`);
}

/** Refuses to answer a request where nobody can be asked: the question is read from stdin. */
export function refuseWithoutPerson({ env }: Context): void {
  refuseUnlessUser(env, 'approve or deny');
  if (isTerminal(0)) return;
  throw new Refusal(
    'not_yours',
    'Only the user can approve or deny. The answer is read from stdin, which is no terminal. Run it in your own terminal.',
  );
}

/** Refuses to act under a person's name where a model may be acting. */
export function refusePersonsName(env: Env, name: string, use: Use, option = '--as <agent>'): void {
  const why = whyNotFor(env, use);
  if (!why) return;
  throw new Refusal(
    use === 'serve' ? 'no_identity' : 'not_yours',
    `@${name} is a person. ${why}. Use an agent's mailbox: ${option} (\`parley init <agent>\` makes one)`,
  );
}

/** Refuses to give or deny a person's consent by any other word than `approve` and `deny`. */
export async function refuseForgedConsent({ name, home }: Who, id: MessageId, signal: Signal): Promise<void> {
  if (signal !== 'agree' && signal !== 'declined') return;
  if ((await home.directory.get(name))?.parley?.kind !== 'human') return;
  if ((await home.ledger.message(id))?.parley?.intent !== 'approval') return;
  const verb = signal === 'agree' ? 'approve' : 'deny';
  throw new Refusal(
    'not_yours',
    `@${name} is a person and is asked for approval; a person says \`parley ${verb} ${shortId(id)}\``,
  );
}

/** Asks at the terminal. Only the whole word counts. */
export function isSure(context: Pick<Context, 'note'>, question: string): boolean {
  context.note(`${question} Type yes:`);
  return lineFromTerminal().trim().toLowerCase() === 'yes';
}

/** One line, as a terminal hands it over; empty at its end. */
function lineFromTerminal(): string {
  const bytes = new Uint8Array(1024);
  const length = readSync(0, bytes);
  return new TextDecoder().decode(bytes.subarray(0, length));
}
