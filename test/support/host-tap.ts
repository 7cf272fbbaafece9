import { connect, createServer } from 'node:net';
import type { Server, Socket } from 'node:net';
import type { Told } from './host-server.ts';

/** The sender of a frame. */
export type Side = 'host' | 'harness';

/** A proxy between a harness and the socket of a host that records, drops, changes or adds frames. */
export class HostTap {
  /** Every frame, dropped ones too. */
  readonly seen: { from: Side; frame: Told }[] = [];
  /** False: the frame is lost. Called before it is handed on. */
  passes: (from: Side, frame: Told) => boolean = () => true;
  #server: Server | undefined;
  #harness: Socket | undefined;
  #host: Socket | undefined;

  constructor(
    readonly path: string,
    readonly target: string,
  ) {}

  async open(): Promise<this> {
    const server = createServer((harness) => {
      const host = connect(this.target);
      this.#harness = harness;
      this.#host = host;
      this.#carry('harness', harness, host);
      this.#carry('host', host, harness);
    });
    await new Promise<void>((resolve) => server.listen(this.path, resolve));
    this.#server = server;
    return this;
  }

  /** Sends the harness a frame in the host's name. */
  tell(frame: object): void {
    this.#harness?.write(`${JSON.stringify(frame)}\n`);
  }

  /** Ends the connection that is open. */
  cut(): void {
    this.#harness?.destroy();
    this.#host?.destroy();
  }

  close(): void {
    this.cut();
    this.#server?.close();
  }

  /** The frames of one side, of one method or of all. */
  said(from: Side, method?: string): Told[] {
    return this.seen
      .filter((one) => one.from === from && (!method || one.frame.method === method))
      .map((one) => one.frame);
  }

  #carry(from: Side, source: Socket, sink: Socket): void {
    let rest = '';
    source.setEncoding('utf8');
    source.on('data', (text: Buffer | string) => {
      const lines = (rest + String(text)).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) {
        const frame = JSON.parse(line) as Told;
        this.seen.push({ from, frame });
        if (this.passes(from, frame)) sink.write(`${line}\n`);
      }
    });
    source.on('error', () => {});
    source.on('close', () => sink.destroy());
  }
}
