import type { Who } from '../../flow/workspace.ts';
import { ownMailbox } from './inbox.ts';
import { Declined, TOO_MANY_STREAMS } from './phrases.ts';
import type { Asked, Relay } from './relay.ts';

/** A stream of everything that waits and arrives. spec: relay#events */
export async function events(relay: Relay, c: Asked): Promise<Response> {
  const who = ownMailbox(c);
  const { tokenHash } = c;
  await who.home.directory.seen(who.name);
  const after = await lastSeen(who, c.request.headers.get('last-event-id'));
  // From here to the open stream nothing is waited for: of many who ask at once, each sees what those before it have opened.
  if (relay.listeners.isFull(tokenHash)) throw new Declined(429, TOO_MANY_STREAMS, { 'retry-after': '25' });
  const { request, connections } = c;
  // A stream may be silent between two signs of life for longer than a connection may idle.
  connections?.timeout?.(request, 0);
  const cut = (): void => connections?.timeout?.(request, 1);
  const facts = { id: c.id, room: c.room.id, agent: who.name };
  // A stream outlives its request: a token that was taken away meanwhile, or given to somebody else's name, opens nothing any more.
  const isWelcome = async (): Promise<boolean> => (await who.home.directory.byToken(tokenHash)) === who.name;
  let leave = (): void => {};
  const stream = relay.listeners.open({ who, tokenHash, after, isWelcome, cut }, (error) => {
    leave();
    const why = error instanceof Error ? { error: error.message } : {};
    relay.deps.log('listener_closed', { ...facts, ...why });
  });
  leave = relay.lobby.stay(c.room);
  relay.deps.log('listener_open', facts);
  return new Response(stream, {
    headers: {
      'content-type': 'text/event-stream',
      'cache-control': 'no-cache',
      connection: 'keep-alive',
      // Proxies must not collect a stream.
      'x-accel-buffering': 'no',
      'x-request-id': facts.id,
    },
  });
}

/** Where a reader that comes back goes on. A number that was never given out is from a ledger before this one: all is sent. */
async function lastSeen(who: Who, text: string | null): Promise<number> {
  if (text === null || !/^\d{1,16}$/.test(text)) return 0;
  const [newest] = await who.home.ledger.history({ limit: 1 });
  const after = Number(text);
  return after <= (newest?.seq ?? 0) ? after : 0;
}
