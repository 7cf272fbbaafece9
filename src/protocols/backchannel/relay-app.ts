import type { Connections, RelayDeps } from './relay-deps.ts';
import { events } from './relay-mail.ts';
import { refuseStrangeHost, refuseTokenInAddress, isFromHere, tokenOf } from './relay-guards.ts';
import { storageTrouble } from '../../core/disk.ts';
import { hashOf, isToken } from '../../wire/tokens.ts';
import { inbox, take, leaseMessages, settleMessages, trace, sendMessage } from './relay-mail.ts';
import { agents, channels, subscribe, unsubscribe, openRoom, register } from './relay-agents.ts';
import { Declined, hostTrouble, NOT_FOUND, phraseFor, UNAUTHORIZED } from './relay-phrases.ts';
import { RelayCall, json, Relay } from './relay-state.ts';

/** The prefix of this process's request ids in its logs. */
const RUN = crypto.randomUUID().slice(0, 8);

/** The relay's HTTP without a socket: `fetch` answers a request. */
export interface RelayApp {
  fetch(request: Request, connections?: Connections): Promise<Response>;
}

type Route = (c: RelayCall) => Response | Promise<Response>;

type Facts = Parameters<RelayDeps['log']>[1];

interface Found {
  act: Route;
  isForAnybody: boolean;
}

export function relayApp(deps: RelayDeps): RelayApp {
  return appOf(new Relay(deps));
}

/**
 * Routes that need no agent come first: health, rooms and registration. Every other request must have an agent's token before it is
 * routed. So an unknown path is 401 to a stranger and 404 to an agent. spec: relay#order
 */
export function appOf(relay: Relay): RelayApp {
  const routes = new Routes();
  routes.forAnybody({
    'GET /v1/health': (c) => json(c, { ok: true, service: 'backchannel-relay' }),
    'GET /v1/version': (c) => json(c, versionOf(relay.deps)),
    'GET /metrics': (c) => metrics(relay, c),
    'POST /v1/rooms': (c) => openRoom(relay, c),
    'POST /v1/register': (c) => register(relay, c),
  });
  routes.forAgents({
    'POST /v1/send': (c) => sendMessage(relay, c),
    'POST /v1/take': (c) => take(relay, c),
    'GET /v1/inbox/:agent': (c) => inbox(relay, c),
    'GET /v1/events/:agent': (c) => events(relay, c),
    'GET /v1/agents': (c) => agents(c),
    'GET /v1/channels': (c) => channels(c),
    'POST /v1/subscribe': (c) => subscribe(relay, c),
    'POST /v1/unsubscribe': (c) => unsubscribe(relay, c),
    'POST /v1/lease': (c) => leaseMessages(relay, c),
    'POST /v1/settle': (c) => settleMessages(relay, c),
    'GET /v1/trace/:id': (c) => trace(c),
  });
  let count = 0;
  return {
    async fetch(request, connections) {
      const began = performance.now();
      count += 1;
      const c = new RelayCall(request, connections, `${RUN}-${count}`);
      let answer: Response;
      try {
        refuseStrangers(relay, c);
        const found = routes.find(c);
        answer = await (found?.isForAnybody ? found.act(c) : identified(relay, c, found?.act ?? notFound));
      } catch (error) {
        answer = refused(relay, error, c);
      }
      note(relay, c, answer.status, performance.now() - began);
      return c.method === 'HEAD' ? new Response(null, answer) : answer;
    },
  };
}

/** Finds a route by method and path. `:name` matches the last part of a path, which must not be empty or contain a slash. */
class Routes {
  readonly #whole = new Map<string, Found>();
  readonly #begun = new Map<string, Found>();

  forAnybody(table: Record<string, Route>): void {
    for (const [key, act] of Object.entries(table)) this.#add(key, act, true);
  }

  forAgents(table: Record<string, Route>): void {
    for (const [key, act] of Object.entries(table)) this.#add(key, act, false);
  }

  find({ method, path }: RelayCall): Found | undefined {
    const key = `${method} ${path}`;
    const whole = this.#whole.get(key) ?? (method === 'HEAD' ? this.#openToAnybody(path) : undefined);
    if (whole) return whole;
    const end = key.lastIndexOf('/') + 1;
    return end < key.length ? this.#begun.get(key.slice(0, end)) : undefined;
  }

  /** Only these routes answer HEAD, which monitors use. Elsewhere HEAD would open streams that nobody reads. */
  #openToAnybody(path: string): Found | undefined {
    const found = this.#whole.get(`GET ${path}`);
    return found?.isForAnybody ? found : undefined;
  }

  #add(key: string, act: Route, isForAnybody: boolean): void {
    const name = key.slice(key.indexOf(' ') + 1);
    const named: Route = (c) => {
      c.route = name;
      return act(c);
    };
    const colon = key.indexOf(':');
    if (colon === -1) this.#whole.set(key, { act: named, isForAnybody });
    else this.#begun.set(key.slice(0, colon), { act: named, isForAnybody });
  }
}

/** Records an answer in the figures and the log. */
function note(relay: Relay, c: RelayCall, status: number, ms: number): void {
  const { id, route } = c;
  relay.figures.answered(route, status, ms);
  const facts: Facts = { id, method: c.method, route, status, ms: Math.round(ms * 1000) / 1000 };
  const who = c.who as RelayCall['who'] | undefined;
  if (who) facts['agent'] = who.name;
  relay.deps.log(status < 400 ? 'answered' : 'refused', facts);
}

/** Runs the guards that apply to every route. */
function refuseStrangers(relay: Relay, { request }: RelayCall): void {
  const { loopback } = relay.deps.settings;
  if (loopback) refuseStrangeHost(request, loopback);
  refuseTokenInAddress(request);
}

/** Identifies the caller by its token alone. spec: relay#tokens */
async function identified(relay: Relay, c: RelayCall, act: Route): Promise<Response> {
  const token = tokenOf(c.request);
  const room = token === null ? null : await relay.registry.enter(relay.registry.named(c.request));
  try {
    const hash = hashOf(token ?? '');
    const name = room && (await room.home.directory.byToken(hash));
    if (!room || !name) {
      relay.figures.failedLogins += 1;
      relay.countStranger(c);
      throw new Declined(401, UNAUTHORIZED);
    }
    relay.countToken(hash);
    await relay.registry.open(room);
    c.room = room;
    c.who = { name, home: room.home };
    c.tokenHash = hash;
    return await act(c);
  } finally {
    if (room) relay.registry.leave(room);
  }
}

function notFound(c: RelayCall): Response {
  return json(c, { error: NOT_FOUND }, 404);
}

/** Answers an error as JSON. An error that is no refusal is our bug: it is logged, and the caller sees no details. */
function refused(relay: Relay, thrown: unknown, c: RelayCall): Response {
  const error = storageTrouble(thrown);
  const trouble = hostTrouble(error);
  if (trouble) relay.deps.log('trouble', { id: c.id, route: c.route, error: (error as Error).message });
  const phrase = trouble ?? phraseFor(error);
  if (phrase) return json(c, { error: phrase.message }, phrase.status, phrase.headers);
  const { message, stack = '' } = error instanceof Error ? error : new Error(String(error));
  relay.deps.log('failed', { id: c.id, route: c.route, error: message, stack });
  return json(c, { error: "internal error — see the relay's log" }, 500);
}

function versionOf({ version }: RelayDeps): Record<string, string | number | boolean> {
  return { service: 'parley-relay', version, protocol: 1, keys: true, leases: true };
}

/** Answers callers on this machine and holders of the admin token. spec: relay#metrics */
function metrics(relay: Relay, c: RelayCall): Response {
  const { adminTokenHash } = relay.deps.settings;
  const token = tokenOf(c.request);
  const isAdmin = adminTokenHash !== null && token !== null && isToken(token, adminTokenHash);
  if (!isAdmin && !isFromHere(c.request, c.connections, relay.deps)) {
    relay.countStranger(c);
    throw new Declined(403, 'figures are for this machine or the admin token');
  }
  const { listeners, registry, deps, figures } = relay;
  const text = figures.text({
    at: deps.now(),
    listeners: listeners.size,
    cut: listeners.cut,
    rooms: registry.rooms.length,
  });
  return new Response(text, { headers: { 'content-type': 'text/plain; version=0.0.4', 'x-request-id': c.id } });
}
