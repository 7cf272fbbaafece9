import { Hono } from 'hono';
import { hashOf, sameHash } from '../../protocol/tokens.ts';
import type { RelayDeps } from './deps.ts';
import { events } from './events.ts';
import { isFromHere, pathOf, refuseStrangeHost, refuseTokenInAddress } from './guards.ts';
import { tokenOf } from './identity.ts';
import { inbox, take } from './inbox.ts';
import { leaseMessages, settleMessages, trace } from './lease.ts';
import { agents, channels, subscribe, unsubscribe } from './members.ts';
import { Declined, hostTrouble, NOT_FOUND, phraseFor, UNAUTHORIZED } from './phrases.ts';
import { makeRoom, register } from './register.ts';
import { json, Relay } from './relay.ts';
import type { Asked, RelayEnv } from './relay.ts';
import { sendMessage } from './send.ts';

/** Marks the requests of this process in its logs. */
const RUN = crypto.randomUUID().slice(0, 8);

/** The relay's HTTP, without a socket: `fetch` a request, get its answer. */
export function relayApp(deps: RelayDeps): Hono<RelayEnv> {
  return appOf(new Relay(deps));
}

/**
 * A request is tried as health, room and registration; then it must say who sends it; then it is routed. So an unknown path is 401
 * to a stranger and 404 to an agent. spec: relay#order
 */
export function appOf(relay: Relay): Hono<RelayEnv> {
  const app = new Hono<RelayEnv>({ getPath: pathOf });
  const on = (method: 'GET' | 'POST', path: string, handle: (c: Asked) => Response | Promise<Response>): void => {
    app.on(method, path, (c) => {
      c.set('route', path);
      return handle(c);
    });
  };

  app.use(framed(relay));
  on('GET', '/v1/health', (c) => json(c, { ok: true, service: 'backchannel-relay' }));
  on('GET', '/v1/version', (c) => json(c, versionOf(relay.deps)));
  on('GET', '/metrics', (c) => metrics(relay, c));
  on('POST', '/v1/rooms', (c) => makeRoom(relay, c));
  on('POST', '/v1/register', (c) => register(relay, c));

  app.use(identified(relay));
  on('POST', '/v1/send', (c) => sendMessage(relay, c));
  on('POST', '/v1/take', (c) => take(relay, c));
  on('GET', '/v1/inbox/:agent', (c) => inbox(relay, c));
  on('GET', '/v1/events/:agent', (c) => events(relay, c));
  on('GET', '/v1/agents', (c) => agents(c));
  on('GET', '/v1/channels', (c) => channels(c));
  on('POST', '/v1/subscribe', (c) => subscribe(relay, c));
  on('POST', '/v1/unsubscribe', (c) => unsubscribe(relay, c));
  on('POST', '/v1/lease', (c) => leaseMessages(relay, c));
  on('POST', '/v1/settle', (c) => settleMessages(relay, c));
  on('GET', '/v1/trace/:id', (c) => trace(c));

  app.notFound((c) => json(c, { error: NOT_FOUND }, 404));
  app.onError((error, c) => refused(relay, error, c));
  return app;
}

type Middleware = (c: Asked, next: () => Promise<void>) => Promise<void>;

/** Around everything: a number for the logs, the guards, and the count. */
function framed(relay: Relay): Middleware {
  const { log } = relay.deps;
  let count = 0;
  return async (c, next) => {
    const began = performance.now();
    count += 1;
    c.set('id', `${RUN}-${count}`);
    c.set('route', 'none');
    if (isWelcome(relay, c)) await next();
    const { status } = c.res;
    const ms = performance.now() - began;
    const route = c.get('route');
    relay.figures.answered(route, status, ms);
    const facts = { id: c.get('id'), method: c.req.method, route, status, ms: Math.round(ms * 1000) / 1000 };
    const who = c.get('who') as Asked['var']['who'] | undefined;
    log(status < 400 ? 'answered' : 'refused', who ? { ...facts, agent: who.name } : facts);
  };
}

/** The guards before any route. What they refuse is counted and logged like every other answer. */
function isWelcome(relay: Relay, c: Asked): boolean {
  const { loopback } = relay.deps.settings;
  try {
    if (loopback) refuseStrangeHost(c.req.raw, loopback);
    refuseTokenInAddress(c.req.raw);
    return true;
  } catch (error) {
    c.res = refused(relay, error, c);
    return false;
  }
}

/** Who is speaking. It comes from the token and from nothing else. spec: relay#tokens */
function identified(relay: Relay): Middleware {
  return async (c, next) => {
    const token = tokenOf(c.req.raw);
    const id = relay.lobby.named(c.req.raw);
    const room = token === null ? null : await relay.lobby.enter(id);
    try {
      const found = room && token !== null ? await relay.badges.whose(room, token) : null;
      if (!room || !found) {
        relay.figures.failedLogins += 1;
        relay.countStranger(c);
        throw new Declined(401, UNAUTHORIZED);
      }
      if (found.waitS > 0) throw relay.tooMany(found.waitS);
      await relay.lobby.open(room);
      c.set('room', room);
      c.set('who', found.who);
      c.set('tokenHash', found.hash);
      await next();
    } finally {
      if (room) relay.lobby.leave(room);
    }
  };
}

/** Every "no" is JSON. What is no refusal is our bug: logged, and told to nobody. */
function refused(relay: Relay, error: unknown, c: Asked): Response {
  const trouble = hostTrouble(error);
  if (trouble) relay.deps.log('trouble', { id: c.get('id'), route: c.get('route'), error: (error as Error).message });
  const phrase = trouble ?? phraseFor(error);
  if (phrase) return json(c, { error: phrase.message }, phrase.status, phrase.headers);
  const { message, stack = '' } = error instanceof Error ? error : new Error(String(error));
  relay.deps.log('failed', { id: c.get('id'), route: c.get('route'), error: message, stack });
  return json(c, { error: "internal error — see the relay's log" }, 500);
}

function versionOf({ version }: RelayDeps): Record<string, string | number | boolean> {
  return { service: 'parley-relay', version, protocol: 1, keys: true, leases: true };
}

/** For this machine, and for whoever has the admin token. spec: relay#metrics */
function metrics(relay: Relay, c: Asked): Response {
  const { adminTokenHash } = relay.deps.settings;
  const token = tokenOf(c.req.raw);
  const isAdmin = adminTokenHash !== null && token !== null && sameHash(hashOf(token), adminTokenHash);
  if (!isAdmin && !isFromHere(c.req.raw, c.env, relay.deps)) {
    relay.countStranger(c);
    throw new Declined(403, 'figures are for this machine or the admin token');
  }
  const { listeners, lobby, deps, figures } = relay;
  const text = figures.text({
    at: deps.now(),
    listeners: listeners.size,
    cut: listeners.cut,
    rooms: lobby.rooms.length,
  });
  return new Response(text, { headers: { 'content-type': 'text/plain; version=0.0.4', 'x-request-id': c.get('id') } });
}
