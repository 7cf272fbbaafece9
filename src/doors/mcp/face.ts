/** The client at the other end, once it has said who it is. */
export interface McpClient {
  /** What it says that it can do. */
  capabilities: Record<string, unknown>;
  /** Tells it something unasked. */
  notify(method: string, params: object): void;
}

/**
 * What an MCP server is called, which tools it has, and what each does. One server, several faces: ours and those of the dialects.
 * spec: mcp#faces
 */
export interface Face {
  serverInfo: { name: string; version: string };
  /** What a model should know before it calls anything. */
  instructions?: string;
  /** As `tools/list` answers them. */
  tools: readonly { name: string }[];
  /** These can be called too, and are not listed: what is listed stands in the context of every session. */
  unlisted?: readonly { name: string }[];
  /** What the server can do besides tools. */
  capabilities?: object;
  /** Told once, when the client has said who it is and was answered. */
  opened?(client: McpClient): void;
  /** Told what a client says of itself beside a call (`_meta`): some name their session only there. */
  met?(meta: Record<string, unknown>): void;
  /**
   * Calls one of the tools and answers with some texts, once. Whoever takes something away from others answers at the last moment at
   * which that can be undone: `answer` throws if nobody wants it any more. A `Refusal` is told to the model. `meta` is what the client
   * says beside this call.
   */
  call(
    name: string,
    given: unknown,
    answer: (...texts: string[]) => void,
    meta: Record<string, unknown>,
  ): Promise<void>;
  /** How a refusal is worded here. */
  refusal(text: string): string;
  /** The client is gone. Nothing is told to it any more when this returns. */
  close?(): Promise<void>;
}
