import { Refusal } from '../../protocol/refusal.ts';
import type { Broker } from '../../storage/c2c/broker.ts';
import type { SessionRow } from '../../protocol/c2c.ts';

/** The last time that can be written down. */
const LATEST_S = 8.64e12;

/** Whether a session wants no disturbance. Mail for it waits; nothing wakes it. Times are seconds since 1970. spec: c2c#dnd */
export interface Disturbing {
  dnd: boolean;
  dnd_since?: number | undefined;
  dnd_until?: number | undefined;
}

export function disturbing({ dnd, dnd_since, dnd_until }: SessionRow, now: number): Disturbing {
  const on = dnd === true && (dnd_until === undefined || dnd_until > now);
  return { dnd: on, ...(on && { dnd_since, dnd_until }) };
}

/** Changes it, and answers what it is then. */
export async function setDisturbing(
  broker: Broker,
  sessionId: string,
  wish: { on: boolean; until?: number | undefined },
  now: number,
): Promise<Disturbing> {
  if (wish.on && wish.until !== undefined && !(wish.until > now && wish.until < LATEST_S)) {
    throw new Refusal('invalid_request', 'that time has passed, or is none; write seconds since 1970, or leave it out');
  }
  const changed = await broker.amend(sessionId, () =>
    wish.on
      ? { dnd: true, dnd_since: now, dnd_until: wish.until }
      : { dnd: undefined, dnd_since: undefined, dnd_until: undefined },
  );
  if (changed) return disturbing(changed.row, now);
  throw new Refusal('no_identity', 'this session has no alias; run `c2c register <alias>` first');
}
