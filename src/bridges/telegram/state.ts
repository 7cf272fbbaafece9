import * as v from 'valibot';
import type { Update } from 'grammy/types';
import { mkdirSync, readFileSync } from 'node:fs';
import { isMissing } from '../../core/disk.ts';
import { Schema } from '../../core/schema.ts';
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
  /** The message that shows it; 0: it may not have been sent yet. */
  message: number;
  /** The text of the question; empty once the chat shows the result. */
  text: string;
  askedAt: number;
  /** The ticked options, if several may be chosen. */
  ticked?: readonly number[];
  /** The result; null while it is open. A question with a result has no buttons. */
  done: string | null;
}

/** A command that changes something, stored from before it acts until its answer was sent. */
export interface BegunCommand {
  /** The state before it began, which tells a later run what is left to do. */
  before: string;
  /** Its answer; null: it may not be done yet. */
  said: string | null;
}

interface Remembered {
  /** The bot that got these updates. */
  bot: string;
  /** The group with the topics and messages. */
  group: number;
  offset: number;
  /** Updates that were confirmed to Telegram and are not handled completely. */
  pending: Update[];
  /** By the id of its update. */
  begun: Record<string, BegunCommand>;
  /** By session: the last line of its history that the chat has shown. */
  shown: Record<string, number>;
  open: ShownPrompt[];
  asked: AskedInChat[];
}

/** The fields that a valid file must have; fields of later versions may be missing. */
const Stored = new Schema(() =>
  v.looseObject({
    bot: v.string(),
    group: v.exactOptional(v.number()),
    offset: v.number(),
    pending: v.array(v.looseObject({ update_id: v.number() })),
    begun: v.exactOptional(v.record(v.string(), v.object({ before: v.string(), said: v.nullable(v.string()) }))),
    shown: v.record(v.string(), v.number()),
    open: v.array(v.looseObject({ id: v.number(), session: v.string() })),
    asked: v.array(v.looseObject({ token: v.string(), session: v.string(), call: v.string(), text: v.string() })),
  }),
);

/** How many questions are remembered, so that a late press gets the result. */
const MOST_ASKED = 200;

/**
 * The state of the bridge between two runs: `~/.ccc/telegram.json`, readable by this user only. It does not contain the bot's token. A
 * change is on disk when its method returns; if the method throws, nothing has changed.
 */
export class ChatState {
  /** The first run with this bot and this group. */
  readonly isNew: boolean;
  readonly #path: string;
  #state: Remembered;

  constructor(folder: string, token: string, group: number) {
    this.#path = `${folder}/telegram.json`;
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const bot = token.split(':')[0] ?? '';
    const shown = { group, shown: {}, open: [], asked: [] };
    const fresh: Remembered = { bot, offset: 0, pending: [], begun: {}, ...shown };
    const found = read(this.#path);
    const isSameBot = found?.bot === bot;
    this.isNew = !isSameBot || (found.group ?? group) !== group;
    this.#state = isSameBot ? { ...fresh, ...found, ...(this.isNew ? shown : { group }) } : fresh;
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

  /** Stores new updates, of which `heard` must be handled. They are on disk before they are confirmed to Telegram. */
  received(updates: readonly Update[], heard: readonly Update[]): void {
    const offset = (updates.at(-1)?.update_id ?? this.offset - 1) + 1;
    // Do not write to the disk for strangers: they can send a bot any number of messages.
    if (heard.length === 0) this.#state = { ...this.#state, offset };
    else this.#save({ offset, pending: [...this.pending, ...heard] });
  }

  handled({ update_id: id }: Update): void {
    const { [id]: _, ...begun } = this.#state.begun;
    this.#save({ pending: this.pending.filter((one) => one.update_id !== id), begun });
  }

  begun(update: number): BegunCommand | null {
    return this.#state.begun[update] ?? null;
  }

  begin(update: number, command: BegunCommand): void {
    this.#save({ begun: { ...this.#state.begun, [update]: command } });
  }

  shownUpTo(session: string): number | undefined {
    return Object.hasOwn(this.#state.shown, session) ? this.#state.shown[session] : undefined;
  }

  show(session: string, line: number, prompt?: ShownPrompt): void {
    const open = prompt ? [...this.open, prompt] : this.#state.open;
    this.#save({ shown: { ...this.#state.shown, [session]: line }, open });
  }

  ended(id: number): void {
    this.#save({ open: this.open.filter((one) => one.id !== id) });
  }

  ask(asked: AskedInChat): void {
    this.#save({ asked: [...this.asked, asked].slice(-MOST_ASKED) });
  }

  /** The question of this token, with what is new of it. */
  change(token: string, fields: Partial<AskedInChat>): void {
    this.#save({ asked: this.asked.map((one) => (one.token === token ? { ...one, ...fields } : one)) });
  }

  #save(fields: Partial<Remembered>): void {
    const next = { ...this.#state, ...fields };
    replaceFile(this.#path, JSON.stringify(next), { flush: true });
    this.#state = next;
  }
}

/** Reads the file. Null if it is missing or not valid: then no earlier line is shown again. */
function read(path: string): (Partial<Remembered> & { bot: string }) | null {
  try {
    const stored = JSON.parse(readFileSync(path, 'utf8')) as Partial<Remembered> & { bot: string };
    return Stored.safeParse(stored).success ? stored : null;
  } catch (error) {
    if (isMissing(error) || error instanceof SyntaxError) return null;
    throw error;
  }
}
