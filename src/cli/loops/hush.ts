import type { Broker } from '../../protocols/c2c/broker.ts';

/** Does this session want no disturbance now, and for how long (ms; null: until it says otherwise)? spec: c2c#dnd */
export async function hushOf(
  broker: Broker,
  sessionId: string,
  now: number,
): Promise<{ hushed: boolean; leftMs: number | null }> {
  const row = (await broker.session(sessionId))?.row;
  if (row?.dnd !== true) return { hushed: false, leftMs: null };
  const until = row.dnd_until === undefined ? null : row.dnd_until * 1000;
  if (until !== null && until <= now) return { hushed: false, leftMs: null };
  return { hushed: true, leftMs: until === null ? null : until - now };
}
