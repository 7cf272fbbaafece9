import { readdirSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { dirname } from 'node:path';
import { Caller } from '../support/caller.ts';
import { RelayProcess } from '../support/relay-process.ts';
import { Faults } from './drill.ts';
import type { Drill } from './drill.ts';

const ODD_METHODS = ['PUT', 'DELETE', 'PATCH', 'OPTIONS', 'HEAD'];
const ROUTES = [
  '/v1/health',
  '/v1/rooms',
  '/v1/register',
  '/v1/agents',
  '/v1/channels',
  '/v1/subscribe',
  '/v1/unsubscribe',
  '/v1/send',
  '/v1/inbox/alice',
  '/v1/take',
  '/v1/lease',
  '/v1/settle',
  '/v1/trace/x',
  '/v1/version',
  '/metrics',
];
const ODD_PATHS = [
  '/',
  '//v1/send',
  '/v1/inbox/%2e%2e%2f',
  '/v1/inbox/%',
  '/v1/../../etc',
  '/v1/inbox/bob',
  '/v1/inbox/alice?limit=-1&after=x',
  '/v1/send?token=abc',
];
const WORDS: unknown[] = [
  '',
  'alice',
  '@alice',
  '@bob',
  '#dev',
  '@../../x',
  '../../../etc/passwd',
  'x'.repeat(5000),
  '\u0000',
  '\u202e',
  '💥',
  null,
  true,
  -1,
  1e308,
  [],
  {},
  [[[[[[]]]]]],
  { __proto__: { x: 1 } },
];
const FIELDS = [
  'name',
  'to',
  'body',
  'priority',
  'scope',
  'thread',
  'refs',
  'channel',
  'id',
  'keep',
  'ids',
  'lease',
  'ms',
  'max',
  'outcome',
  'agent',
  'match',
  'by',
  'delayMs',
];
/** What each route would take. */
const RIGHT: object[] = [
  { to: '@alice', body: 'hello' },
  { to: '#dev', body: 'hello' },
  { channel: '#dev' },
  { name: 'alice' },
  { id: 'no-such-id' },
  { max: 5, ms: 1000 },
  { lease: 'bearer.x', ids: ['a'], outcome: 'done' },
];
const TREES = [
  '{',
  '[]',
  '"x"',
  'null',
  '',
  '{"a":1}}',
  '['.repeat(20_000),
  `{"body":${'{"a":'.repeat(5000)}1`,
  '\ufeff{}',
  'NaN',
];

/** Requests of every kind, one after the other on many lanes: never a 5xx, never a crash, never a file elsewhere. */
export const relayFuzz: Drill = {
  name: 'a relay asked anything',
  async run(isLong, tell) {
    const total = isLong ? 100_000 : 1500;
    const seed = Math.floor(Math.random() * 2 ** 31);
    const relay = await new RelayProcess(undefined, ['--rate', 'off']).start();
    const beside = dirname(relay.home);
    const before = readdirSync(beside).toSorted();
    writeFileSync(`${relay.home}/seed`, String(seed));
    const token = (await Caller.register(relay.url, 'alice')).token;
    const statuses = new Map<number, number>();
    const bad: string[] = [];
    let asked = 0;
    await Promise.all(
      Array.from({ length: 16 }, async (_, lane) => {
        const dice = new Dice(seed + lane);
        while (asked < total) {
          asked += 1;
          if (asked % 10_000 === 0) tell(`${asked} requests`);
          if (dice.one(200)) await rawNoise(relay.url, dice);
          else await askOnce(relay.url, token, dice, statuses, bad);
        }
      }),
    );
    const faults = new Faults();
    const health = await fetch(`${relay.url}/v1/health`);
    faults.expect(health.status === 200, 'the relay does not answer any more');
    relay.kill('SIGTERM');
    faults.expect((await relay.ended) === 0, 'the relay did not end well');
    faults.none(bad, `bad answers (seed ${seed})`);
    faults.expect(readdirSync(beside).toSorted().join() === before.join(), 'a file was made outside the home');
    const told = [...statuses].toSorted(([a], [b]) => a - b).map(([status, count]) => `${status}×${count}`);
    return { counts: { requests: asked, answers: told.join(' ') }, faults: faults.found };
  },
};

async function askOnce(
  url: string,
  token: string,
  dice: Dice,
  statuses: Map<number, number>,
  bad: string[],
): Promise<void> {
  const path = dice.one(8) ? dice.of(ODD_PATHS) : dice.of(ROUTES);
  const usual = /register|subscribe|send|take|lease|settle|rooms/.test(path) ? 'POST' : 'GET';
  const method = dice.one(20) ? dice.of(ODD_METHODS) : dice.one(10) ? dice.of(['GET', 'POST']) : usual;
  const body = method === 'GET' || method === 'HEAD' ? null : dice.one(6) ? dice.of(TREES) : dice.object();
  const told = `${method} ${path} ${body?.slice(0, 120) ?? ''}`;
  try {
    const answer = await fetch(`${url}${path}`, { method, headers: dice.headers(token), body, redirect: 'manual' });
    const text = await answer.text();
    statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1);
    if (answer.status >= 500) bad.push(`${answer.status} to ${told}`);
    if (method !== 'HEAD' && !path.startsWith('/metrics') && !isJson(text))
      bad.push(`no JSON to ${told}: ${text.slice(0, 60)}`);
  } catch (error) {
    // A header that the client itself refuses never left; a cut connection is a fault.
    if (!(error instanceof TypeError)) bad.push(`${String(error)} at ${told}`);
  }
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Bytes that are no request, or half of one, and then nothing. */
function rawNoise(url: string, dice: Dice): Promise<void> {
  const { port } = new URL(url);
  return new Promise((resolve) => {
    const socket = connect(Number(port), '127.0.0.1', () => {
      socket.end(
        dice.of([
          '\r\n\r\n',
          'GET',
          'POST /v1/send HTTP/1.1\r\ncontent-length: 99\r\n\r\n{',
          '\u0000\u0001\u0002',
          'GET / HTTP/9.9\r\n\r\n',
          `GET /${'a'.repeat(20_000)} HTTP/1.1\r\n\r\n`,
        ]),
      );
      setTimeout(() => socket.destroy(), 50);
    });
    socket.on('error', () => {});
    socket.on('data', () => {});
    socket.on('close', () => resolve());
  });
}

/** The same throws for the same seed, so that a bad answer can be found again. */
class Dice {
  constructor(private state: number) {}

  #next(): number {
    this.state = (Math.imul(this.state, 1_664_525) + 1_013_904_223) >>> 0;
    return this.state / 2 ** 32;
  }

  /** True once in so many throws. */
  one(sides: number): boolean {
    return this.#next() * sides < 1;
  }

  of<T>(list: readonly T[]): T {
    return list[Math.floor(this.#next() * list.length)] as T;
  }

  object(): string {
    const fields = Array.from({ length: Math.floor(this.#next() * 5) }, () => [this.of(FIELDS), this.of(WORDS)]);
    // Half of them begin as something right.
    const right = this.one(2) ? this.of(RIGHT) : {};
    return JSON.stringify({ ...right, ...Object.fromEntries(fields) });
  }

  headers(token: string): Record<string, string> {
    const tokens = [`Bearer ${token}`, `bearer  ${token}`, token, 'Bearer x', 'Basic eDp5', ''];
    return {
      ...(this.one(20) ? {} : { authorization: this.one(6) ? this.of(tokens) : `Bearer ${token}` }),
      ...(this.one(12) && { 'x-backchannel-room': this.of(['default', '../x', 'nowhere', 'a'.repeat(100), '']) }),
      ...(this.one(6) && { 'idempotency-key': this.of(['k', 'k2', 'x'.repeat(300), ' ']) }),
      ...(this.one(6) && { 'content-type': this.of(['application/json', 'text/plain', 'multipart/form-data']) }),
      ...(this.one(10) && { 'last-event-id': this.of(['1', '-1', 'x', '99999999999999999999']) }),
      ...(this.one(20) && { origin: this.of(['http://evil.example', 'null']) }),
    };
  }
}
