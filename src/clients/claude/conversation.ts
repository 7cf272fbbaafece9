/** A line of a transcript of Claude Code 2.1, as far as the conversation is read from it. */
interface Line {
  type?: string;
  uuid?: string;
  parentUuid?: string | null;
  isSidechain?: boolean;
}

/** Where a line is in the conversation. */
interface Place {
  /** Below it is a line that the client or the model wrote. */
  hasEnd: boolean;
  /** Below it is the note that its user stopped the model. */
  isStopped: boolean;
}

/**
 * The conversation in a transcript: the last line, the one that it follows, and so on. A client that is started again goes on with exactly
 * these. Lines that its user took back, went back behind or had compacted are in the transcript, and no part of it.
 */
export class ClaudeConversation {
  readonly #above = new Map<string, { type: string; parent: string; isStop: boolean }>();
  #last = '';

  take(text: string): void {
    if (!text.includes('"parentUuid":')) return;
    const { uuid, type = '', parentUuid, isSidechain } = lineIn(text);
    if (uuid === undefined || isSidechain === true) return;
    // With the colon: a message can have the same words, but its quotes are escaped.
    const isStop = type === 'user' && text.includes(':"[Request interrupted by user');
    this.#above.set(uuid, { type, parent: parentUuid ?? '', isStop });
    this.#last = uuid;
  }

  /** Null: this line is no part of it. */
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
