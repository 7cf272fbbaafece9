import type { Update } from 'grammy/types';
import { mkdirSync, readFileSync } from 'node:fs';
import { isMissing } from '../../core/disk.ts';
import { replaceFile } from '../../platform/files.ts';

/** A prompt that the chat has shown, until it ends. */
export interface ShownPrompt {
  id: number;
  session: string;
  /** The message of the API that was shown; null for a message that a person wrote in the chat. */
  message: number | null;
  text: string;
}

/** A question with buttons. */
export interface AskedInChat {
  token: string;
  session: string;
  call: string;
  /** Index of the question in its set. */
  question: number;
  message: number;
  text: string;
  askedAt: number;
  /** What became of it; buttons are gone then. */
  done: string | null;
}

interface Remembered {
  /** The bot whose updates these are. */
  bot: string;
  offset: number;
  /** Updates that the chat counts as received, and that were not handled to their end. */
  pending: Update[];
  /** By session: the last line of its history that the chat has shown. */
  shown: Record<string, number>;
  open: ShownPrompt[];
  asked: AskedInChat[];
}

/** Questions that are remembered, so that a late press can be told what happened. */
const MOST_ASKED = 200;

/** What the bridge remembers between two runs: `~/.ccc/telegram.json`, for this user only. Nothing in it is a secret of the bot. */
export class ChatState {
  readonly isNew: boolean;
  readonly #path: string;
  readonly #state: Remembered;

  constructor(folder: string, token: string) {
    this.#path = `${folder}/telegram.json`;
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const bot = token.split(':')[0] ?? '';
    const found = read(this.#path);
    this.isNew = found?.bot !== bot;
    const fresh: Remembered = { bot, offset: 0, pending: [], shown: {}, open: [], asked: [] };
    this.#state = found?.bot === bot ? { ...fresh, ...found } : fresh;
  }

  get offset(): number {
    return this.#state.offset;
  }

  get pending(): readonly Update[] {
    return this.#state.pending;
  }

  get open(): readonly ShownPrompt[] {
    return this.#state.open;
  }

  get asked(): readonly AskedInChat[] {
    return this.#state.asked;
  }

  /** These came. They are on disk before the chat hears that we have them. */
  received(updates: readonly Update[]): void {
    const last = updates.at(-1);
    if (!last) return;
    this.#state.pending.push(...updates);
    this.#state.offset = last.update_id + 1;
    this.#save();
  }

  handled(update: Update): void {
    this.#state.pending = this.#state.pending.filter(({ update_id: id }) => id !== update.update_id);
    this.#save();
  }

  shownUpTo(session: string): number | undefined {
    return Object.hasOwn(this.#state.shown, session) ? this.#state.shown[session] : undefined;
  }

  show(session: string, line: number, prompt?: ShownPrompt): void {
    this.#state.shown[session] = line;
    if (prompt) this.#state.open.push(prompt);
    this.#save();
  }

  ended(id: number): void {
    this.#state.open = this.#state.open.filter((one) => one.id !== id);
    this.#save();
  }

  ask(asked: AskedInChat): void {
    this.#state.asked = [...this.#state.asked, asked].slice(-MOST_ASKED);
    this.#save();
  }

  answered(token: string, done: string): void {
    for (const asked of this.#state.asked) if (asked.token === token) asked.done = done;
    this.#save();
  }

  #save(): void {
    replaceFile(this.#path, JSON.stringify(this.#state), { flush: true });
  }
}

/** A file that cannot be understood is as good as none: then nothing of the past is shown again. */
function read(path: string): Partial<Remembered> | null {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as Partial<Remembered>;
  } catch (error) {
    if (isMissing(error) || error instanceof SyntaxError) return null;
    throw error;
  }
}
