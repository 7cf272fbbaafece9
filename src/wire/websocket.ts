import type { ServerWebSocket } from 'bun';
import { OUTGOING_LIMIT } from './connection.ts';
import type { Accept, Listening, Receiver } from './connection.ts';
import { FRAME_LIMIT } from './jsonrpc.ts';
import { isOurOrigin } from './origin.ts';
import { isToken } from './tokens.ts';

/** WebSocket's close code for "try again later". */
const TRY_LATER = 1013;

export interface WebSocketOptions {
  port: number;
  tokenHash: string;
  /** The subprotocol that a caller names beside its token, if it can only send subprotocols. */
  protocol: string;
  /** What listens there, as texts and the log name it: `host`. */
  name: string;
  log: (event: string, facts: Record<string, string | number>) => void;
}

interface Caller {
  receiver?: Receiver;
}

/** Serves callers on this machine that have the token. Refuses every web page. spec: host#websocket */
export function serveWebSocket(accept: Accept, options: WebSocketOptions): Listening {
  const { port, protocol, name, log } = options;
  const server = Bun.serve<Caller>({
    hostname: '127.0.0.1',
    port,
    reusePort: false,
    development: false,
    fetch(request, self) {
      const refused = refusal(request, self.port ?? port, options);
      if (refused) {
        log(`${name}_refused`, { status: refused.status });
        return refused;
      }
      const headers = protocolsOf(request).includes(protocol) ? { 'sec-websocket-protocol': protocol } : undefined;
      if (self.upgrade(request, { data: {}, ...(headers && { headers }) })) return;
      return errorResponse(426, 'this port speaks WebSocket', { upgrade: 'websocket' });
    },
    websocket: {
      maxPayloadLength: FRAME_LIMIT,
      // More than we keep ourselves.
      backpressureLimit: 2 * OUTGOING_LIMIT,
      closeOnBackpressureLimit: true,
      perMessageDeflate: false,
      sendPings: true,
      idleTimeout: 120,
      open(socket) {
        const receiver = accept({
          write: (frame) => socket.getBufferedAmount() <= OUTGOING_LIMIT && socket.send(frame) !== 0,
          close: (why) => socket.close(TRY_LATER, why),
          cut: () => socket.terminate(),
        });
        if (!receiver) return socket.close(TRY_LATER, 'no room for another peer');
        socket.data.receiver = receiver;
      },
      message: ({ data: { receiver } }, frame) => receiver?.receive(frame),
      close: ({ data: { receiver } }: ServerWebSocket<Caller>) => void receiver?.ended(),
    },
  });
  return { address: `ws://127.0.0.1:${server.port}/`, close: () => void server.stop(true) };
}

/** Checks the host name first: a web page could reach us under its own host name. spec: host#websocket */
function refusal(request: Request, port: number, { tokenHash, protocol, name }: WebSocketOptions): Response | null {
  const { headers } = request;
  if (!isOurOrigin(`http://${headers.get('host') ?? ''}`, port))
    return errorResponse(403, `call this ${name} 127.0.0.1 or localhost`);
  const origin = headers.get('origin');
  // A page that hides its origin sends `null`.
  if (origin !== null && !isOurOrigin(origin, port)) return errorResponse(403, `this ${name} answers no web page`);
  if (!tokensOf(request, protocol).some((token) => isToken(token, tokenHash)))
    return errorResponse(
      401,
      `show the token of this ${name}: its file is named when the ${name} starts, as \`parley ${name}\` says`,
    );
  return null;
}

function tokensOf(request: Request, protocol: string): string[] {
  const [, bearer] = /^bearer +(\S+)$/i.exec(request.headers.get('authorization') ?? '') ?? [];
  if (bearer !== undefined) return [bearer];
  const offered = protocolsOf(request);
  // Without another subprotocol to choose, the server would choose the token and send it back.
  if (!offered.includes(protocol)) return [];
  return offered.flatMap((one) => (one.startsWith('bearer.') ? [one.slice(7)] : []));
}

function protocolsOf(request: Request): string[] {
  return (request.headers.get('sec-websocket-protocol') ?? '').split(',').map((one) => one.trim());
}

function errorResponse(status: number, error: string, headers?: Record<string, string>): Response {
  return Response.json({ error }, { status, ...(headers && { headers }) });
}
