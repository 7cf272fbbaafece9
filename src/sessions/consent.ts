import type { Env } from '../core/env.ts';
import { readSync } from 'node:fs';
import { Refusal } from '../protocol/refusal.ts';
import { whyNotFor, whyNotUser } from './authority.ts';
import type { Use } from './authority.ts';

/** Refuses what only the user may do, with `what` as in "can approve". No option lifts this. */
export function refuseUnlessUser(env: Env, what: string): void {
  const why = whyNotUser(env);
  if (why) throw new Refusal('not_yours', `Only the user can ${what}. ${why}. Run it in your own terminal.`);
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

/** Who asks, and how it speaks. */
export interface Asking {
  json: boolean;
  note(text: string): void;
}

/** Asks at the terminal. Only the whole word counts. */
export function isSure(context: Pick<Asking, 'note'>, question: string): boolean {
  context.note(`${question} Type yes:`);
  return lineFromTerminal().trim().toLowerCase() === 'yes';
}

/** One line, as a terminal hands it over; empty at its end. */
function lineFromTerminal(): string {
  const bytes = new Uint8Array(1024);
  const length = readSync(0, bytes);
  return new TextDecoder().decode(bytes.subarray(0, length));
}
