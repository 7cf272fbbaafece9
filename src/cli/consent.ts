import { shortId } from '../protocol/names.ts';
import { readSync } from 'node:fs';
import type { Who } from '../flow/desk.ts';
import type { MessageId } from '../protocol/names.ts';
import { Refusal } from '../protocol/refusal.ts';
import type { Signal } from '../protocol/signal.ts';
import type { Context } from './context.ts';
import type { Env } from './env.ts';
import { isTerminal } from './terminal.ts';

/** By these a client marks what its model starts. Whoever acts there is the model, whatever terminal it was given. */
const STARTED_BY_A_MODEL = [
  'CLAUDECODE',
  'CODEX_SANDBOX',
  'CODEX_SANDBOX_NETWORK_DISABLED',
  'GEMINI_CLI',
  'OPENCODE',
  'CURSOR_AGENT',
  'AI_AGENT',
];

/** The variable by which a client marks that its model started this; null if there is none. */
export function startedByModel(env: Env): string | null {
  return STARTED_BY_A_MODEL.find((name) => env[name]) ?? null;
}

/**
 * Refuses where nobody can be sitting: without a terminal, or below an agent's client. No option lifts this. It does not stop a
 * program that goes to lengths to look like a person, and nothing on one account can: it stops every program that does not.
 */
export function refuseWithoutPerson(context: Context): void {
  const mark = startedByModel(context.env);
  if (mark !== null)
    throw new Refusal(
      'not_yours',
      `only a person can say that, and ${mark} says that an agent's client started this; type it in a terminal of your own`,
    );
  if (!isTerminal(0))
    throw new Refusal(
      'not_yours',
      'only a person can say that, at a terminal; here stdin is none, and no option helps',
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
export function isSure(context: Context, question: string): boolean {
  context.note(`${question} Type yes:`);
  return lineFromTerminal().trim().toLowerCase() === 'yes';
}

/** One line, as a terminal hands it over; empty at its end. */
function lineFromTerminal(): string {
  const bytes = new Uint8Array(1024);
  const length = readSync(0, bytes);
  return new TextDecoder().decode(bytes.subarray(0, length));
}
