// A stand-in for the Bot API of Telegram: a real HTTP server on loopback.
//
//   const telegram = new Telegram();                       // telegram.settings: what ~/.ccc.json needs for it
//   telegram.write('hello', { topic: 101 });               // the user writes in a topic
//   await telegram.said('re: hello');                      // waits for a message with this text
//   telegram.refuse('sendMessage', 429, 1);                // refuses the next call with "retry after 1 s"
//   telegram.isBusy = true;                                // refuses every call except polls with "retry after 1 s"
//   telegram.hangs = true;                                 // answers no call except polls
import { within } from './within.ts';

const DEADLINE = 20_000;
const POLL_LIMIT_MS = 1000;
/** Some of the reactions that Telegram accepts. */
const REACTIONS = ['👍', '👎', '👀', '👨‍💻', '🫡', '🤝', '💯', '🤷', '🤔'];

export interface Posted {
  id: number;
  chat: number;
  topic: number | undefined;
  text: string;
  /** The data of each button, by row. */
  buttons: { text: string; callback_data: string }[][];
  edited: boolean;
  photo?: Uint8Array;
}

interface Call {
  method: string;
  body: Record<string, unknown>;
  at: number;
}

export class Telegram {
  readonly token = '4242:AAE-secret_of_the_bot';
  readonly user = 77;
  readonly group = -10042;
  readonly calls: Call[] = [];
  readonly posted: Posted[] = [];
  readonly topics = new Map<number, string>();
  /** The answers to pressed buttons. */
  readonly toasts: string[] = [];
  /** The reactions that the bot set. */
  readonly reactions: [message: number, emoji: string][] = [];
  readonly files = new Map<string, Uint8Array>();
  hangs = false;
  isBusy = false;
  /** The number of polls that wait for updates now. */
  polling = 0;
  #refusals: { method: string; code: number; retryAfter: number; description: string; chat: number | undefined }[] = [];
  #updates: Record<string, unknown>[] = [];
  #nextUpdate = 500;
  #nextMessage = 1000;
  #nextTopic = 101;
  readonly #server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    idleTimeout: 0,
    fetch: (request) => this.#answer(request),
  });

  get root(): string {
    return `http://127.0.0.1:${this.#server.port}`;
  }

  /** The settings for ~/.ccc.json. */
  get settings(): Record<string, unknown> {
    return { bot_token: this.token, chat_id: this.user, group_id: this.group, api_root: this.root };
  }

  /** Refuses the next call of this method; with `chat`, the next call to that chat. */
  refuse(method: string, code: number, retryAfter = 0, description = 'refused', chat?: number): void {
    this.#refusals.push({ method, code, retryAfter, description, chat });
  }

  /** The number of updates that the bot has not received yet. */
  get waiting(): number {
    return this.#updates.length;
  }

  /** Waits for the topic of a session, and returns its id. */
  async topic(name: string): Promise<number> {
    const found = (): number | undefined => [...this.topics].findLast(([, one]) => one === name)?.[0];
    await within(DEADLINE, async () => found() !== undefined);
    return found() ?? 0;
  }

  /** Writes a message as the user, or as `from`. `fields` are added to the message: a photo, a voice. */
  write(
    text: string | undefined,
    where: { topic?: number; from?: number; chat?: number; fields?: object } = {},
  ): number {
    const { topic, from = this.user, chat = this.group, fields } = where;
    return this.push({
      message: {
        message_id: this.#nextMessage++,
        date: 1,
        chat: { id: chat, type: chat < 0 ? 'supergroup' : 'private' },
        from: { id: from, is_bot: false, first_name: 'Ada', username: from === this.user ? 'ada' : 'mallory' },
        ...(topic !== undefined && { message_thread_id: topic, is_topic_message: true }),
        ...(text !== undefined && { text }),
        ...fields,
      },
    });
  }

  /** Presses a button as the user, or as `from`. */
  press(data: string, message: number, from = this.user): number {
    return this.push({
      callback_query: {
        id: String(this.#nextUpdate),
        from: { id: from, is_bot: false, first_name: 'Ada', username: 'ada' },
        chat_instance: '1',
        data,
        message: { message_id: message, date: 1, chat: { id: this.group, type: 'supergroup' } },
      },
    });
  }

  push(update: Record<string, unknown>): number {
    const id = this.#nextUpdate++;
    this.#updates.push({ update_id: id, ...update });
    return id;
  }

  /** Waits for a message with this text, or one that matches the pattern. */
  async said(text: string | RegExp): Promise<Posted> {
    const isIt = (one: Posted): boolean => (typeof text === 'string' ? one.text === text : text.test(one.text));
    await within(DEADLINE, async () => this.posted.some(isIt));
    return this.posted.find(isIt) as Posted;
  }

  async toasted(times: number): Promise<string[]> {
    await within(DEADLINE, async () => this.toasts.length >= times);
    return this.toasts;
  }

  in(topic: number): string[] {
    return this.posted.filter((one) => one.topic === topic).map(({ text }) => text);
  }

  async close(): Promise<void> {
    await this.#server.stop(true);
  }

  async #answer(request: Request): Promise<Response> {
    const { pathname } = new URL(request.url);
    const file = pathname.startsWith(`/file/bot${this.token}/`);
    if (file) return this.#file(pathname.slice(`/file/bot${this.token}/`.length));
    if (!pathname.startsWith(`/bot${this.token}/`)) return refused(401, 'Unauthorized');
    const method = pathname.split('/').at(-1) ?? '';
    const body = await bodyOf(request);
    this.calls.push({ method, body, at: performance.now() });
    if (method === 'getUpdates') return this.#poll(Number(body['offset'] ?? 0), request.signal);
    if (this.hangs) await new Promise((_resolve, reject) => request.signal.addEventListener('abort', reject));
    if (this.isBusy) return refused(429, 'Too Many Requests', 1);
    const at = this.#refusals.findIndex(
      (one) => one.method === method && (one.chat === undefined || one.chat === body['chat_id']),
    );
    const [refusal] = at < 0 ? [] : this.#refusals.splice(at, 1);
    if (refusal) return refused(refusal.code, refusal.description, refusal.retryAfter);
    return this.#act(method, body);
  }

  #act(method: string, body: Record<string, unknown>): Response {
    const topic = body['message_thread_id'] as number | undefined;
    switch (method) {
      case 'createForumTopic': {
        const id = this.#nextTopic++;
        this.topics.set(id, String(body['name']));
        return result({ message_thread_id: id, name: body['name'], icon_color: 0 });
      }
      case 'sendMessage': {
        const text = String(body['text']);
        if (topic !== undefined && !this.topics.has(topic))
          return refused(400, 'Bad Request: message thread not found');
        if (text === '' || text.length > 4096) return refused(400, 'Bad Request: message is too long');
        const id = this.#nextMessage++;
        this.posted.push({ id, chat: Number(body['chat_id']), topic, text, buttons: buttonsOf(body), edited: false });
        return result({ message_id: id, date: 1, chat: { id: body['chat_id'], type: 'supergroup' }, text });
      }
      case 'sendPhoto': {
        const photo = body['photo'];
        if (!(photo instanceof Uint8Array)) return refused(400, 'Bad Request: there is no photo in the request');
        const id = this.#nextMessage++;
        const chat = Number(body['chat_id']);
        const place = {
          chat,
          topic: body['message_thread_id'] === undefined ? undefined : Number(body['message_thread_id']),
        };
        this.posted.push({ id, ...place, text: '', photo, buttons: [], edited: false });
        return result({ message_id: id, date: 1, chat: { id: chat, type: 'supergroup' }, photo: [] });
      }
      case 'editMessageText': {
        const message = this.posted.find(({ id }) => id === body['message_id']);
        if (!message) return refused(400, 'Bad Request: message to edit not found');
        Object.assign(message, { text: String(body['text']), buttons: buttonsOf(body), edited: true });
        return result(true);
      }
      case 'setMessageReaction': {
        const [{ emoji = '' } = {}] = body['reaction'] as { emoji?: string }[];
        if (!REACTIONS.includes(emoji)) return refused(400, 'Bad Request: REACTION_INVALID');
        this.reactions.push([Number(body['message_id']), emoji]);
        return result(true);
      }
      case 'answerCallbackQuery':
        this.toasts.push(String(body['text']));
        return result(true);
      case 'getFile': {
        const id = String(body['file_id']);
        return result({ file_id: id, file_unique_id: id, file_path: `files/${id}` });
      }
      default:
        return refused(404, 'Not Found');
    }
  }

  /** Answers a long poll. Drops updates below the offset, as Telegram does. */
  async #poll(offset: number, signal: AbortSignal): Promise<Response> {
    this.#updates = this.#updates.filter((one) => Number(one['update_id']) >= offset);
    const until = performance.now() + POLL_LIMIT_MS;
    this.polling += 1;
    while (this.#updates.length === 0 && performance.now() < until && !signal.aborted) await Bun.sleep(5);
    this.polling -= 1;
    return result(this.#updates);
  }

  #file(path: string): Response {
    const bytes = this.files.get(path.replace('files/', ''));
    return bytes ? new Response(bytes) : refused(404, 'Not Found');
  }
}

/** JSON, or a form with files. */
async function bodyOf(request: Request): Promise<Record<string, unknown>> {
  if (!request.headers.get('content-type')?.startsWith('multipart/form-data'))
    return (await request.json().catch(() => ({}))) as Record<string, unknown>;
  const body: Record<string, unknown> = {};
  const form = await request.formData();
  const attached = (value: string) =>
    value.startsWith('attach://') ? (form.get(value.slice('attach://'.length)) ?? value) : value;
  for (const [name, value] of form) {
    const part = typeof value === 'string' ? attached(value) : value;
    body[name] = typeof part === 'string' ? part : new Uint8Array(await part.arrayBuffer());
  }
  return body;
}

const result = (value: unknown): Response => Response.json({ ok: true, result: value });

function refused(code: number, description: string, retryAfter = 0): Response {
  const parameters = retryAfter > 0 ? { parameters: { retry_after: retryAfter } } : {};
  return Response.json({ ok: false, error_code: code, description, ...parameters }, { status: code });
}

function buttonsOf(body: Record<string, unknown>): Posted['buttons'] {
  const markup = body['reply_markup'] as { inline_keyboard?: Posted['buttons'] } | undefined;
  return markup?.inline_keyboard ?? [];
}
