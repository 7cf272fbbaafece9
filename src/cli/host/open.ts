import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import type { ServiceContext, OpenService, Log } from '../../core/service.ts';
import { makePlace, serveSocket } from '../../doors/host/socket.ts';
import type { Listening } from '../../doors/host/socket.ts';
import { serveWebSocket } from '../../doors/host/websocket.ts';
import { takeDaemonLock, daemonNotice } from '../../platform/daemon-lock.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { hashOf } from '../../protocol/tokens.ts';
import { codeOf, explained } from '../../storage/disk.ts';
import { startEngine } from './engine.ts';
import type { HostOrder } from './order.ts';
import { userOf } from './peer-user.ts';
import { hostToken } from './token.ts';

/** Opens the host where it was ordered. Whatever fails leaves nothing behind. */
export async function openHostService(context: ServiceContext, order: HostOrder, log: Log): Promise<OpenService> {
  try {
    return await opened(context, order, log);
  } catch (error) {
    throw explained(error, dirname(order.socket), 'nothing was started');
  }
}

async function opened(context: ServiceContext, order: HostOrder, log: Log): Promise<OpenService> {
  const place = { path: order.socket, user: process.getuid?.() ?? -1, userOf };
  makePlace(place);
  const lock = await takeDaemonLock(order.socket);
  if (!lock) throw alreadyRunning(order.socket);
  const running = await startEngine(context, log).catch((error: unknown) => {
    lock.release();
    throw error;
  });
  const open: Listening[] = [];
  const leave = async (): Promise<void> => {
    for (const one of open) one.close();
    await running.close();
    lock.release();
  };
  try {
    open.push(await serveSocket(running.hall, place));
    if (order.ws !== null) open.push(openWebSocket(running.hall, order.ws, order.tokenFile));
    // Who looks for it asks at the socket.
    lock.announce([{ name: 'host', address: order.socket }]);
  } catch (error) {
    await leave();
    throw error;
  }
  log('host_open', { at: open.map(({ address }) => address).join(' ') });
  return {
    name: 'host',
    address: order.socket,
    about: open.slice(1).map(({ address }) => `also on ${address}, with the token in ${order.tokenFile}`),
    warnings: [],
    renew() {},
    async close(telling) {
      telling('requests in hand');
      await leave();
    },
  };
}

function openWebSocket(hall: Parameters<typeof serveWebSocket>[0], port: number, tokenFile: string): Listening {
  mkdirSync(dirname(tokenFile), { recursive: true, mode: 0o700 });
  const tokenHash = hashOf(hostToken(tokenFile));
  try {
    return serveWebSocket(hall, { port, tokenHash });
  } catch (error) {
    if (codeOf(error) === 'EADDRINUSE')
      throw new Refusal('already_claimed', `port ${port} is in use by another program; choose another one`);
    if (codeOf(error) === 'EACCES')
      throw new Refusal('invalid_request', `port ${port} needs more rights than you have; choose one above 1023`);
    throw error;
  }
}

/** Says who it is, so that one can go there. */
function alreadyRunning(path: string): Refusal {
  const notice = daemonNotice(path);
  return new Refusal(
    'already_claimed',
    notice
      ? `a host listens on ${path} already (pid ${notice.pid}, since ${notice.since}); use it, or stop it first`
      : `a host on ${path} is just starting or ending; try again in a moment`,
  );
}
