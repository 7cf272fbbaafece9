import type { Home } from '../flow/desk.ts';
import type { Ledger, Trace } from '../storage/ledger/ledger.ts';

/** What ended before these times is forgotten (ms; null keeps). */
export type Cut = Parameters<Ledger['prune']>[0];

const PAGE = 200;

/** What pruning would take, without taking it: by reading the whole history, page by page. */
export async function prunable(home: Home, cut: Cut): Promise<{ bodies: number; messages: number }> {
  const found = { bodies: 0, messages: 0 };
  for (let before: number | undefined; ;) {
    const rows = await home.ledger.history({ limit: PAGE, before });
    for (const { message } of rows) {
      const trace = await home.ledger.trace(message.id);
      const ended = Math.max(endOf(trace), await endOfDuties(home, trace));
      if (message.body !== '' && cut.bodies !== null && ended < cut.bodies) found.bodies += 1;
      if (cut.facts !== null && ended < cut.facts) found.messages += 1;
    }
    if (rows.length < PAGE) return found;
    before = rows.at(-1)?.seq;
  }
}

/** When the last copy ended; never, if one is still open. */
function endOf(trace: Trace | null): number {
  if (!trace) return Infinity;
  const sent = Date.parse(trace.message.ts);
  const ends = trace.copies.map((copy) => {
    if (copy.state === 'stored' || copy.state === 'held') return Infinity;
    return copy.settledAt ? Date.parse(copy.settledAt) : sent;
  });
  return ends.length > 0 ? Math.max(...ends) : sent;
}

/** When the last one ended who was obliged by it; never, while one still is, or may be as soon as somebody enters it. */
async function endOfDuties(home: Home, trace: Trace | null): Promise<number> {
  let last = -Infinity;
  for (const { mailbox, id, attention } of trace?.copies ?? []) {
    if (attention.policy !== 'must_respond' || !trace?.message.parley?.obligation) continue;
    const duty = await home.ledger.duty(mailbox, id);
    if (!duty?.ended) return Infinity;
    last = Math.max(last, duty.ended.at);
  }
  return last;
}
