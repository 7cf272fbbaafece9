import type { Rooms } from './rooms.ts';
import type { RoomId } from '../../core/names.ts';
import type { Home } from '../../core/mail/workspace.ts';
/** The dependencies of the relay. Time comes in from outside. */
export interface RelayDeps {
  rooms: Rooms;
  /** A room's home, the same object until it is closed. Its ledger and spool are opened at first use. */
  home(id: RoomId): Home;
  /** Closes a room's home: returns when every accepted message has its file. */
  closeHome(id: RoomId): Promise<void>;
  settings: RelaySettings;
  /** The version of this program, which anyone may ask for. */
  version: string;
  /** Never logs a body, a token or a caller's text. */
  log: (event: string, facts: Record<string, string | number | boolean>) => void;
  now: () => number;
}

export interface RelaySettings {
  /** The largest body of a message, in bytes. A request may have six times that, because JSON may escape every byte. */
  bodyLimit: number;
  /** The hash of the token that may make rooms and see figures from elsewhere. Null: anyone may make rooms. */
  adminTokenHash: string | null;
  rate: { perMinute: number } | null;
  quota: { waiting: number };
  /** The most agents of a room: each is a file and a mailbox on our disk. */
  mostAgents: number;
  /** The most idle rooms that stay open: each has open files. */
  mostRooms: number;
  /** How long mail may wait before it expires; null: forever. */
  keepWaitingMs: number | null;
  /** Set if only this machine can reach the relay: then it accepts only loopback host names. */
  loopback: { port: () => number } | null;
  /** A proxy is in front of the relay and names the client's address. */
  proxied: boolean;
  times?: Partial<RelayTimes>;
}

export interface RelayTimes {
  /** The time between keep-alives on a stream. */
  keepaliveMs: number;
  /** The time in which a body, or its next 64 KiB, must arrive. */
  bodyMs: number;
  /** How often copies of dead readers are released. */
  healMs: number;
  /** How often expired mail is looked for. */
  sweepMs: number;
  /** A room is closed after this time without a request. */
  idleMs: number;
  /** How long requests under way may take when the relay stops. */
  stopMs: number;
}

const TIMES: RelayTimes = {
  keepaliveMs: 25_000,
  bodyMs: 15_000,
  healMs: 5000,
  sweepMs: 3_600_000,
  idleMs: 300_000,
  stopMs: 5000,
};

export function timesOf({ times }: RelaySettings): RelayTimes {
  return { ...TIMES, ...times };
}

/** The connections of Bun's server. In-process callers have none. */
export interface Connections {
  requestIP(request: Request): { address: string } | null;
  /** Ends the connection if nothing moves for this many seconds; 0: never. */
  timeout(request: Request, seconds: number): void;
}

/** The relay's figures, in the text format of Prometheus. spec: relay#metrics */
export class Figures {
  readonly #answers: { route: string; status: number; count: number }[] = [];
  readonly #startedAt: number;
  #busyMs = 0;
  accepted = 0;
  copies = 0;
  taken = 0;
  expired = 0;
  failedLogins = 0;
  limited = 0;

  constructor(now: number) {
    this.#startedAt = now;
  }

  answered(route: string, status: number, ms: number): void {
    this.#busyMs += ms;
    const known = this.#answers.find((one) => one.route === route && one.status === status);
    if (known) known.count += 1;
    else this.#answers.push({ route, status, count: 1 });
  }

  text(now: { at: number; listeners: number; cut: number; rooms: number }): string {
    const rows: [name: string, kind: 'counter' | 'gauge', help: string, value: number][] = [
      ['uptime_seconds', 'gauge', 'Since the relay started.', Math.round((now.at - this.#startedAt) / 1000)],
      ['request_seconds_total', 'counter', 'Time spent on requests.', this.#busyMs / 1000],
      ['messages_accepted_total', 'counter', 'Messages that were sent and stored.', this.accepted],
      ['copies_stored_total', 'counter', 'Copies of them, one per recipient.', this.copies],
      ['messages_taken_total', 'counter', 'Copies that were taken or settled.', this.taken],
      ['messages_expired_total', 'counter', 'Copies that nobody took in time.', this.expired],
      ['failed_logins_total', 'counter', 'Requests without a good token.', this.failedLogins],
      ['limited_total', 'counter', 'Requests refused by a rate or a quota.', this.limited],
      ['listeners', 'gauge', 'Open event streams.', now.listeners],
      ['listeners_cut_total', 'counter', 'Streams that were cut because their reader took nothing.', now.cut],
      ['rooms_open', 'gauge', 'Open rooms.', now.rooms],
      ['resident_memory_bytes', 'gauge', 'Memory of the process.', process.memoryUsage.rss()],
    ];
    const answers = this.#answers.map(
      ({ route, status, count }) => `parley_relay_answers_total{route="${route}",status="${status}"} ${count}`,
    );
    return [
      '# HELP parley_relay_answers_total Answers by route and status.',
      '# TYPE parley_relay_answers_total counter',
      ...answers,
      ...rows.flatMap(([name, kind, help, value]) => [
        `# HELP parley_relay_${name} ${help}`,
        `# TYPE parley_relay_${name} ${kind}`,
        `parley_relay_${name} ${value}`,
      ]),
      '',
    ].join('\n');
  }
}
