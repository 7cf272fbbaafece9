import type { Duty } from '../protocol/duty.ts';
import type { Message } from '../protocol/message.ts';
import type { DutyPage } from '../storage/ledger/duties.ts';
import type { Home, Who } from './desk.ts';
import { enterDuties, standOf } from './duty.ts';

/** More than this are not counted: a count of thousands would cost more than the page itself. */
export const COUNTED = 100;

export interface Owed {
  duties: (Duty & { message: Message | null })[];
  /** How many in all; counting stops at a hundred. */
  count: number;
  more: boolean;
}

/** What this agent owes, the oldest first. spec: c2a#duties */
export async function owe(who: Who, page: DutyPage): Promise<Owed> {
  await enterDuties(who.home);
  const found = await who.home.ledger.owed(who.name, { ...page, limit: page.limit + 1 });
  const duties = await stillOpen(who.home, found.slice(0, page.limit));
  const count = await who.home.ledger.owedCount(who.name, COUNTED);
  return { duties, count, more: found.length > page.limit };
}

/** What others owe to this agent: what it waits for, the oldest first. spec: c2a#duties */
export async function blocked(who: Who, page: DutyPage): Promise<Owed> {
  await enterDuties(who.home);
  const found = await who.home.ledger.blocking(who.name, { ...page, limit: page.limit + 1 });
  const duties = await stillOpen(who.home, found.slice(0, page.limit));
  return { duties, count: duties.length, more: found.length > page.limit };
}

async function stillOpen(home: Home, duties: readonly Duty[]): Promise<Owed['duties']> {
  const open: Owed['duties'] = [];
  for (const duty of duties) {
    const message = await home.ledger.message(duty.id);
    if ((await standOf(home, duty, message)) !== 'ended') open.push({ ...duty, message });
  }
  return open;
}
