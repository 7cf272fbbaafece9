/** A line of a transcript of Claude Code 2.1, as far as the conversation is read from it. */
interface Line {
  type?: string;
  uuid?: string;
  parentUuid?: string | null;
  isSidechain?: boolean;
}

/** What is below a line in the conversation. */
interface Place {
  /** A line that the client or the model wrote. */
  hasEnd: boolean;
  /** The note that its user stopped the model. */
  isStopped: boolean;
}

/**
 * The conversation in a transcript: the last line, the line that it follows, and so on to the first. A client that is started again goes on
 * with exactly these lines. A prompt that its user took back, what was said after a place to which the user went back, and what was
 * compacted are in the transcript, but not in the conversation.
 */
export class ClaudeConversation {
  readonly #above = new Map<string, { type: string; parent: string; isStop: boolean }>();
  #last = '';

  take(text: string): void {
    if (!text.includes('"parentUuid":')) return;
    const { uuid, type = '', parentUuid, isSidechain } = lineIn(text);
    if (uuid === undefined || isSidechain === true) return;
    // A text that quotes these words has no such colon and quote in front of them: there the quote is escaped.
    const isStop = type === 'user' && text.includes(':"[Request interrupted by user');
    this.#above.set(uuid, { type, parent: parentUuid ?? '', isStop });
    this.#last = uuid;
  }

  /** Null: this line is not in the conversation. */
  placeOf(uuid: string): Place | null {
    const place = { hasEnd: false, isStopped: false };
    for (let at = this.#last, line = this.#above.get(at); line; line = this.#above.get(at)) {
      if (at === uuid) return place;
      place.hasEnd ||= line.type === 'assistant' || line.type === 'system';
      place.isStopped ||= line.isStop;
      at = line.parent;
    }
    return null;
  }
}

function lineIn(text: string): Line {
  try {
    return (JSON.parse(text) as Line | null) ?? {};
  } catch {
    return {};
  }
}
