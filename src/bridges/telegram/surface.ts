import { mkdirSync, readFileSync } from 'node:fs';
import type { Message } from 'grammy/types';
import { GrammyError } from 'grammy/web';
import { isMissing } from '../../core/disk.ts';
import type { Env } from '../../core/env.ts';
import type { Log } from '../../core/service.ts';
import { withLimit } from '../../core/wait.ts';
import { parleyHome } from '../../platform/env.ts';
import { replaceFile } from '../../platform/files.ts';
import type { SurfaceShow } from '../../protocols/c2a/context.ts';
import { errorBody, JsonRpcPeer, RemoteError, RPC, RpcError } from '../../wire/jsonrpc.ts';
import type { Params, Request, RpcErrorBody } from '../../wire/jsonrpc.ts';
import { VERSION } from '../../platform/program.ts';
import type { TelegramApi } from './api.ts';
import type { Topics } from './topics.ts';

/** How often a host is looked for. */
const LOOK_MS = 2000;
/** How long a message waits for a host that is being restarted. */
const WAIT_MS = 3000;
/** How many messages of agents are remembered, so that people can answer them. */
const REMEMBERED = 1000;
/** The nearest of Telegram's few reactions for each signal. It has none for `blocked`: that is refused, but the signal still counts. */
const GLYPHS = { working: '👨‍💻', queued: '🫡', claimed: '🤝', done: '💯', declined: '🤷', unclear: '🤔' };

export interface TelegramSurfaceDeps {
  api: TelegramApi;
  topics: Topics;
  /** The folder for the list of shown messages. */
  folder: string;
  token: string;
  env: Env;
  log: Log;
}

/** A message in a chat. One message of an agent may take several of them, with the same id. */
interface ShownMessage {
  id: string;
  message: number;
  author: string;
}

/**
 * The private chat with the bot as a surface of a running host: `@agent text` is mail for that agent, a reply to an agent's message
 * answers it, and messages of agents to the user are shown there. spec: host#surface
 */
export class TelegramSurface {
  readonly #path: string;
  readonly #end = Promise.withResolvers<void>();
  #shown: ShownMessage[];
  /** Items being shown, by id: after a broken connection the host sends an item again, even if it still waits for Telegram. */
  readonly #showing = new Map<string, Promise<void>>();
  #peer: JsonRpcPeer | null = null;
  #connected = Promise.withResolvers<void>();
  #isClosed = false;
  #running: Promise<void> = Promise.resolve();

  constructor(readonly deps: TelegramSurfaceDeps) {
    this.#path = `${deps.folder}/telegram-surface.json`;
    this.#shown = read(this.#path);
  }

  open(): void {
    this.#running = this.#run();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#end.resolve();
    this.#peer?.close();
    await this.#running;
  }

  /** Posts what the user wrote to an agent. Returns the answer for the user, or null if the message was not for an agent. */
  async post(message: Message): Promise<string | null> {
    const written = message.text ?? message.caption ?? '';
    const answered = this.#shown.find((one) => one.message === message.reply_to_message?.message_id);
    const [called = '', name] = /^@([A-Za-z0-9][\w.-]*)[:,]?\s+/.exec(written) ?? [];
    const recipient = name ?? answered?.author;
    if (recipient === undefined || !message.from) return null;
    if (!this.#peer) await withLimit(Promise.race([this.#connected.promise, this.#end.promise]), WAIT_MS);
    if (!this.#peer) return 'no host runs, so agents get no mail from here: `parley up --with host`';
    const { id, first_name: displayName } = message.from;
    try {
      await this.#peer.request('surface/post', {
        messageId: String(message.message_id),
        conversation: { id: String(message.chat.id), kind: 'dm', ...(answered && { threadId: answered.id }) },
        author: { id: String(id), kind: 'human', displayName },
        recipient,
        content: [{ type: 'text', text: written.slice(called.length) }, ...attachmentsOf(message)],
        createdAt: new Date(message.date * 1000).toISOString(),
      }).answer;
      return '';
    } catch (error) {
      if (error instanceof RemoteError) return error.message;
      return 'the host went away; write it again';
    }
  }

  async #run(): Promise<void> {
    while (!this.#isClosed) {
      try {
        await this.#connection();
      } catch (error) {
        if (!isMissing(error)) this.deps.log('chat_surface_trouble', { because: this.deps.api.because(error) });
      }
      this.#peer = null;
      this.#connected = Promise.withResolvers();
      await withLimit(this.#end.promise, LOOK_MS);
    }
  }

  /** Runs one connection until the host or we end it. */
  async #connection(): Promise<void> {
    const ended = Promise.withResolvers<void>();
    const decoder = new TextDecoder();
    let rest = '';
    let unsent = Buffer.alloc(0);
    const socket = await Bun.connect({
      unix: `${parleyHome(this.deps.env)}/host/socket`,
      socket: {
        data(_socket, bytes) {
          const lines = (rest + decoder.decode(bytes, { stream: true })).split('\n');
          rest = lines.pop() ?? '';
          for (const line of lines) peer.receive(line);
        },
        drain: () => flush(),
        close: () => ended.resolve(),
        error: () => ended.resolve(),
      },
    });
    const flush = (): void => void (unsent = unsent.subarray(Math.max(0, socket.write(unsent))));
    const peer = new JsonRpcPeer(
      (frame) => {
        unsent = Buffer.concat([unsent, Buffer.from(`${frame}\n`)]);
        flush();
      },
      { request: (request) => void this.#answer(peer, request), notification: () => {}, broken: () => {} },
    );
    try {
      await peer.request('initialize', {
        protocolVersion: '2026-06-02',
        clientInfo: { name: 'parley-telegram', version: VERSION },
        role: 'surface',
        capabilities: { glyphs: GLYPHS },
      }).answer;
      const workspaceId = this.deps.token.split(':')[0] ?? '';
      await peer.request('surface/bind', { platform: 'telegram', workspaceId }).answer;
      this.#peer = peer;
      this.#connected.resolve();
      await Promise.race([ended.promise, this.#end.promise]);
    } finally {
      peer.close();
      socket.end();
    }
  }

  async #answer(peer: JsonRpcPeer, { id, method, params }: Request): Promise<void> {
    try {
      if (method !== 'surface/show') throw new RpcError(RPC.method, `there is no method ${method}`);
      await this.#show(params as unknown as SurfaceShow & { glyph?: string });
      peer.answer(id, {});
    } catch (error) {
      peer.fail(id, errorBody(error) ?? this.#refusal(error));
    }
  }

  /** Telegram's error for the host: most are final, and some name the time to try again. */
  #refusal(error: unknown): RpcErrorBody {
    const message = this.deps.api.because(error);
    if (!(error instanceof GrammyError)) return { code: RPC.internal, message };
    const seconds = error.parameters.retry_after;
    return { code: error.error_code, message, ...(seconds && { data: { retryAfterMs: seconds * 1000 } }) };
  }

  #show(item: SurfaceShow & { glyph?: string }): Promise<void> {
    const underWay = this.#showing.get(item.id);
    if (underWay) return underWay;
    const showing = this.#showNew(item).finally(() => this.#showing.delete(item.id));
    this.#showing.set(item.id, showing);
    return showing;
  }

  async #showNew(item: SurfaceShow & { glyph?: string }): Promise<void> {
    const { api, topics } = this.deps;
    const chat = Number(item.conversation.id);
    if (this.#shown.some(({ id }) => id === item.id)) return;
    if (!Number.isSafeInteger(chat)) throw new RpcError(RPC.params, 'the bot is in no such chat');
    if (item.what === 'reaction') {
      const emoji = (item.glyph ?? '') as '👍';
      const target = this.#messagesOf(item.target)[0] ?? Number(item.target);
      // One attempt: the host decides when to try again.
      await api.now((one, signal) => one.setMessageReaction(chat, target, [{ type: 'emoji', emoji }], {}, signal));
      return;
    }
    const words = [item.text ?? '', ...(item.refs ?? [])].join('\n');
    const { id: author, displayName } = item.author;
    const isEdit = item.what === 'edit';
    const before = isEdit ? this.#messagesOf(item.target) : [];
    const isReplaced = before.length > 0 && (await topics.replaceAt(chat, before, `${displayName}: ${words}`));
    const text = `${displayName}: ${isEdit ? 'edited: ' : ''}${words}`;
    const messages = isReplaced ? before : await topics.sayAt({ chat }, text);
    const added = messages.map((message) => ({ id: item.id, message, author }));
    this.#shown = [...this.#shown, ...added].slice(-REMEMBERED);
    mkdirSync(this.deps.folder, { recursive: true, mode: 0o700 });
    replaceFile(this.#path, JSON.stringify(this.#shown), { flush: true });
  }

  #messagesOf(target: string | undefined): number[] {
    return this.#shown.filter(({ id }) => id === target).map(({ message }) => message);
  }
}

/** The attachments of a message, by Telegram's file ids: the bot's token gives access to the files. */
function attachmentsOf({ photo, voice, audio, document, video, sticker }: Message): Params[] {
  const files = Object.entries({ image: photo?.at(-1), voice, audio, file: document, video, sticker });
  return files.flatMap(([type, file]) => {
    if (!file) return [];
    const { file_id: id, file_size: size } = file;
    const name = 'file_name' in file ? file.file_name : undefined;
    const mimeType = 'mime_type' in file ? file.mime_type : undefined;
    return [
      { type, ref: `telegram:file/${id}`, ...(name && { name }), ...(mimeType && { mimeType }), ...(size && { size }) },
    ];
  });
}

function read(path: string): ShownMessage[] {
  try {
    const found: unknown = JSON.parse(readFileSync(path, 'utf8'));
    return Array.isArray(found) ? (found as ShownMessage[]) : [];
  } catch (error) {
    if (isMissing(error) || error instanceof SyntaxError) return [];
    throw error;
  }
}
