import { connect, createServer } from 'node:net';
import type { Server, Socket } from 'node:net';

/** What can go wrong with a request on its way. */
export type Fault =
  /** It is read and answered there, and the answer is lost. */
  | 'answer lost'
  /** It is read, and then nothing more happens. */
  | 'stalled'
  /** Something in between answers in its own way. */
  | 'html'
  | 'sent on';

/** A wire to a relay that can be broken, request by request. */
export class Wire {
  /** Which requests meet which fault: the first line of a request is looked at. */
  fault: { at: RegExp; kind: Fault } | null = null;
  /** How many requests met it. */
  met = 0;
  /** The first line of every request that came. */
  readonly asked: string[] = [];
  /** What came back from the relay, piece by piece. */
  readonly heard: string[] = [];
  #server: Server | undefined;
  #port = 0;
  readonly #sockets = new Set<Socket>();

  constructor(readonly target: () => number) {}

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** The same address again after `down`. */
  async up(): Promise<this> {
    const server = createServer((client) => this.#carry(client));
    await new Promise<void>((resolve) => server.listen(this.#port, '127.0.0.1', resolve));
    const address = server.address();
    this.#port = typeof address === 'object' && address ? address.port : 0;
    this.#server = server;
    return this;
  }

  /** Nobody listens any more, and what was open is cut. */
  async down(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server?.close(() => resolve()));
    this.cut();
    await closed;
  }

  /** Ends every connection. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  #carry(client: Socket): void {
    let there: Socket | undefined;
    let lost = false;
    this.#keep(client);
    client.on('data', (bytes) => {
      const [line = ''] = bytes.toString('latin1').split('\r\n');
      const isRequest = line.endsWith(' HTTP/1.1');
      if (isRequest) this.asked.push(line);
      const fault = isRequest && this.fault?.at.test(line) ? this.fault.kind : null;
      if (fault) this.met += 1;
      if (fault === 'stalled') return;
      if (fault === 'html')
        return void client.end(answer('502 Bad Gateway', 'text/html', '<h1>Bad <b>gateway</b></h1>'));
      if (fault === 'sent on')
        return void client.end(answer('302 Found', 'text/plain', '', 'location: http://example.org/x\r\n'));
      if (fault === 'answer lost') lost = true;
      there ??= this.#open(client, () => lost);
      there.write(this.#addressed(Buffer.from(bytes)));
    });
    client.on('close', () => there?.destroy());
  }

  /** A relay on this machine answers to its own name only. */
  #addressed(bytes: Buffer): Buffer {
    const text = bytes.toString('latin1').replace(/^(host: 127\.0\.0\.1:)\d+/im, `$1${this.target()}`);
    return Buffer.from(text, 'latin1');
  }

  #open(client: Socket, isLost: () => boolean): Socket {
    const there = this.#keep(connect(this.target(), '127.0.0.1'));
    there.on('data', (bytes) => {
      this.heard.push(bytes.toString('latin1'));
      if (isLost()) client.destroy();
      else client.write(bytes);
    });
    there.on('close', () => client.destroy());
    return there;
  }

  #keep(socket: Socket): Socket {
    this.#sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => this.#sockets.delete(socket));
    return socket;
  }
}

function answer(status: string, type: string, body: string, headers = ''): string {
  return `HTTP/1.1 ${status}\r\ncontent-type: ${type}\r\n${headers}content-length: ${body.length}\r\nconnection: close\r\n\r\n${body}`;
}
