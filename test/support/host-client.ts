import { anInitialize } from './host-server.ts';
import type { Told } from './host-server.ts';

/** A harness or surface that a test plays, on any of the three transports. */
export class HostClient {
  /** Every frame that it got, in order. */
  readonly all: Told[] = [];
  readonly #open: Told[] = [];
  #rest = '';
  #count = 0;
  #wakes: (() => void)[] = [];
  isClosed = false;
  pause = (): void => {};

  private constructor(
    readonly write: (text: string) => void,
    readonly close: () => void,
  ) {}

  static async onSocket(path: string): Promise<HostClient> {
    const decoder = new TextDecoder();
    // A full socket takes only a part: the rest is sent when it has room again.
    let rest = Buffer.alloc(0);
    const flush = (): void => void (rest = rest.subarray(Math.max(0, socket.write(rest))));
    const socket = await Bun.connect({
      unix: path,
      socket: {
        data: (_socket, bytes) => client.#bytes(decoder.decode(bytes, { stream: true })),
        drain: flush,
        close: () => client.#ended(),
      },
    });
    const client = new HostClient(
      (text) => {
        rest = Buffer.concat([rest, Buffer.from(text)]);
        flush();
      },
      () => socket.end(),
    );
    client.pause = () => socket.pause();
    return client;
  }

  static async onWebSocket(url: string, token: string): Promise<HostClient> {
    const socket = new WebSocket(url, ['c2a', `bearer.${token}`]);
    const client = new HostClient(
      (text) => socket.send(text),
      () => socket.close(),
    );
    socket.addEventListener('message', ({ data }) => client.#frame(String(data)));
    socket.addEventListener('close', () => client.#ended());
    await new Promise((resolve, reject) => {
      socket.addEventListener('open', resolve);
      socket.addEventListener('error', () => reject(new Error(`no WebSocket at ${url}`)));
    });
    return client;
  }

  /** `close` closes the program's standard input, which ends it. */
  static onStdio(command: string[], env: Record<string, string>): HostClient & { exited: Promise<number> } {
    const child = Bun.spawn(command, { argv0: 'parley', env, stdin: 'pipe', stdout: 'pipe', stderr: 'inherit' });
    const client = new HostClient(
      (text) => {
        void child.stdin.write(text);
        void child.stdin.flush();
      },
      () => void child.stdin.end(),
    );
    const decoder = new TextDecoder();
    void (async () => {
      for await (const bytes of child.stdout) client.#bytes(decoder.decode(bytes, { stream: true }));
      client.#ended();
    })();
    return Object.assign(client, { exited: child.exited });
  }

  send(frame: object): void {
    this.write(`${JSON.stringify({ jsonrpc: '2.0', ...frame })}\n`);
  }

  /** The next frame that the test has not read. */
  async next(matches: (told: Told) => boolean = () => true): Promise<Told> {
    for (;;) {
      const at = this.#open.findIndex(matches);
      const [found] = at === -1 ? [] : this.#open.splice(at, 1);
      if (found) return found;
      if (this.isClosed) throw new Error('the connection is closed');
      await new Promise<void>((resolve) => this.#wakes.push(resolve));
    }
  }

  async ask(method: string, params: object): Promise<Told> {
    this.#count += 1;
    const id = `ask-${this.#count}`;
    this.send({ id, method, params });
    return this.next((told) => told.id === id);
  }

  /** The result of a request that must succeed. */
  async done<T = Record<string, unknown>>(method: string, params: object): Promise<T> {
    const { result, error } = await this.ask(method, params);
    if (error) throw new Error(`${method}: ${error.code} ${error.message}`);
    return result as T;
  }

  async initialize(fields: object = {}): Promise<this> {
    await this.done('initialize', anInitialize(fields));
    return this;
  }

  /** The next event, not acknowledged yet. */
  async event(): Promise<Told & { params: Record<string, unknown> }> {
    const told = await this.next(({ method }) => method === 'chat/deliver');
    return { ...told, params: told.params ?? {} };
  }

  ack({ id }: Told): void {
    this.send({ id, result: {} });
  }

  #bytes(text: string): void {
    const lines = (this.#rest + text).split('\n');
    this.#rest = lines.pop() ?? '';
    for (const line of lines) this.#frame(line);
  }

  #frame(text: string): void {
    const told = JSON.parse(text) as Told;
    this.all.push(told);
    this.#open.push(told);
    this.#wake();
  }

  #ended(): void {
    this.isClosed = true;
    this.#wake();
  }

  #wake(): void {
    for (const wake of this.#wakes.splice(0)) wake();
  }
}
