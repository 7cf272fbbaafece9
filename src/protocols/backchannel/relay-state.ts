import { addressOf, pathOf } from './relay-guards.ts';
import { Figures, timesOf } from './relay-deps.ts';
import type { Connections, RelayDeps } from './relay-deps.ts';
import type { Who } from '../../core/mail/workspace.ts';
import { Buckets, siteOf } from '../../wire/rate-limit.ts';
import { Bodies } from './relay-body.ts';
import type { Fields } from './relay-body.ts';
import { Listeners } from './listeners.ts';
import { RoomRegistry } from './room-registry.ts';
import type { Room } from './room-registry.ts';
import { Declined } from './relay-phrases.ts';

/** A request, with what earlier checks found out. */
export class RelayCall {
  readonly method: string;
  readonly path: string;
  route = 'none';
  /** Set once the caller is identified. */
  room!: Room;
  who!: Who;
  tokenHash!: string;

  constructor(
    readonly request: Request,
    readonly connections: Connections | undefined,
    /** The request's id in the logs. */
    readonly id: string,
  ) {
    this.method = request.method;
    this.path = pathOf(request.url);
  }
}

/** One address may fail, and may join, 1/n as often as an agent may send requests. */
const FAILING_PART = 100;
const JOINING_PART = 10;
/** The least joins per minute from one address, even if the rate for agents is low. */
const JOINING_LEAST = 60;
/** The most bytes of a message or request besides the body. */
export const ENVELOPE = 64 * 1024;
/** The largest request that is not a message. */
export const SMALL_BODY = 64 * 1024;

/** What all routes share. */
export class Relay {
  readonly registry: RoomRegistry;
  readonly bodies: Bodies;
  readonly listeners: Listeners;
  readonly figures: Figures;
  readonly #asking: Buckets | null;
  readonly #failing: Buckets | null;
  readonly #joining: Buckets | null;

  constructor(readonly deps: RelayDeps) {
    const { settings, now } = deps;
    const { bodyMs, keepaliveMs } = timesOf(settings);
    this.registry = new RoomRegistry(deps);
    // JSON may need six bytes for one of the body: \u0000.
    this.bodies = new Bodies(settings.bodyLimit * 6 + ENVELOPE, bodyMs);
    this.listeners = new Listeners(keepaliveMs);
    this.figures = new Figures(now());
    this.#asking = settings.rate && new Buckets(settings.rate.perMinute);
    this.#failing = settings.rate && new Buckets(settings.rate.perMinute / FAILING_PART);
    this.#joining = settings.rate && new Buckets(Math.max(JOINING_LEAST, settings.rate.perMinute / JOINING_PART));
  }

  fields(c: RelayCall, limit?: number): Promise<Fields> {
    return this.bodies.fields(c.request, limit);
  }

  /** Counts a request by its token. Refuses too many. */
  countToken(tokenHash: string): void {
    this.#count(this.#asking, tokenHash);
  }

  /** Counts a failed or costly request of a caller without a token. Refuses too many. */
  countStranger(c: RelayCall): void {
    this.#count(this.#failing, this.#siteOf(c));
  }

  /** Counts a registration: each makes a record and a mailbox on our disk. Refuses too many. */
  countJoining(c: RelayCall): void {
    this.#count(this.#joining, this.#siteOf(c));
  }

  #siteOf(c: RelayCall): string {
    return siteOf(addressOf(c.request, c.connections, this.deps.settings.proxied));
  }

  #count(buckets: Buckets | null, key: string): void {
    const waitS = buckets?.count(key, this.deps.now()) ?? 0;
    if (waitS === 0) return;
    this.figures.limited += 1;
    throw new Declined(429, `too many requests — try again in ${waitS} s`, { 'retry-after': String(waitS) });
  }
}

/** A JSON answer. */
export function json(c: RelayCall, value: unknown, status = 200, headers?: Record<string, string>): Response {
  return jsonText(c, JSON.stringify(value), status, headers);
}

/** An answer whose text is JSON already. */
export function jsonText(c: RelayCall, text: string, status = 200, headers?: Record<string, string>): Response {
  // Spread first: then it is copied as a whole. After other keys it would cost as much as the rest of the answer.
  return new Response(text, {
    status,
    headers: { ...headers, 'content-type': 'application/json', 'x-request-id': c.id },
  });
}
