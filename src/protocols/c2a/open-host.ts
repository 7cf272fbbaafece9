import { takeDaemonLock, daemonNotice } from '../../platform/daemon-lock.ts';
import type { OpenService, ServiceContext, Log } from '../../core/service.ts';
import { VERSION } from '../../platform/program.ts';
import { linkSync, mkdirSync, readFileSync, rmSync, statSync, write, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { PROMPTS } from './prompt.ts';
import { HostServer } from './server.ts';
import { Host } from './host.ts';
import { Refusal } from '../../core/refusal.ts';
import { hashOf, newAgentToken } from '../../wire/tokens.ts';
import { codeOf, explained } from '../../core/disk.ts';
import { serveStdio } from '../../wire/connection.ts';
import type { Listening } from '../../wire/connection.ts';
import { FRAME_LIMIT } from '../../wire/jsonrpc.ts';
import { prepareFolder, serveUnixSocket } from '../../wire/unix-socket.ts';
import type { SocketOptions } from '../../wire/unix-socket.ts';
import { serveWebSocket } from '../../wire/websocket.ts';
import type { HostAddresses } from './options.ts';
import { userOf } from '../../platform/peer-user.ts';

/** The longest delay of a timer. For a longer one the engine sets the timer again. */
const LONGEST_MS = 2 ** 31 - 1;
const STDOUT = 1;
/** Pause before writing to a full pipe again. */
const PAUSE_MS = 2;

/** Opens the host at its addresses. A failure leaves nothing behind. */
export async function openHostService(
  context: ServiceContext,
  addresses: HostAddresses,
  log: Log,
): Promise<OpenService> {
  try {
    return await opened(context, addresses, log);
  } catch (error) {
    throw explained(error, dirname(addresses.socket), 'nothing was started');
  }
}

async function opened(
  context: ServiceContext,
  { socket, ws, tokenFile }: HostAddresses,
  log: Log,
): Promise<OpenService> {
  const options: SocketOptions = {
    path: socket,
    name: 'host',
    otherwise: 'leave --socket out',
    user: process.getuid?.() ?? -1,
    userOf,
    lineLimit: FRAME_LIMIT,
    log,
  };
  prepareFolder(options);
  const lock = await takeDaemonLock(socket);
  if (!lock) throw alreadyRunning(socket);
  const running = await startHost(context, log).catch((error: unknown) => {
    lock.release();
    throw error;
  });
  const open: Listening[] = [];
  const close = async (): Promise<void> => {
    for (const one of open) one.close();
    await running.close();
    lock.release();
  };
  try {
    open.push(await serveUnixSocket(running.server.accept, options));
    if (ws !== null) open.push(openWebSocket(running.server, ws, tokenFile, log));
    // `parley status` asks the host over this socket.
    lock.announce([{ name: 'host', address: socket }]);
  } catch (error) {
    await close();
    throw error;
  }
  log('host_open', { at: open.map(({ address }) => address).join(' ') });
  return {
    name: 'host',
    address: socket,
    about: open.slice(1).map(({ address }) => `also on ${address}, with the token in ${tokenFile}`),
    warnings: [],
    renew() {},
    async close(telling) {
      telling('open requests');
      await close();
    },
  };
}

/** Serves the process that started us until it closes its end or a signal arrives. Requests that began are finished. */
export async function hostOnStdio(context: ServiceContext, log: Log): Promise<void> {
  const { promise: asked, resolve } = Promise.withResolvers<void>();
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => resolve());
  const running = await startHost(context, log);
  await Promise.race([serveStdio(running.server.accept, Bun.stdin.stream(), toStdout), asked]);
  await running.close();
}

/** Starts the engine on the user's home, and the server for its connections. */
async function startHost(context: ServiceContext, log: Log): Promise<{ server: HostServer; close(): Promise<void> }> {
  const { composeMs } = context.settings;
  // The host serves every mailbox of the home, so it opens the workspace for no agent.
  const workspace = context.openWorkspace();
  const [home] = workspace.homes;
  if (!home) throw new Error('a workspace has a home');
  const engine = new Host({
    workspace,
    home,
    now: Date.now,
    after(ms, run) {
      const timer = setTimeout(run, Math.min(ms, LONGEST_MS));
      return { cancel: () => clearTimeout(timer) };
    },
    newToken: newAgentToken,
    hash: hashOf,
    log,
    render: PROMPTS,
    composeMs,
  });
  await engine.start();
  const server = new HostServer({ engine, version: VERSION, now: Date.now, log });
  return {
    server,
    async close() {
      await server.close();
      await engine.close();
      for (const { directory } of workspace.homes) await directory.close();
    },
  };
}

function openWebSocket({ accept }: HostServer, port: number, tokenFile: string, log: Log): Listening {
  mkdirSync(dirname(tokenFile), { recursive: true, mode: 0o700 });
  const tokenHash = hashOf(hostToken(tokenFile));
  try {
    return serveWebSocket(accept, { port, tokenHash, protocol: 'c2a', name: 'host', log });
  } catch (error) {
    if (codeOf(error) === 'EADDRINUSE')
      throw new Refusal('already_claimed', `port ${port} is in use by another program; choose another one`);
    if (codeOf(error) === 'EACCES')
      throw new Refusal('invalid_request', `you may not open port ${port}; choose one above 1023`);
    throw error;
  }
}

/** Reads the token for WebSockets; the first start makes it. Refuses a file that other users can read: they may know the token. */
export function hostToken(path: string): string {
  try {
    makeToken(path);
    if ((statSync(path).mode & 0o077) !== 0)
      throw new Refusal('bad_config', `other users can read ${path}; remove it, and the next start makes a new one`);
    const token = readFileSync(path, 'utf8').trim();
    if (token.length >= 32) return token;
    throw new Refusal('bad_config', `${path} holds no token; remove it, and the next start makes one`);
  } catch (error) {
    throw explained(error, path, 'nothing was started');
  }
}

/** Makes the token file. If several hosts start at once, one makes it complete, and the others use it. */
function makeToken(path: string): void {
  if (statSync(path, { throwIfNoEntry: false })) return;
  const draft = `${path}.${process.pid}`;
  writeFileSync(draft, `${newAgentToken()}\n`, { mode: 0o600 });
  try {
    linkSync(draft, path);
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
  } finally {
    rmSync(draft, { force: true });
  }
}

/** Names the process that holds the socket. */
function alreadyRunning(path: string): Refusal {
  const notice = daemonNotice(path);
  return new Refusal(
    'already_claimed',
    notice
      ? `a host listens on ${path} already (pid ${notice.pid}, since ${notice.since}); use it, or stop it first`
      : `a host on ${path} is just starting or ending; try again in a moment`,
  );
}

/** Writes to file descriptor 1, because `process.stdout` does not say how much waits for a parent that does not read. */
async function toStdout(bytes: Uint8Array): Promise<void> {
  for (let rest = bytes; rest.length > 0;) {
    try {
      rest = rest.subarray(await writeSome(rest));
    } catch (error) {
      if (codeOf(error) !== 'EAGAIN') throw error;
      await Bun.sleep(PAUSE_MS);
    }
  }
}

function writeSome(bytes: Uint8Array): Promise<number> {
  return new Promise((resolve, reject) => {
    write(STDOUT, bytes, (error, written) => (error ? reject(error) : resolve(written)));
  });
}
