/** The fields of a transcript line of Claude Code 2.1 that link the conversation. */
interface Line {
  type?: string;
  uuid?: string;
  parentUuid?: string | null;
  isSidechain?: boolean;
}

/** What follows a line in the conversation. */
interface Place {
  /** A line of the client or the model follows. */
  hasEnd: boolean;
  /** The note follows that the user stopped the model. */
  isStopped: boolean;
}

/**
 * The conversation in a transcript: the last line, its parent, and so on up to the first. A client that is restarted continues with exactly
 * these lines. Three things are in the transcript but not in the conversation: a prompt that the user took back, everything after a point
 * to which the user rewound, and compacted lines.
 */
export class ClaudeConversation {
  readonly #lines = new Map<string, { type: string; parent: string; isStop: boolean }>();
  #last = '';

  take(text: string): void {
    if (!text.includes('"parentUuid":')) return;
    const { uuid, type = '', parentUuid, isSidechain } = lineIn(text);
    if (uuid === undefined || isSidechain === true) return;
    // A text that quotes this note does not match: inside a JSON string the quote in front of it is escaped.
    const isStop = type === 'user' && text.includes(':"[Request interrupted by user');
    this.#lines.set(uuid, { type, parent: parentUuid ?? '', isStop });
    this.#last = uuid;
  }

  /** Null if this line is not in the conversation. */
  placeOf(uuid: string): Place | null {
    const place = { hasEnd: false, isStopped: false };
    for (let at = this.#last, line = this.#lines.get(at); line; line = this.#lines.get(at)) {
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
