import type { TurnEvent } from '../../core/ports/session.ts';
import { isMailText } from '../../delivery/fit.ts';
import type { TurnLines } from '../../sessions/turn-record.ts';

/** The fields of a transcript entry of Claude Code 2.1 that turns are read from. */
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
  /** The prompts waited in the client's queue. Prompts that wait together share a turn. */
  isQueued: boolean;
  /** The id of the model's last message. `texts` has its text blocks. */
  message: string | null;
  texts: string[];
  /** The model's last message ended with `end_turn`. */
  isSaid: boolean;
  isError: boolean;
  /** Another program's hook prolonged the turn, and the model has said nothing since. */
  isProlonged: boolean;
}

interface OpenPrompt {
  turn: string;
  at: number;
  /** The model's answer to this prompt, before mail prolonged the turn. */
  answer?: { texts: string[]; isShared: boolean };
}

type How = Extract<TurnEvent, { kind: 'end' }>['how'];

/** Claude Code records shell commands and its own commands as if the user had said them. */
const NO_PROMPT = /^<(bash-|command-|local-command-)/;
const INTERRUPTED = /^\[Request interrupted by user/;
const FEEDBACK = /^Stop hook feedback:\n/;

/**
 * Reads turns from the lines of a transcript. A turn begins with a prompt (`type: user`, a text, not `isMeta`). It ends with
 * `system/turn_duration`, or with a line that says that the user interrupted it. An Esc before the model's first word leaves no line: then the
 * next prompt ends the turn, or the caller calls `close` when the client is idle. A prompt that is typed while the client works joins the turn
 * and shares its answer.
 *
 * Mail that our hook brings at the end of a turn prolongs it. The model's reply to that mail is not part of the answer; its reply to any other
 * hook is.
 */
export class TurnReader implements TurnLines {
  #turn: OpenTurn | null = null;

  constructor(
    /** `peers`: messages of other programs count as prompts, too. */
    readonly options: { peers?: boolean } = {},
  ) {}

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

  get since(): number | null {
    return this.#turn?.prompts.at(-1)?.at ?? null;
  }

  get open(): string[] {
    return this.#turn?.prompts.map(({ turn }) => turn) ?? [];
  }

  get isSaid(): boolean {
    return this.#turn?.isSaid ?? false;
  }

  close(how: How, at: number): TurnEvent[] {
    const { prompts, texts } = this.#turn ?? { prompts: [], texts: [] };
    this.#turn = null;
    const isJoined = prompts.filter(({ answer }) => !answer).length > 1;
    return prompts.map(({ turn, answer }) => {
      const { texts: said, isShared } = answer ?? { texts, isShared: isJoined };
      const text = said.join('\n\n');
      return { kind: 'end', turn, how: answer ? 'done' : how, text, at, ...(isShared && { shared: true }) };
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
    // A peer's message always goes through the client's queue.
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

  /** Hooks returned these texts at the end of the turn. If one of them is not our mail, the turn continues for that hook as well. */
  #prolonged(texts: readonly unknown[]): void {
    const turn = this.#turn;
    if (!turn) return;
    turn.isProlonged ||= !texts.every((text) => typeof text === 'string' && isMailText(text));
    if (turn.isProlonged) for (const prompt of turn.prompts) delete prompt.answer;
    else if (turn.texts.length > 0) {
      const answer = { texts: turn.texts, isShared: turn.prompts.filter((one) => !one.answer).length > 1 };
      for (const prompt of turn.prompts) prompt.answer ??= answer;
    }
  }

  /** A prompt that was typed while the client worked, and given to the model within the turn. */
  #absorbed({ attachment, uuid = '' }: Entry, at: number): TurnEvent[] {
    if (attachment?.type !== 'queued_command' || typeof attachment.prompt !== 'string') return [];
    if (!this.#turn || (attachment.origin?.kind !== 'human' && !this.#isPeer(attachment.origin))) return [];
    this.#turn.prompts.push({ turn: uuid, at });
    return [{ kind: 'prompt', turn: uuid, text: attachment.prompt, at }];
  }

  #isPeer(origin: Entry['origin']): boolean {
    return this.options.peers === true && origin?.kind === 'peer';
  }

  /** Claude Code writes each block of a message as a line of its own. */
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

/** The text of a message; null if it has none or is a tool result. */
function textIn(content: unknown): string | null {
  if (typeof content === 'string') return content;
  const parts = (Array.isArray(content) ? content : []) as { type?: string; text?: string }[];
  if (parts.some(({ type }) => type === 'tool_result')) return null;
  const texts = parts.flatMap(({ type, text }) => (type === 'text' && text !== undefined ? [text] : []));
  return texts.length > 0 ? texts.join('\n\n') : null;
}

/** Most lines are requests, snapshots and attachments, which can be long: they are not parsed. */
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
