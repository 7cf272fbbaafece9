import { hashOf } from '../../protocol/tokens.ts';
import { serveRelay } from '../../doors/relay/serve.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { codeOf } from '../../storage/disk.ts';
import { raiseFileLimit } from '../../storage/libc.ts';
import { DEFAULT_ROOM } from '../../storage/rooms/rooms.ts';
import type { OpenDoor } from '../doors.ts';
import { goOnDuty, whoIsOnDuty } from '../duty.ts';
import { VERSION } from '../program.ts';
import type { Log } from '../serving-log.ts';
import { openRelayHouse } from '../wiring.ts';
import type { RelayHouse } from '../wiring.ts';
import { followCertificate, readCertificate, validUntil } from './certificate.ts';
import type { Certificate } from './certificate.ts';
import { isLoopback, warningsAbout } from './order.ts';
import type { RelayOrder } from './order.ts';

/** Every connection is an open file, and so is every room. */
const OPEN_FILES = 65_536;
/** Rooms that stay open although nobody is at work there. Half of the files are for connections, where there are few. */
const MOST_ROOMS = 200;
const FILES_PER_ROOM = 8;
/** Below this a busy relay runs out of them. */
const FEW_FILES = 4096;

/**
 * Opens the relay of a Backchannel home. Only one can be: two would each keep agents and arrivals in mind that the other has
 * changed. Whatever fails leaves nothing behind.
 */
export async function openRelayDoor(order: RelayOrder, log: Log): Promise<OpenDoor> {
  const certificate = order.tls && readCertificate(order.tls);
  const duty = await goOnDuty(`${order.root}/relay`);
  if (!duty) throw alreadyRunning(order.root);
  try {
    const openFiles = raiseFileLimit(OPEN_FILES);
    const house = await openRelayHouse(
      order.root,
      order.durability,
      order.token && hashOf(order.token),
      duty.afterDeath,
      (room, error) => log('trouble', { room, error: withoutBody(error) }),
    );
    const server = serve(order, house, { certificate, openFiles }, log);
    const follower = order.tls && follow(order.tls, server, log);
    const door: OpenDoor = {
      name: 'relay',
      address: server.url,
      about: about(order, house.rooms.root(DEFAULT_ROOM), certificate, openFiles),
      warnings: [...warningsAbout(order), ...house.troubles, ...(openFiles < FEW_FILES ? [fewFiles(openFiles)] : [])],
      renew: () => follower?.look(),
      async close(telling) {
        follower?.close();
        const tell = (what: string): void => {
          duty.finishing(what);
          telling(what);
        };
        tell('requests in hand');
        await server.stop();
        tell('mail that is accepted and has no file yet');
        await house.close();
        duty.leave();
      },
    };
    duty.announce([{ name: door.name, address: door.address }]);
    log('relay_open', { url: door.address, home: order.root, openFiles });
    return door;
  } catch (error) {
    duty.leave();
    throw error;
  }
}

/** What a parser says of a text that is none can have a piece of that text in it, and a log has no bodies. */
function withoutBody(error: unknown): string {
  if (error instanceof SyntaxError) return 'a text that should be JSON is none';
  return error instanceof Error ? error.message : String(error);
}

type Server = ReturnType<typeof serveRelay>;

/** What the machine gives us. */
interface Means {
  certificate: Certificate | null;
  openFiles: number;
}

function serve(order: RelayOrder, house: RelayHouse, means: Means, log: Log): Server {
  const { certificate: tls, openFiles } = means;
  const { host, port, adminToken, rate, quota, mostAgents, keepWaitingMs, bodyLimit } = order;
  // Behind a proxy every name of its own is right; without one, only ours: a web page must not reach us by another.
  const isAlone = isLoopback(host) && order.publicUrl === null;
  let server: Server | undefined;
  try {
    server = serveRelay(
      {
        rooms: house.rooms,
        home: (id) => house.home(id),
        closeHome: (id) => house.closeHome(id),
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
    token ? 'new agents need the room token' : 'no room token: any program of this machine may register',
    ...(publicUrl ? [`offered by a proxy as ${publicUrl}`] : []),
    ...(certificate ? [`TLS until ${validUntil(certificate).toISOString().slice(0, 10)}`] : []),
    ...(keepWaitingMs === null ? ['mail waits for ever'] : []),
    `up to ${openFiles} open files`,
  ];
}

function fewFiles(openFiles: number): string {
  return `the system allows only ${openFiles} open files, so about ${Math.max(0, openFiles - 100)} connections; raise it with \`ulimit -n\` or LimitNOFILE=`;
}

/** Says who it is, so that one can go there. */
function alreadyRunning(root: string): Refusal {
  const notice = whoIsOnDuty(`${root}/relay`);
  const [door] = notice?.doors ?? [];
  return new Refusal(
    'already_claimed',
    notice && door
      ? `a relay of ${root} runs already: ${door.address} (pid ${notice.pid}, since ${notice.since}); use it, or stop it first`
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
      return new Refusal('invalid_request', `port ${port} needs more rights than you have; choose one above 1023`);
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return new Refusal('invalid_request', `${host} is no address of this machine; choose another --host`);
    default:
      return error;
  }
}
