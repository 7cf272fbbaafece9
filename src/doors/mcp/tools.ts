import type { ToolName } from '../../protocol/host.ts';
import { SIGNALS } from '../../protocol/signal.ts';

/** As MCP's clients know the tools: a dot is not allowed in a name everywhere. `chat_who` is ours. spec: mcp#tools */
export type McpTool = 'chat_who' | (ToolName extends `chat.${infer Name}` ? `chat_${Name}` : never);

/** How the tools of a session over MCP are called, where a text of ours names one. */
export const PULL_WITH = 'chat_read_thread' satisfies McpTool;

type Shape = Record<string, unknown>;
const text: Shape = { type: 'string' };
const count: Shape = { type: 'integer' };
const flag: Shape = { type: 'boolean' };
const about = (description: string): Shape => ({ type: 'string', description });
// Some clients refuse a list of values that does not say of which type they are.
const oneOf = (values: readonly string[]): Shape => ({ type: 'string', enum: values });
const event = { eventId: text };

/** The same thing said again changes nothing: a keyed send, a reaction, a claim, an end. Nothing of others is ever destroyed. */
const LOOKS = { readOnlyHint: true };
const READS = { ...LOOKS, idempotentHint: true };
const WRITES = { destructiveHint: false, idempotentHint: true };

/**
 * What `tools/list` answers. All of it stands in the context of every session, so it is kept below 2,800 bytes: what a field
 * takes is checked by the protocol's own schemas, and a wrong one is answered with what to write instead.
 */
export const TOOL_LIST = [
  tool(
    'chat_list_events',
    'List chat events. stream: #channel; times: ISO.',
    { stream: text, conversation: text, policy: text, since: text, until: text, cursor: text, limit: count },
    [],
    READS,
  ),
  tool(
    'chat_read_thread',
    'Read the thread of an event, or a conversation.',
    { ...event, conversation: text, cursor: text, limit: count },
    [],
    READS,
  ),
  tool(
    'chat_send_message',
    'Send a chat message.',
    {
      target: about('@name or #channel'),
      text,
      inReplyTo: text,
      idempotencyKey: about('same on retry'),
      visibility: oneOf(['dm', 'thread', 'channel']),
      directedness: oneOf(['to_me', 'to_my_role', 'ambient']),
      intent: oneOf(['question', 'assignment', 'approval', 'blocker', 'fyi', 'status']),
      priority: about('urgent'),
    },
    ['target', 'text', 'idempotencyKey', 'visibility', 'directedness'],
    WRITES,
  ),
  tool(
    'chat_react',
    'Answer an event by a signal.',
    { inReplyTo: text, signal: oneOf(Object.keys(SIGNALS)), eta: text },
    ['inReplyTo', 'signal'],
    WRITES,
  ),
  tool('chat_claim', 'Claim an event before you answer it.', { ...event, release: flag }, ['eventId'], WRITES),
  tool(
    'chat_defer',
    'Put off an event you must answer.',
    { ...event, reason: text, until: text },
    ['eventId', 'reason'],
    WRITES,
  ),
  tool('chat_resolve', 'End what you owe in an event or thread.', { ...event, note: text }, ['eventId'], WRITES),
  tool('chat_who', 'Who you are, and who is here.', {}, [], LOOKS),
];

function tool(
  name: McpTool,
  description: string,
  properties: Shape,
  required: readonly string[],
  annotations: typeof LOOKS | typeof READS | typeof WRITES,
) {
  return {
    name,
    description,
    inputSchema: { type: 'object', properties, ...(required.length > 0 && { required }) },
    annotations,
  };
}

export function isMcpTool(name: unknown): name is McpTool {
  return TOOL_LIST.some((one) => one.name === name);
}
