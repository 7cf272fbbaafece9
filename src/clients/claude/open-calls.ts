import { statSync } from 'node:fs';
import { linesFrom } from '../../sessions/follow.ts';

/** How many bytes are read of a transcript that is already there. The call of an open dialog is near its end. */
const TAIL = 4 * 1024 * 1024;

/** The tool with which the model asks its user questions. */
export const ASK = 'AskUserQuestion';

/** A tool call without a result. */
export interface OpenCall {
  id: string;
  name: string;
  input: Record<string, unknown>;
}

interface Block {
  type?: string;
  id?: string;
  name?: string;
  input?: Record<string, unknown>;
  tool_use_id?: string;
}

interface Entry {
  type?: string;
  isMeta?: boolean;
  message?: { content?: string | Block[] };
  toolUseResult?: { answers?: Record<string, string> };
  permissionDecision?: { source?: string };
}

/**
 * The tool calls of a conversation, read from its transcript. Claude Code records a call when its dialog opens (at most about a second
 * later), and its result when the dialog is closed.
 */
export class OpenCalls {
  #path = '';
  #offset = 0;
  #open = new Map<string, OpenCall>();
  /** The user's answers to each AskUserQuestion call that has ended; empty if the user gave none. */
  #closed = new Map<string, Record<string, string>>();
  #decidedBy = new Map<string, string>();

  /** Reads the new lines of this transcript. A different path starts over. */
  read(path: string): void {
    if (path !== this.#path) {
      [this.#path, this.#open, this.#closed, this.#decidedBy] = [path, new Map(), new Map(), new Map()];
      this.#offset = Math.max(0, (statSync(path, { throwIfNoEntry: false })?.size ?? 0) - TAIL);
    }
    for (const { text, to } of linesFrom(path, this.#offset)) {
      this.#offset = to;
      const entry = entryIn(text);
      if (entry) this.#take(entry);
    }
  }

  /** The open calls, in the order in which the model made them. */
  get open(): OpenCall[] {
    return [...this.#open.values()];
  }

  /** The user's answers to an AskUserQuestion call; null while it is open. */
  answersTo(id: string): Record<string, string> | null {
    return this.#closed.get(id) ?? null;
  }

  /** Who decided whether a call may run: `hook`, `user` and others; null if that is not recorded. */
  decidedBy(id: string): string | null {
    return this.#decidedBy.get(id) ?? null;
  }

  #take({ type, isMeta, message, toolUseResult, permissionDecision }: Entry): void {
    const content = message?.content ?? [];
    if (typeof content === 'string') {
      // A prompt begins a new turn, so calls of earlier turns that have no result were cut off.
      if (type === 'user' && isMeta !== true) this.#open.clear();
      return;
    }
    for (const block of content) {
      const { id, name, input = {}, tool_use_id: ended } = block;
      if (block.type === 'tool_use' && id !== undefined && name !== undefined) this.#open.set(id, { id, name, input });
      if (block.type !== 'tool_result' || ended === undefined) continue;
      if (this.#open.get(ended)?.name === ASK) this.#closed.set(ended, toolUseResult?.answers ?? {});
      if (permissionDecision?.source !== undefined) this.#decidedBy.set(ended, permissionDecision.source);
      this.#open.delete(ended);
    }
  }
}

function entryIn(line: string): Entry | null {
  if (!line.includes('"type":"user"') && !line.includes('"type":"assistant"')) return null;
  try {
    const entry = JSON.parse(line) as Entry;
    return entry.type === 'user' || entry.type === 'assistant' ? entry : null;
  } catch {
    // The first line may be cut.
    return null;
  }
}
