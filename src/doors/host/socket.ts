import { lstatSync, mkdirSync, rmSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { Refusal } from '../../protocol/refusal.ts';
import { FRAME_LIMIT } from './frames.ts';
import type { Hall } from './hall.ts';
import { Lines } from './lines.ts';
import { Outgoing } from './outgoing.ts';
import type { Peer } from './peer.ts';

/** A path that is longer does not fit into the system's address of a socket. */
const PATH_LIMIT = 103;

export interface SocketPlace {
  path: string;
  /** Who we are; a connection of anybody else is closed. */
  user: number;
  /** Who is at the other end, as the kernel says; null where it cannot say. Then the rights of file and folder decide alone. */
  userOf(fd: number): number | null;
}

/** A way for peers to come in, and its end. */
export interface Listening {
  address: string;
  close(): void;
}

interface Guest {
  peer: Peer;
  lines: Lines;
  outgoing: Outgoing;
}

/**
 * Peers of the same user, each on a connection to a socket file that nobody else may open. A file that a dead process left is
 * replaced; a living one is never. spec: host#socket
 */
export async function serveSocket(hall: Hall, place: SocketPlace): Promise<Listening> {
  const { path } = place;
  makePlace(place);
  await clearAway(path);
  // From its first moment on it is ours alone.
  const before = process.umask(0o177);
  try {
    const listener = Bun.listen<Guest | undefined>({
      unix: path,
      socket: {
        open(socket) {
          const { fd } = socket as unknown as { fd: number };
          const user = place.userOf(fd);
          if (user !== null && user !== place.user) {
            hall.deps.log('host_stranger', { user });
            return socket.terminate();
          }
          const outgoing = new Outgoing((bytes) => socket.write(bytes));
          const peer = hall.enter({
            write: (frame) => outgoing.push(frame),
            close: () => outgoing.whenEmpty(() => socket.end()),
            cut: () => socket.terminate(),
          });
          if (!peer) return socket.terminate();
          socket.data = { peer, lines: new Lines(FRAME_LIMIT), outgoing };
        },
        data({ data: guest }, chunk) {
          if (!guest) return;
          for (const line of guest.lines.push(chunk)) {
            if ('bytes' in line) guest.peer.receive(line.bytes);
            else guest.peer.tooLong();
          }
        },
        drain: ({ data: guest }) => guest?.outgoing.drain(),
        close: ({ data: guest }) => void (guest && hall.leave(guest.peer)),
        error: (_socket, error) => hall.deps.log('host_socket_error', { error: error.message }),
      },
    });
    return { address: path, close: () => listener.stop(true) };
  } finally {
    process.umask(before);
  }
}

/** True if somebody listens there. */
export async function isAnswered(path: string): Promise<boolean> {
  try {
    const socket = await Bun.connect({ unix: path, socket: { data() {} } });
    socket.end();
    return true;
  } catch {
    return false;
  }
}

/** A folder into which others may write is no place: they could put their own socket there. */
export function makePlace({ path, user }: Pick<SocketPlace, 'path' | 'user'>): void {
  if (Buffer.byteLength(path) > PATH_LIMIT)
    throw new Refusal('invalid_request', `${path} is too long for a socket; choose one of at most ${PATH_LIMIT} bytes`);
  const folder = dirname(path);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const { uid, mode } = statSync(folder);
  if (uid === user && (mode & 0o022) === 0) return;
  throw new Refusal(
    'bad_config',
    `others may write into ${folder}; put the socket into a folder of your own (chmod 700), or leave --socket out`,
  );
}

async function clearAway(path: string): Promise<void> {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (!found) return;
  if (!found.isSocket()) throw new Refusal('already_claimed', `${path} is there and is no socket; move it away`);
  if (await isAnswered(path))
    throw new Refusal('already_claimed', `a host listens on ${path} already; use it, or stop it first`);
  rmSync(path, { force: true });
}
