import type { TurnEvent } from '../../core/ports/session.ts';
import { isMailText } from '../../delivery/fit.ts';

/** An entry of a transcript of Claude Code 2.1, as far as a turn is read from it. */
interface Entry {
  type?: string;
  subtype?: string;
  uuid?: string;
  promptId?: string;
  timestamp?: string;
  isMeta?: boolean;
  isSidechain?: boolean;
  isCompactSummary?: boolean;
  isApiErrorMessage?: boolean;
  origin?: { kind?: string };
  promptSource?: string;
  message?: { id?: string; content?: unknown; stop_reason?: string | null };
  attachment?: {
    type?: string;
    prompt?: unknown;
    origin?: { kind?: string };
    hookEvent?: string;
    content?: unknown;
  };
}

interface OpenTurn {
  prompts: OpenPrompt[];
  /** Its prompts waited in the client while it worked; those that waited together share a turn. */
  isQueued: boolean;
  /** The last message of the model: its id, and its text blocks. */
  message: string | null;
  texts: string[];
  /** The model has said that this was all. */
  isSaid: boolean;
  isError: boolean;
  /** A hook that is not ours makes the model go on, and it has not spoken since. */
  isProlonged: boolean;
}

interface OpenPrompt {
  turn: string;
  at: number;
  /** What the model had said to it, before mail made it go on. */
  answer?: string[];
}

type How = Extract<TurnEvent, { kind: 'end' }>['how'];

/** Shell commands and commands of the client are written down as if the user had said them. */
const NO_PROMPT = /^<(bash-|command-|local-command-)/;
const INTERRUPTED = /^\[Request interrupted by user/;
const FEEDBACK = /^Stop hook feedback:\n/;

/**
 * Reads turns from the lines of a transcript. A turn begins with what a user said (`type: user`, a text, not `isMeta`), and ends with
 * `system/turn_duration`, or with a line that says that the user interrupted it. An Esc before the model's first word leaves no line: then
 * the next prompt ends the turn, or the caller does, who sees that the client rests (`close`). What is typed while the client works becomes
 * a part of the turn, and gets its answer.
 *
 * Mail that our hook brings where the turn would end prolongs it. What the model says to that is no part of the answer; what it says to any
 * other hook is.
 */
export class TurnReader {
  #turn: OpenTurn | null = null;

  constructor(
    /** Messages of other programs count as prompts, too. */
    readonly options: { peers?: boolean } = {},
  ) {}

  /** The events that this line brings. */
  take(line: string): TurnEvent[] {
    const entry = entryIn(line);
    if (!entry) return [];
    const at = Date.parse(entry.timestamp ?? '') || 0;
    if (entry.type === 'user') return this.#user(entry, at);
    if (entry.type === 'attachment') return this.#attached(entry, at);
    if (entry.type === 'assistant') this.#assistant(entry);
    else if (entry.subtype === 'turn_duration') return this.close(this.#turn?.isError ? 'failed' : 'done', at);
    return [];
  }

  /** When the turn began that has not ended yet; null if there is none. */
  get since(): number | null {
    return this.#turn?.prompts.at(-1)?.at ?? null;
  }

  /** The turns that were begun and have not ended, by id. */
  get open(): string[] {
    return this.#turn?.prompts.map(({ turn }) => turn) ?? [];
  }

  /** The model has said all, though the client has not yet said that the turn is over. */
  get isSaid(): boolean {
    return this.#turn?.isSaid ?? false;
  }

  /** Ends the open turn. */
  close(how: How, at: number): TurnEvent[] {
    const { prompts, texts } = this.#turn ?? { prompts: [], texts: [] };
    this.#turn = null;
    return prompts.map(({ turn, answer }) => {
      const said = answer ? { how: 'done' as const, text: answer.join('\n\n') } : { how, text: texts.join('\n\n') };
      return { kind: 'end', turn, ...said, at };
    });
  }

  #user(entry: Entry, at: number): TurnEvent[] {
    const text = textIn(entry.message?.content);
    if (text !== null && entry.isMeta && FEEDBACK.test(text)) this.#prolonged([text.replace(FEEDBACK, '')]);
    const isPeer = this.#isPeer(entry.origin);
    if (text === null || (entry.isMeta && !isPeer) || entry.isCompactSummary) return [];
    const isHuman = entry.origin?.kind === 'human' || entry.promptSource !== undefined;
    if (!isHuman && INTERRUPTED.test(text)) return this.close('interrupted', at);
    if (!isHuman && (NO_PROMPT.test(text) || entry.origin !== undefined)) return [];
    const turn = entry.promptId ?? entry.uuid ?? '';
    // A message waits in the client's queue, if only for a moment.
    const isQueued = isPeer || entry.promptSource === 'queued';
    const isJoined = isQueued && this.#turn?.isQueued === true && this.#turn.message === null;
    const ended = isJoined ? [] : this.close('interrupted', at);
    const nothing = { message: null, texts: [], isSaid: false, isError: false, isProlonged: false };
    this.#turn ??= { prompts: [], isQueued, ...nothing };
    this.#turn.prompts.push({ turn, at });
    return [...ended, { kind: 'prompt', turn, text, at }];
  }

  #attached(entry: Entry, at: number): TurnEvent[] {
    const { type, hookEvent, content } = entry.attachment ?? {};
    if (type !== 'hook_additional_context') return this.#absorbed(entry, at);
    if (hookEvent === 'Stop') this.#prolonged(Array.isArray(content) ? content : [content]);
    return [];
  }

  /** Hooks said this where the turn would have ended. Where another one says something as well, the model goes on for it, too. */
  #prolonged(texts: readonly unknown[]): void {
    const turn = this.#turn;
    if (!turn) return;
    turn.isProlonged ||= !texts.every((text) => typeof text === 'string' && isMailText(text));
    if (turn.isProlonged) for (const prompt of turn.prompts) delete prompt.answer;
    else if (turn.texts.length > 0) for (const prompt of turn.prompts) prompt.answer ??= turn.texts;
  }

  /** Typed while the client worked, and given to the model in the middle of the turn. */
  #absorbed({ attachment, uuid = '' }: Entry, at: number): TurnEvent[] {
    if (attachment?.type !== 'queued_command' || typeof attachment.prompt !== 'string') return [];
    if (!this.#turn || (attachment.origin?.kind !== 'human' && !this.#isPeer(attachment.origin))) return [];
    this.#turn.prompts.push({ turn: uuid, at });
    return [{ kind: 'prompt', turn: uuid, text: attachment.prompt, at }];
  }

  #isPeer(origin: Entry['origin']): boolean {
    return this.options.peers === true && origin?.kind === 'peer';
  }

  /** Each block of a message is a line of its own. */
  #assistant({ message, isApiErrorMessage }: Entry): void {
    if (!this.#turn) return;
    const id = message?.id ?? '';
    if (id !== this.#turn.message) this.#turn.texts = [];
    this.#turn.message = id;
    this.#turn.isError = isApiErrorMessage === true;
    this.#turn.isProlonged = false;
    this.#turn.isSaid = message?.stop_reason === 'end_turn';
    const text = textIn(message?.content);
    if (text) this.#turn.texts.push(text);
  }
}

/** The text in a message; null if it has none, or is the result of a tool. */
function textIn(content: unknown): string | null {
  if (typeof content === 'string') return content;
  const parts = (Array.isArray(content) ? content : []) as { type?: string; text?: string }[];
  if (parts.some(({ type }) => type === 'tool_result')) return null;
  const texts = parts.flatMap(({ type, text }) => (type === 'text' && text !== undefined ? [text] : []));
  return texts.length > 0 ? texts.join('\n\n') : null;
}

/** Most of a transcript is requests, snapshots and attachments, and those can be long: they are not parsed. */
const NO_ENTRY = /^\{"type":"(?!user"|assistant"|system"|attachment")/;
const PART_OF_A_TURN =
  /"type":"(?:user|assistant)"|"subtype":"turn_duration"|"type":"(?:queued_command|hook_additional_context)"/;

function entryIn(line: string): Entry | null {
  if (NO_ENTRY.test(line) || !PART_OF_A_TURN.test(line)) return null;
  try {
    const value = JSON.parse(line) as Entry | null;
    return typeof value === 'object' && value !== null && value.isSidechain !== true ? value : null;
  } catch {
    return null;
  }
}
