import type { RelayRooms } from './relay-rooms.ts';
import { openRelayRooms } from './relay-rooms.ts';
import type { RELAY_OPTIONS } from './relay-options.ts';
import type { Env } from '../../core/env.ts';
import { resolve } from 'node:path';
import { TEXT, command } from '../../core/command.ts';
import type { Values } from '../../core/command.ts';
import type { Log, OpenService, Service } from '../../core/service.ts';
import { countFrom, spanMs } from '../../core/time.ts';
import { serveRelay } from './relay-server.ts';
import { takeDaemonLock, daemonNotice } from '../../platform/daemon-lock.ts';
import { backchannelHome } from '../../platform/env.ts';
import { tokenFrom, tokenWarning } from '../../platform/input.ts';
import { servingLog } from '../../platform/log.ts';
import { VERSION } from '../../platform/program.ts';
import { serveUntilSignal, tellWarnings } from '../../platform/serve.ts';
import { BODY_LIMIT } from '../../core/message.ts';
import { Refusal } from '../../core/refusal.ts';
import { hashOf } from '../../wire/tokens.ts';
import { codeOf } from '../../core/disk.ts';
import { raiseFileLimit } from '../../platform/libc.ts';
import { DEFAULT_ROOM } from './rooms.ts';
import { followCertificate, readCertificate, validUntil } from './certificate.ts';
import type { Certificate } from './certificate.ts';
import type { Bch } from './workspace.ts';

const relayCommand = command({
  usage: 'relay [--port 7117] [--token <room token>] [--host 127.0.0.1]',
  // `--host` and `--token-file` are ours: the original listens on every address.
  options: { port: TEXT, token: TEXT, 'token-file': TEXT, host: TEXT },
  async run(bch: Bch, values) {
    const home = { root: bch.root, bodyLimit: BODY_LIMIT, durability: 'normal' } as const;
    const log = servingLog({ json: bch.env['PARLEY_LOG'] === 'json', verbose: bch.env['PARLEY_LOG'] === 'debug' });
    const order = relayOrder(values, bch.env, process.cwd(), home);
    const open = async (): Promise<OpenService[]> => {
      const service = await openRelayService(order, log);
      tellWarnings(service, null);
      bch.say(`backchannel relay listening on ${service.address}`);
      return [service];
    };
    await serveUntilSignal(open, log, () => {});
  },
});

const DEFAULT_PORT = 7117;
const DEFAULT_RATE = 100_000;
const DEFAULT_QUOTA = 100_000;
const DEFAULT_AGENTS = 10_000;
const DEFAULT_WAIT = '30d';
/** A shorter room token can be guessed. Ours have 32 characters. */
const SHORT_TOKEN = 16;

/** The settings of a relay. */
interface RelayOrder {
  /** The Backchannel home whose rooms it serves. */
  root: string;
  host: string;
  port: number;
  /** The public address at which a proxy on this machine offers the relay, or null. */
  publicUrl: string | null;
  token: string | null;
  /** The token was given with `--token`. */
  tokenInArguments: boolean;
  adminToken: string | null;
  tls: { cert: string; key: string } | null;
  rate: { perMinute: number } | null;
  quota: { waiting: number };
  /** Per room. */
  mostAgents: number;
  keepWaitingMs: number | null;
  bodyLimit: number;
  durability: 'normal' | 'full';
}

/** The settings from options and environment. Refuses settings that would let strangers in without a token. */
export function relayOrder(
  values: Values<typeof RELAY_OPTIONS>,
  env: Env,
  cwd: string,
  home: Pick<RelayOrder, 'root' | 'bodyLimit' | 'durability'>,
): RelayOrder {
  const order: RelayOrder = {
    ...home,
    host: (values.host ?? '127.0.0.1').replace(/^\[(.*)\]$/, '$1'),
    port: portFrom(values.port),
    publicUrl: values.public === undefined ? null : publicUrlFrom(values.public),
    token: tokenFrom(values, cwd, env['BACKCHANNEL_TOKEN']) || null,
    tokenInArguments: Boolean(values.token),
    adminToken: env['BACKCHANNEL_ADMIN_TOKEN'] || null,
    tls: tlsFrom(values['tls-cert'], values['tls-key'], cwd),
    rate: values.rate === 'off' ? null : { perMinute: countFrom(values.rate, DEFAULT_RATE) },
    quota: { waiting: values.quota === 'off' ? Infinity : countFrom(values.quota, DEFAULT_QUOTA) },
    mostAgents: values.agents === 'off' ? Infinity : countFrom(values.agents, DEFAULT_AGENTS),
    keepWaitingMs: waitFrom(values['keep-waiting'] ?? DEFAULT_WAIT),
  };
  refuseOpenToStrangers(order);
  return order;
}

/** True if only programs of this machine can reach this address. */
export function isLoopbackHost(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host);
}

/** Warnings about settings that are allowed but risky. */
export function warningsAbout({ host, token, tokenInArguments, tls, publicUrl, adminToken }: RelayOrder): string[] {
  const reachable = !isLoopbackHost(host);
  const others = reachable || publicUrl !== null;
  return [
    ...(tokenInArguments ? [tokenWarning('BACKCHANNEL_TOKEN')] : []),
    ...(reachable && !tls
      ? [`${host} without TLS: tokens and mail cross the network in clear; give --tls-cert and --tls-key`]
      : []),
    ...(publicUrl?.startsWith('http:')
      ? [`${publicUrl} is not https: tokens and mail cross the network in clear`]
      : []),
    ...(others && token !== null && token.length < SHORT_TOKEN
      ? [`the room token has only ${token.length} characters; \`openssl rand -hex 16\` makes a good one`]
      : []),
    ...(others && !adminToken
      ? ['anyone who reaches the relay may make rooms; set BACKCHANNEL_ADMIN_TOKEN to keep that to yourself']
      : []),
  ];
}

function refuseOpenToStrangers({ host, publicUrl, token }: RelayOrder): void {
  const where = publicUrl ?? (isLoopbackHost(host) ? null : host);
  if (where === null || token !== null) return;
  throw new Refusal(
    'invalid_request',
    `a relay on ${where} without a room token would let anybody in; set BACKCHANNEL_TOKEN (\`openssl rand -hex 16\` makes one) or give --token-file${publicUrl ? '' : ', or stay on 127.0.0.1'}`,
  );
}

function portFrom(text: string | undefined): number {
  if (text === undefined) return DEFAULT_PORT;
  if (/^\d{1,5}$/.test(text) && Number(text) < 65_536) return Number(text);
  throw new Refusal('invalid_request', `"${text}" is not a port; write a number from 0 to 65535`);
}

function publicUrlFrom(text: string): string {
  const url = URL.parse(text);
  if (url && /^https?:$/.test(url.protocol)) return url.href.replace(/\/+$/, '');
  throw new Refusal('invalid_request', `--public "${text}" is not a web address; write https://relay.example.org`);
}

function tlsFrom(cert: string | undefined, key: string | undefined, cwd: string): RelayOrder['tls'] {
  if (cert === undefined && key === undefined) return null;
  if (cert === undefined || key === undefined)
    throw new Refusal('invalid_request', 'TLS needs both: give --tls-cert and --tls-key');
  return { cert: resolve(cwd, cert), key: resolve(cwd, key) };
}

function waitFrom(text: string): number | null {
  if (/^(\d{1,6}[dhm]|forever)$/.test(text)) return spanMs(text);
  throw new Refusal('invalid_request', `--keep-waiting "${text}" is not a time span; write 30d, 12h, 5m or forever`);
}

/** How long a relay may take to answer a health check. */
const PATIENCE_MS = 3000;

export const relay: Service = {
  async open(context, values, log) {
    const { bodyLimit, durability } = context.settings;
    const home = { root: backchannelHome(context.env), bodyLimit, durability };
    return openRelayService(relayOrder(values, context.env, context.cwd, home), log);
  },

  async answers(address) {
    // A relay on all addresses also listens on loopback.
    const url = address.replace('//0.0.0.0', '//127.0.0.1').replace('//[::]', '//[::1]');
    try {
      const answer = await fetch(new URL('v1/health', url), {
        signal: AbortSignal.timeout(PATIENCE_MS),
        // Only a health check: nothing secret is sent, and the certificate is for the public name.
        tls: { rejectUnauthorized: false },
      });
      return answer.ok;
    } catch {
      return false;
    }
  },
};

/** The limit on open files that the relay asks for: every connection and every room is an open file. */
const OPEN_FILES = 65_536;
/** The most idle rooms that stay open. If few open files are allowed, half of them are kept for connections. */
const MOST_ROOMS = 200;
const FILES_PER_ROOM = 8;
/** With fewer open files than this, a busy relay runs out of them. */
const FEW_FILES = 4096;

/**
 * Opens the relay of a Backchannel home. Only one may run: each keeps agents and arrivals in memory, and would not see changes of the
 * other. A failure leaves nothing behind.
 */
async function openRelayService(order: RelayOrder, log: Log): Promise<OpenService> {
  const certificate = order.tls && readCertificate(order.tls);
  const lock = await takeDaemonLock(`${order.root}/relay`);
  if (!lock) throw alreadyRunning(order.root);
  try {
    const openFiles = raiseFileLimit(OPEN_FILES);
    // Loaded here: only a relay needs it.
    const { startExportWorker } = await import('../../store/maildir/exporter.ts');
    await startExportWorker();
    const rooms = await openRelayRooms({
      root: order.root,
      durability: order.durability,
      defaultTokenHash: order.token && hashOf(order.token),
      afterDeath: lock.afterDeath,
      onTrouble: (room, error) => log('trouble', { room, error: withoutBody(error) }),
    });
    const server = serve(order, rooms, { certificate, openFiles }, log);
    const follower = order.tls && follow(order.tls, server, log);
    const service: OpenService = {
      name: 'relay',
      address: server.url,
      about: about(order, rooms.rooms.root(DEFAULT_ROOM), certificate, openFiles),
      warnings: [...warningsAbout(order), ...rooms.troubles, ...(openFiles < FEW_FILES ? [fewFiles(openFiles)] : [])],
      renew: () => follower?.look(),
      async close(telling) {
        follower?.close();
        const tell = (what: string): void => {
          lock.finishing(what);
          telling(what);
        };
        tell('open requests');
        await server.stop();
        tell('mail that is accepted and has no file yet');
        await rooms.close();
        lock.release();
      },
    };
    lock.announce([{ name: service.name, address: service.address }]);
    log('relay_open', { url: service.address, home: order.root, openFiles });
    return service;
  } catch (error) {
    lock.release();
    throw error;
  }
}

/** The text of an error for the log. A JSON parser's error may quote a piece of a body, so it is replaced. */
function withoutBody(error: unknown): string {
  if (error instanceof SyntaxError) return 'a text that should be JSON is not JSON';
  return error instanceof Error ? error.message : String(error);
}

type Server = ReturnType<typeof serveRelay>;

/** The limits that the machine sets. */
interface Means {
  certificate: Certificate | null;
  openFiles: number;
}

function serve(order: RelayOrder, rooms: RelayRooms, means: Means, log: Log): Server {
  const { certificate: tls, openFiles } = means;
  const { host, port, adminToken, rate, quota, mostAgents, keepWaitingMs, bodyLimit } = order;
  // Behind a proxy the relay accepts every host name. Otherwise only loopback names: a web page must not reach it by another.
  const isAlone = isLoopbackHost(host) && order.publicUrl === null;
  let server: Server | undefined;
  try {
    server = serveRelay(
      {
        rooms: rooms.rooms,
        home: (id) => rooms.home(id),
        closeHome: (id) => rooms.closeHome(id),
        settings: {
          bodyLimit,
          adminTokenHash: adminToken && hashOf(adminToken),
          rate,
          quota,
          mostAgents,
          mostRooms: Math.min(MOST_ROOMS, Math.ceil(openFiles / FILES_PER_ROOM / 2)),
          keepWaitingMs,
          loopback: isAlone ? { port: () => server?.port ?? port } : null,
          proxied: order.publicUrl !== null,
        },
        version: VERSION,
        log,
        now: Date.now,
      },
      { hostname: host, port, ...(tls && { tls }) },
    );
    return server;
  } catch (error) {
    throw explainedBind(error, host, port);
  }
}

function follow(files: { cert: string; key: string }, server: Server, log: Log): ReturnType<typeof followCertificate> {
  return followCertificate(
    files,
    (certificate) => {
      server.renew(certificate);
      log('certificate_renewed', { until: validUntil(certificate).toISOString() });
    },
    (why) => log('certificate_refused', { why, kept: 'the one before' }),
  );
}

function about(order: RelayOrder, room: string, certificate: Certificate | null, openFiles: number): string[] {
  const { root, token, publicUrl, keepWaitingMs } = order;
  return [
    `home ${root}; default room ${room === root ? 'in the home itself' : `in ${room}`}`,
    token ? 'new agents need the room token' : 'no room token: any program on this machine may register',
    ...(publicUrl ? [`offered by a proxy as ${publicUrl}`] : []),
    ...(certificate ? [`TLS until ${validUntil(certificate).toISOString().slice(0, 10)}`] : []),
    ...(keepWaitingMs === null ? ['mail waits for ever'] : []),
    `up to ${openFiles} open files`,
  ];
}

function fewFiles(openFiles: number): string {
  return `the system allows only ${openFiles} open files, so about ${Math.max(0, openFiles - 100)} connections; raise it with \`ulimit -n\` or LimitNOFILE=`;
}

/** The error that names the relay that runs already. */
function alreadyRunning(root: string): Refusal {
  const notice = daemonNotice(`${root}/relay`);
  const [service] = notice?.doors ?? [];
  return new Refusal(
    'already_claimed',
    notice && service
      ? `a relay of ${root} runs already: ${service.address} (pid ${notice.pid}, since ${notice.since}); use it, or stop it first`
      : `a relay of ${root} is just starting or ending; try again in a moment`,
  );
}

function explainedBind(error: unknown, host: string, port: number): unknown {
  switch (codeOf(error)) {
    case 'EADDRINUSE':
      return new Refusal(
        'already_claimed',
        `port ${port} on ${host} is in use by another program; choose another --port`,
      );
    case 'EACCES':
      return new Refusal('invalid_request', `you may not open port ${port}; choose one above 1023`);
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return new Refusal('invalid_request', `${host} is not an address of this machine; choose another --host`);
    default:
      return error;
  }
}

export const commands = {
  relay: relayCommand,
};
