import { lstatSync, mkdirSync, rmSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { Refusal } from '../core/refusal.ts';
import { WriteQueue } from './connection.ts';
import type { Accept, Listening, Receiver } from './connection.ts';
import { LineReader } from './lines.ts';

/** The longest path that fits into a socket address. */
const PATH_LIMIT = 103;

export interface SocketOptions {
  path: string;
  /** The name of the server in texts and the log: `host`. */
  name: string;
  /** What the user can do instead if the folder is not safe. */
  otherwise: string;
  /** The path is fixed by a document: then the folder need only belong to the user. */
  isGiven?: boolean;
  /** Our user id; a connection of any other user is closed. */
  user: number;
  /** The user at the other end, by the kernel; null if unknown: then only the modes of file and folder protect the socket. */
  userOf: (fd: number) => number | null;
  /** The most bytes of one line. */
  lineLimit: number;
  /** A caller that has closed its side still gets its answers, also to a last line without LF. If false, closing ends the connection. */
  halfOpen?: boolean;
  log: (event: string, facts: Record<string, string | number>) => void;
}

interface Caller {
  receiver: Receiver;
  lines: LineReader;
  queue: WriteQueue;
}

/**
 * Serves callers of the same user on a socket file that no other user may open. Replaces the file of a dead process, never that of a
 * running one. spec: host#socket
 */
export async function serveUnixSocket(accept: Accept, options: SocketOptions): Promise<Listening> {
  const { path, name, log, halfOpen = false } = options;
  prepareFolder(options);
  await removeStale(options);
  // Create the file with mode 0600.
  const before = process.umask(0o177);
  try {
    const listener = Bun.listen<Caller | undefined>({
      unix: path,
      allowHalfOpen: halfOpen,
      socket: {
        open(socket) {
          const { fd } = socket as unknown as { fd: number };
          const user = options.userOf(fd);
          if (user !== null && user !== options.user) {
            log(`${name}_stranger`, { user });
            return socket.terminate();
          }
          const queue = new WriteQueue((bytes) => socket.write(bytes));
          const receiver = accept({
            write: (frame) => queue.push(frame),
            close: () => queue.whenEmpty(() => socket.end()),
            cut: () => socket.terminate(),
            waiting: () => queue.size,
          });
          if (!receiver) return socket.terminate();
          socket.data = { receiver, lines: new LineReader(options.lineLimit, receiver), queue };
        },
        data: ({ data: caller }, chunk) => caller?.lines.push(chunk),
        drain: ({ data: caller }) => caller?.queue.drain(),
        end(socket) {
          const { data: caller } = socket;
          if (!caller || !halfOpen) return;
          caller.lines.end();
          void caller.receiver.idle().then(() => caller.queue.whenEmpty(() => socket.end()));
        },
        close: ({ data: caller }) => void caller?.receiver.ended(),
        error: (_socket, error) => log(`${name}_socket_error`, { error: error.message }),
      },
    });
    return { address: path, close: () => listener.stop(true) };
  } finally {
    process.umask(before);
  }
}

/** Refuses a folder that other users can write to: they could put their own socket there. */
export function prepareFolder({
  path,
  user,
  otherwise,
  isGiven = false,
}: Pick<SocketOptions, 'path' | 'user' | 'otherwise' | 'isGiven'>): void {
  if (Buffer.byteLength(path) > PATH_LIMIT)
    throw new Refusal('invalid_request', `${path} is too long for a socket; choose one of at most ${PATH_LIMIT} bytes`);
  const folder = dirname(path);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const { uid, mode } = statSync(folder);
  if (uid === user && (isGiven || (mode & 0o022) === 0)) return;
  throw new Refusal(
    'bad_config',
    `other users can write to ${folder}; put the socket into a folder of your own (chmod 700), or ${otherwise}`,
  );
}

async function removeStale({ path, name }: SocketOptions): Promise<void> {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (!found) return;
  if (!found.isSocket()) throw new Refusal('already_claimed', `${path} exists and is not a socket; move it away`);
  if (await isAnswered(path))
    throw new Refusal('already_claimed', `a ${name} listens on ${path} already; use it, or stop it first`);
  rmSync(path, { force: true });
}

async function isAnswered(path: string): Promise<boolean> {
  try {
    const socket = await Bun.connect({ unix: path, socket: { data() {} } });
    socket.end();
    return true;
  } catch {
    return false;
  }
}

/** How long a server may take to answer. */
const ANSWER_MS = 3000;

/** Does a server at this socket answer a request? A connection is not enough: the system accepts it for a process that hangs. */
export async function answersAt(path: string, request: string): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const timer = setTimeout(() => resolve(false), ANSWER_MS);
  try {
    const socket = await Bun.connect({
      unix: path,
      socket: { open: (one) => void one.write(request), data: () => resolve(true), close: () => resolve(false) },
    });
    const answers = await promise;
    socket.terminate();
    return answers;
  } catch {
    return false;
  } finally {
    clearTimeout(timer);
  }
}
