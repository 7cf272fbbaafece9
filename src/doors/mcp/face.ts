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
  /**
   * Calls one of the tools and answers with one text, once. Whoever takes something away from others answers at the last moment at
   * which that can be undone: `answer` throws if nobody wants it any more. A `Refusal` is told to the model.
   */
  call(name: string, given: unknown, answer: (text: string) => void): Promise<void>;
  /** How a refusal is worded here. */
  refusal(text: string): string;
}
