import type { Home } from '../flow/desk.ts';
import type { HistoryRow } from '../storage/ledger/ledger.ts';
import type { Context } from './context.ts';
import { gist, headline } from './words.ts';

/** Prints rows of several homes as one list, newest first; every row says where it comes from. */
export async function printRows(
  context: Context,
  homes: readonly Home[],
  ask: (home: Home) => Promise<HistoryRow[]>,
  limit: number,
): Promise<void> {
  const found: (HistoryRow & { home: string })[] = [];
  for (const home of homes) for (const row of await ask(home)) found.push({ ...row, home: home.label });
  const rows = found.sort((a, b) => (a.message.ts < b.message.ts ? 1 : -1)).slice(0, limit);
  if (context.json) return context.sayJson(rows.map(({ message, ...rest }) => ({ ...message, ...rest })));
  if (rows.length === 0) return context.say('nothing found');
  const several = homes.length > 1;
  for (const row of rows) {
    const where = several ? context.paint.dim(` %${row.home}`) : '';
    context.say(
      `${headline(row, context.desk.now(), context.paint)}${where}\n  ${gist(row.message.body) || (row.pruned ? '(the body is no longer kept)' : '(empty)')}`,
    );
  }
  if (rows.length === limit && !several)
    context.note(`older ones: --before ${Math.min(...rows.map((row) => row.seq))}`);
}
