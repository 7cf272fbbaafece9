import type { RelayDeps, RelaySettings } from '../../src/protocols/backchannel/relay-deps.ts';
import { relayApp } from '../../src/protocols/backchannel/relay-app.ts';
import type { RelayApp } from '../../src/protocols/backchannel/relay-app.ts';
import type { Home } from '../../src/core/mail/workspace.ts';
import { BODY_LIMIT } from '../../src/core/message.ts';
import type { RoomId } from '../../src/core/names.ts';
import { hashOf } from '../../src/wire/tokens.ts';
import { FilesRooms, DEFAULT_ROOM } from '../../src/protocols/backchannel/rooms.ts';
import { openQuickHome, quickFolder } from './quick-home.ts';

export interface Logged {
  event: string;
  facts: Record<string, string | number | boolean>;
}

/** A relay without a port, and everything that a test may want to see of it. */
export class TestRelay {
  readonly logged: Logged[] = [];
  /** Every room whose home was opened. */
  readonly homes = new Map<RoomId, Home>();
  /** Every room whose home was closed. What is in it stays, as on a disk. */
  readonly closed: RoomId[] = [];
  readonly deps: RelayDeps;
  /** Moves the relay's clock, which stands still otherwise: how long a test takes must not matter. */
  aheadMs = 0;
  readonly #began = Date.now();
  #app: RelayApp | undefined;

  constructor(settings: Partial<RelaySettings> = {}, roomToken: string | null = 'room secret') {
    this.deps = {
      rooms: new FilesRooms(quickFolder(), { defaultTokenHash: roomToken && hashOf(roomToken) }),
      home: (id) => this.home(id),
      closeHome: async (id) => void this.closed.push(id),
      settings: {
        bodyLimit: BODY_LIMIT,
        adminTokenHash: null,
        rate: null,
        quota: { waiting: 10_000 },
        mostAgents: 10_000,
        mostRooms: 200,
        keepWaitingMs: null,
        loopback: null,
        proxied: false,
        ...settings,
      },
      version: '0.0.0-test',
      log: (event, facts) => this.logged.push({ event, facts }),
      now: () => this.#began + this.aheadMs,
    };
  }

  get app(): RelayApp {
    this.#app ??= relayApp(this.deps);
    return this.#app;
  }

  home(id: RoomId = DEFAULT_ROOM): Home {
    const open = this.homes.get(id) ?? openQuickHome('bch', () => this.deps.now(), this.deps.rooms.root(id));
    this.homes.set(id, open);
    return open;
  }

  /** Asks without a socket. */
  async ask(method: 'GET' | 'POST', path: string, options: Asking = {}): Promise<Answer> {
    return answered(await this.app.fetch(request(`http://relay.test${path}`, method, options)));
  }

  /** Registers these agents with the room token and answers their tokens. */
  async agents(...names: string[]): Promise<string[]> {
    const tokens: string[] = [];
    for (const name of names) {
      const { value } = await this.ask('POST', '/v1/register', { token: 'room secret', body: { name } });
      tokens.push((value as { token: string }).token);
    }
    return tokens;
  }
}

export interface Asking {
  token?: string | undefined;
  body?: unknown;
  headers?: Record<string, string>;
}

export interface Answer {
  status: number;
  headers: Headers;
  value: unknown;
}

export function request(url: string, method: string, { token, body, headers }: Asking): Request {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return new Request(url, {
    method,
    headers: { ...(token !== undefined && { authorization: `Bearer ${token}` }), ...headers },
    ...(body !== undefined && { body: text }),
  });
}

/** An answer as the original's client reads it: JSON first, then the status. */
export async function answered(response: Response): Promise<Answer> {
  return { status: response.status, headers: response.headers, value: JSON.parse(await response.text()) as unknown };
}
