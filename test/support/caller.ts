import type { Stored } from './original-relay.ts';

/** One agent at a relay, who speaks plain HTTP. */
export class Caller {
  constructor(
    readonly url: string,
    readonly token = '',
    readonly name = '',
    readonly ca?: string,
  ) {}

  /** A new agent. */
  static async register(url: string, name: string, roomToken = '', ca?: string): Promise<Caller> {
    const { token } = await new Caller(url, roomToken, name, ca).ask<{ token?: string }>('register', { name });
    if (!token) throw new Error(`${name} was not registered`);
    return new Caller(url, token, name, ca);
  }

  async get(path: string): Promise<Response> {
    return this.#fetch(path, {});
  }

  async post(path: string, body: unknown, headers: Record<string, string> = {}): Promise<Response> {
    return this.#fetch(path, { method: 'POST', body: JSON.stringify(body) }, headers);
  }

  /** What is answered, once it is 200. With a body it is posted. */
  async ask<T>(path: string, body?: unknown): Promise<T> {
    const answer = await (body === undefined ? this.get(path) : this.post(path, body));
    if (answer.status !== 200) throw new Error(`${path} was answered ${answer.status}: ${await answer.text()}`);
    return (await answer.json()) as T;
  }

  async send(to: string, body: string, fields: Partial<Stored> = {}): Promise<Stored> {
    return this.ask<Stored>('send', { to, body, ...fields });
  }

  async inbox(): Promise<Stored[]> {
    return this.ask<Stored[]>(`inbox/${this.name}`);
  }

  async bodies(): Promise<string[]> {
    return (await this.inbox()).map(({ body }) => body);
  }

  async take(id: string): Promise<Stored | null> {
    return (await this.ask<{ message: Stored | null }>('take', { id })).message;
  }

  async #fetch(path: string, init: RequestInit, more: Record<string, string> = {}): Promise<Response> {
    const headers = {
      'content-type': 'application/json',
      ...(this.token && { authorization: `Bearer ${this.token}` }),
      ...more,
    };
    const tls = this.ca === undefined ? {} : { tls: { ca: this.ca } };
    return fetch(new URL(`/v1/${path}`, this.url), { ...init, headers, ...tls });
  }
}
