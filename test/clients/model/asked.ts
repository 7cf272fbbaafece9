// What a client asked its model, in one form for all wires. "It reached the model" always means: it stands in one of
// these texts. Nothing else that a client shows or logs is proof.

/** One piece of text in a request, and where it stood. */
export interface Piece {
  /** `system` also for entries of that role between the messages: that is where Claude Code puts what hooks say. */
  role: 'system' | 'user' | 'assistant';
  kind: 'prompt' | 'text' | 'tool result' | 'tool call';
  text: string;
}

/** One request that reached the model. */
export class Asked {
  /** When it came, Unix ms. */
  readonly at = Date.now();

  constructor(
    readonly wire: 'anthropic' | 'gemini' | 'openai' | 'responses',
    readonly pieces: readonly Piece[],
    /** The names of the tools that the model may call. */
    readonly tools: readonly string[],
    readonly headers: Headers,
    /** The request as it came. */
    readonly body: unknown,
  ) {}

  /** Clients also ask for titles and summaries: such a request offers no tools, and what stands in it was not put before the agent. */
  get isSide(): boolean {
    return this.tools.length === 0;
  }

  /** Everything that the model can read in this request. */
  get text(): string {
    return this.pieces.map((piece) => piece.text).join('\n');
  }

  has(text: string): boolean {
    return this.pieces.some((piece) => piece.text.includes(text));
  }

  /** How often the text stands in this request. A later request repeats the whole conversation, so "exactly once" is 1 in the last one. */
  count(text: string): number {
    return this.pieces.reduce((sum, piece) => sum + piece.text.split(text).length - 1, 0);
  }

  /** The pieces in which the text stands. */
  where(text: string): Piece[] {
    return this.pieces.filter((piece) => piece.text.includes(text));
  }
}
