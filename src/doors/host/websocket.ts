import type { ServerWebSocket } from 'bun';
import { hashOf, sameHash } from '../../protocol/tokens.ts';
import { isOurOrigin } from '../relay/guards.ts';
import { FRAME_LIMIT } from './frames.ts';
import type { Hall } from './hall.ts';
import { OUTGOING_LIMIT } from './outgoing.ts';
import type { Peer } from './peer.ts';
import type { Listening } from './socket.ts';

/** What a peer asks for beside its token, if it can only speak in subprotocols. */
const PROTOCOL = 'c2a';
/** "Try again later", of WebSocket's own numbers. */
const TRY_LATER = 1013;

interface Guest {
  peer?: Peer;
}

/** Peers of this machine that know the token. No web page does, and none is let in. spec: host#websocket */
export function serveWebSocket(hall: Hall, { port, tokenHash }: { port: number; tokenHash: string }): Listening {
  const server = Bun.serve<Guest>({
    hostname: '127.0.0.1',
    port,
    reusePort: false,
    development: false,
    fetch(request, self) {
      const refused = refusal(request, self.port ?? port, tokenHash);
      if (refused) {
        hall.deps.log('host_refused', { status: refused.status });
        return refused;
      }
      const offered = protocolsOf(request).includes(PROTOCOL);
      const headers = offered ? { 'sec-websocket-protocol': PROTOCOL } : undefined;
      if (self.upgrade(request, { data: {}, ...(headers && { headers }) })) return;
      return said(426, 'this door speaks WebSocket', { upgrade: 'websocket' });
    },
    websocket: {
      maxPayloadLength: FRAME_LIMIT,
      // A little more than we let come together ourselves.
      backpressureLimit: 2 * OUTGOING_LIMIT,
      closeOnBackpressureLimit: true,
      perMessageDeflate: false,
      sendPings: true,
      idleTimeout: 120,
      open(socket) {
        const peer = hall.enter({
          write: (frame) => socket.getBufferedAmount() <= OUTGOING_LIMIT && socket.send(frame) !== 0,
          close: (why) => socket.close(TRY_LATER, why),
          cut: () => socket.terminate(),
        });
        if (!peer) return socket.close(TRY_LATER, 'no room for another peer');
        socket.data.peer = peer;
      },
      message(socket, frame) {
        socket.data.peer?.receive(frame);
      },
      close({ data: { peer } }: ServerWebSocket<Guest>) {
        if (peer) void hall.leave(peer);
      },
    },
  });
  return { address: `ws://127.0.0.1:${server.port}/`, close: () => void server.stop(true) };
}

/** Host first: under another name a page's own server could send its reader here. spec: host#websocket */
function refusal(request: Request, port: number, tokenHash: string): Response | null {
  const { headers } = request;
  if (!isOurOrigin(`http://${headers.get('host') ?? ''}`, port))
    return said(403, 'call this host 127.0.0.1 or localhost');
  const origin = headers.get('origin');
  // `null` is the origin of a page that hides its own.
  if (origin !== null && !isOurOrigin(origin, port)) return said(403, 'this host answers no web page');
  if (!tokensOf(request).some((token) => sameHash(hashOf(token), tokenHash)))
    return said(401, 'show the token of this host: its file is named when the host starts, as `parley host` says');
  return null;
}

function tokensOf(request: Request): string[] {
  const [, bearer] = /^bearer +(\S+)$/i.exec(request.headers.get('authorization') ?? '') ?? [];
  if (bearer !== undefined) return [bearer];
  const offered = protocolsOf(request);
  // With nothing else to choose from, the server would choose the token, and say it back.
  if (!offered.includes(PROTOCOL)) return [];
  return offered.flatMap((one) => (one.startsWith('bearer.') ? [one.slice(7)] : []));
}

function protocolsOf(request: Request): string[] {
  return (request.headers.get('sec-websocket-protocol') ?? '').split(',').map((one) => one.trim());
}

function said(status: number, error: string, headers?: Record<string, string>): Response {
  return Response.json({ error }, { status, ...(headers && { headers }) });
}
