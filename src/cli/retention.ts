import { statSync, writeFileSync } from 'node:fs';
import type { Home } from '../flow/desk.ts';
import type { Context } from './context.ts';
import type { Cut } from './prunable.ts';

const DAY = 24 * 60 * 60 * 1000;

/** What the settings want forgotten by now. */
export function cutBy(context: Context): Cut {
  const { keepBodies, keepFacts } = context.settings;
  const now = context.desk.now();
  return {
    bodies: keepBodies === null ? null : now - keepBodies,
    facts: keepFacts === null ? null : now - keepFacts,
  };
}

/** Once a day, when somebody looks at their mail: never on the way of a message, because it reads the whole history. */
export async function forgetDaily(context: Context, home: Home): Promise<void> {
  const mark = `${home.root}/pruned`;
  const last = statSync(mark, { throwIfNoEntry: false })?.mtimeMs;
  if (last !== undefined && context.desk.now() - last < DAY) return;
  writeFileSync(mark, '', { mode: 0o600 });
  if (last === undefined) return;
  const { bodies, messages } = await home.ledger.prune(cutBy(context));
  context.log('pruned', { home: home.label, bodies, messages });
}
