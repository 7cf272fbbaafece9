import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';

export interface Letter {
  id: string;
  from: string;
  to: string;
  body: string;
  ts: string;
}

/** Speaks to a relay as the original program does: the answer is read as JSON first, whatever its status; no time-out, no retry. */
export class OriginalClient {
  token = '';

  constructor(
    readonly url: string,
    readonly agent: string,
    readonly room?: string,
  ) {}

  async register(roomToken?: string): Promise<void> {
    const { token } = await this.#ask<{ token?: string }>(
      'POST',
      '/v1/register',
      { name: this.agent },
      roomToken ?? '',
    );
    if (token) this.token = token;
  }

  async send(to: string, body: string): Promise<Letter> {
    return this.#ask('POST', '/v1/send', { from: this.agent, to, body });
  }

  async inbox(): Promise<Letter[]> {
    const letters = await this.#ask<Letter[]>('GET', `/v1/inbox/${encodeURIComponent(this.agent)}`);
    return letters.sort((a, b) => a.ts.localeCompare(b.ts));
  }

  async take(id: string): Promise<Letter | null> {
    const { message } = await this.#ask<{ message: Letter | null }>('POST', '/v1/take', { agent: this.agent, id });
    return message;
  }

  async subscribe(channel: string): Promise<void> {
    await this.#ask('POST', '/v1/subscribe', { agent: this.agent, channel });
  }

  async agents(): Promise<{ name: string; subscriptions: string[]; lastSeen: string }[]> {
    return this.#ask('GET', '/v1/agents');
  }

  async channels(): Promise<string[]> {
    return this.#ask('GET', '/v1/channels');
  }

  /** Its reader of streams: cut at blank lines, only lines that begin with `data: `, every one a message. */
  async watch(onMessage: (letter: Letter) => void, stop: AbortSignal): Promise<void> {
    const answer = await fetch(`${this.url}/v1/events/${this.agent}`, {
      headers: this.#headers(this.token),
      signal: stop,
    });
    const decoder = new TextDecoder();
    let rest = '';
    for await (const chunk of answer.body ?? []) {
      rest += decoder.decode(chunk, { stream: true });
      const events = rest.split('\n\n');
      rest = events.pop() ?? '';
      for (const event of events) {
        const data = event
          .split('\n')
          .filter((line) => line.startsWith('data: '))
          .map((line) => line.slice(6));
        if (data.length > 0) onMessage(JSON.parse(data.join('\n')) as Letter);
      }
    }
  }

  #headers(token: string): Record<string, string> {
    return {
      'content-type': 'application/json',
      ...(token && { authorization: `Bearer ${token}` }),
      ...(this.room && { 'x-backchannel-room': this.room }),
    };
  }

  async #ask<T>(method: string, path: string, body?: object, token = this.token): Promise<T> {
    const answer = await fetch(`${this.url}${path}`, {
      method,
      headers: this.#headers(token),
      ...(body && { body: JSON.stringify(body) }),
    });
    const data = (await answer.json()) as T & { error?: string };
    if (!answer.ok) throw new Error(data.error);
    return data;
  }
}

/** Works on the files of a home as the original program does without a relay: no lock, no flush, no ledger. */
export class OriginalSpool {
  constructor(
    readonly home: string,
    readonly agent: string,
  ) {}

  #folder(agent: string, name: string): string {
    return `${this.home}/spool/${agent}/${name}`;
  }

  send(to: string, body: string): string {
    const id = crypto.randomUUID();
    const letter = { id, from: this.agent, to: `@${to}`, body, priority: 'normal', ts: new Date().toISOString() };
    for (const name of ['tmp', 'new']) mkdirSync(this.#folder(to, name), { recursive: true });
    writeFileSync(`${this.#folder(to, 'tmp')}/${id}.json`, JSON.stringify(letter));
    renameSync(`${this.#folder(to, 'tmp')}/${id}.json`, `${this.#folder(to, 'new')}/${id}.json`);
    return id;
  }

  inbox(): Letter[] {
    return readdirSync(this.#folder(this.agent, 'new')).map(
      (name) => JSON.parse(readFileSync(`${this.#folder(this.agent, 'new')}/${name}`, 'utf8')) as Letter,
    );
  }

  /** False if somebody else was faster. */
  take(id: string): boolean {
    try {
      mkdirSync(this.#folder(this.agent, 'cur'), { recursive: true });
      renameSync(`${this.#folder(this.agent, 'new')}/${id}.json`, `${this.#folder(this.agent, 'cur')}/${id}.json`);
      rmSync(`${this.#folder(this.agent, 'cur')}/${id}.json`);
      return true;
    } catch {
      return false;
    }
  }
}
