import type { HomeLabel } from '../protocol/address.ts';
import type { AgentName, MessageId } from '../protocol/names.ts';
import { Refusal } from '../protocol/refusal.ts';
import type { HistoryRow, Page } from '../storage/ledger/ledger.ts';
import type { Home } from './workspace.ts';

/** How many rows are read at once, and how many are looked at before an answer, however few of them fit. */
const BITE = 50;
export const LOOKED_AT = 5000;

/** How far a reader has come in one home. */
export interface Place {
  home: HomeLabel;
  seq: number;
}

/** What is looked at: everything of these agents; or all of a channel; or one exchange. From behind these places. */
interface Wanted {
  channel?: string | undefined;
  thread?: MessageId;
  from: readonly Place[];
}

/** The rows of several homes, newest first, each once. Within a home their order is that of their numbers. */
export async function* pages(
  homes: readonly Home[],
  names: ReadonlyMap<Home, readonly AgentName[]>,
  wanted: Wanted,
): AsyncGenerator<{ home: Home; row: HistoryRow }> {
  const lines = homes.map((home) => ({ home, rows: rowsIn(home, names.get(home) ?? [], wanted) }));
  const heads = await Promise.all(lines.map(async ({ home, rows }) => ({ home, rows, head: await rows.next() })));
  for (let looked = 0; looked < LOOKED_AT; looked += 1) {
    const open = heads.filter(({ head }) => !head.done);
    const [first, ...others] = open;
    if (!first) return;
    const newest = others.reduce((one, other) => (tsOf(other) > tsOf(one) ? other : one), first);
    if (!newest.head.done) yield { home: newest.home, row: newest.head.value };
    newest.head = await newest.rows.next();
  }
}

interface Head {
  head: IteratorResult<HistoryRow, void>;
}

function tsOf({ head }: Head): string {
  return head.done ? '' : head.value.message.ts;
}

async function* rowsIn(home: Home, names: readonly AgentName[], wanted: Wanted): AsyncGenerator<HistoryRow, void> {
  const before = wanted.from.find((place) => place.home === home.label)?.seq;
  const pagesOf: Omit<Page, 'limit'>[] =
    wanted.thread !== undefined
      ? [{ thread: wanted.thread }]
      : wanted.channel !== undefined
        ? [{}]
        : names.map((agent) => ({ agent }));
  let heads = await Promise.all(
    pagesOf.map(async (page) => {
      const rows = rowsOf(home, page, before);
      return { rows, head: await rows.next() };
    }),
  );
  let last = Infinity;
  for (;;) {
    heads = heads.filter(({ head }) => !head.done);
    const [first, ...others] = heads;
    if (!first) return;
    const next = others.reduce((one, other) => (seqOf(other) > seqOf(one) ? other : one), first);
    // Two of these agents may have part in the same message.
    if (!next.head.done && next.head.value.seq < last) {
      last = next.head.value.seq;
      if (wanted.channel === undefined || next.head.value.message.to === wanted.channel) yield next.head.value;
    }
    next.head = await next.rows.next();
  }
}

function seqOf({ head }: Head): number {
  return head.done ? -1 : head.value.seq;
}

async function* rowsOf(home: Home, page: Omit<Page, 'limit'>, from?: number): AsyncGenerator<HistoryRow, void> {
  let before = from;
  for (;;) {
    const rows = await home.ledger.history({ ...page, before, limit: BITE });
    yield* rows;
    if (rows.length < BITE) return;
    before = rows.at(-1)?.seq;
  }
}

/** Where to go on: the last number in each home. */
export function cursorOf(places: readonly Place[]): string {
  const last = new Map(places.map(({ home, seq }) => [home, seq]));
  return [...last].map(([home, seq]) => `${home}.${seq}`).join('-');
}

export function readCursor(cursor: string | undefined): Place[] {
  if (cursor === undefined) return [];
  const places = cursor.split('-').map((part) => /^(parley|bch|relay)\.(\d{1,15})$/.exec(part));
  if (places.includes(null))
    throw new Refusal('invalid_request', 'that is no cursor of ours; leave it out to begin anew');
  return places.flatMap((found) => (found ? [{ home: found[1] as HomeLabel, seq: Number(found[2]) }] : []));
}
