/** One keep-alive connection that sends a request and waits for the answer. `fetch` would be slower than the server that it measures. */
export class Wire {
  readonly #socket: Bun.Socket;
  #answer: (status: number) => void = () => {};
  #heard = '';
  #left = -1;
  #status = 0;

  private constructor(socket: Bun.Socket) {
    this.#socket = socket;
  }

  static async open(port: number): Promise<Wire> {
    let wire: Wire | undefined;
    const socket = await Bun.connect({
      hostname: '127.0.0.1',
      port,
      socket: { data: (_socket, bytes) => wire?.hear(bytes), error: (_socket, error) => Promise.reject(error) },
    });
    wire = new Wire(socket);
    return wire;
  }

  /** Sends a request, and resolves with the status when the whole answer has arrived. */
  ask(request: string): Promise<number> {
    return new Promise((resolve) => {
      this.#answer = resolve;
      this.#socket.write(request);
    });
  }

  close(): void {
    this.#socket.end();
  }

  hear(bytes: Uint8Array): void {
    if (this.#left > 0) {
      this.#left -= bytes.length;
    } else {
      this.#heard += Buffer.from(bytes).toString('latin1');
      const end = this.#heard.indexOf('\r\n\r\n');
      if (end < 0) return;
      const length = Number(/\r\ncontent-length: (\d+)/i.exec(this.#heard)?.[1] ?? 0);
      this.#status = Number(this.#heard.slice(9, 12));
      this.#left = length - (this.#heard.length - end - 4);
    }
    if (this.#left > 0) return;
    this.#heard = '';
    this.#left = -1;
    this.#answer(this.#status);
  }
}

/** The HTTP request of one send. */
export function sendRequest(token: string, to: string, body: string): string {
  return sendHead(token) + keyLines(crypto.randomUUID()) + sendRest(to, body);
}

/** The part of the request that is the same for all sends of one sender. */
export function sendHead(token: string): string {
  return `POST /v1/send HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${token}\r\nContent-Type: application/json\r\n`;
}

/** The lines with the key and the id of one send. A relay ignores the id if senders may not choose it. */
export function keyLines(id: string): string {
  return `Idempotency-Key: ${id}\r\nX-Parley-Id: ${id}\r\n`;
}

/** The part of the request that is the same for all sends to one agent. */
export function sendRest(to: string, body: string): string {
  const json = JSON.stringify({ to, body });
  return `Content-Length: ${json.length}\r\n\r\n${json}`;
}
