// The Anthropic Messages wire, as far as Claude Code uses it.
import { Asked, type Piece } from './asked.ts';
import { events, json } from './answers.ts';
import type { Step } from './steps.ts';

interface Block {
  type: string;
  text?: string;
  thinking?: string;
  name?: string;
  input?: unknown;
  content?: string | Block[];
}

interface Body {
  model?: string;
  stream?: boolean;
  system?: string | Block[];
  messages?: { role: Piece['role']; content: string | Block[] }[];
  tools?: { name?: string }[];
}

export function readMessages(body: unknown, headers: Headers): Asked {
  const { system = [], messages = [], tools = [] } = body as Body;
  const pieces = [
    ...blocks(system).map((block): Piece => ({ role: 'system', kind: 'prompt', text: block.text ?? '' })),
    ...messages.flatMap(({ role, content }) => blocks(content).map((block) => pieceOf(role, block))),
  ];
  const names = tools.flatMap(({ name }) => (name ? [name] : []));
  return new Asked('anthropic', pieces, names, headers, body);
}

function blocks(content: string | Block[]): Block[] {
  return typeof content === 'string' ? [{ type: 'text', text: content }] : content;
}

function pieceOf(role: Piece['role'], block: Block): Piece {
  switch (block.type) {
    case 'tool_result':
      return {
        role,
        kind: 'tool result',
        text: blocks(block.content ?? '')
          .map(textOf)
          .join('\n'),
      };
    case 'tool_use':
      return { role, kind: 'tool call', text: `${block.name} ${JSON.stringify(block.input)}` };
    default:
      return { role, kind: 'text', text: textOf(block) };
  }
}

/** The text of a block; a kind that is not known is still searched. */
function textOf(block: Block): string {
  return block.text ?? block.thinking ?? JSON.stringify(block);
}

export function answerMessages(asked: Asked, step: Step, turn: number): Response {
  const { model = 'scripted', stream = false } = asked.body as Body;
  const content = contentOf(step, turn);
  const message = {
    id: `msg_${turn}`,
    type: 'message',
    role: 'assistant',
    model,
    content,
    stop_reason: step.calls ? 'tool_use' : 'end_turn',
    stop_sequence: null,
    usage: { input_tokens: 10, output_tokens: 10 },
  };
  return stream ? events(streamed(message)) : json(message);
}

type Content = { type: 'text'; text: string } | { type: 'tool_use'; id: string; name: string; input: unknown };

function contentOf(step: Step, turn: number): Content[] {
  const text = step.text === undefined ? [] : [{ type: 'text' as const, text: step.text }];
  const calls = (step.calls ?? []).map(({ tool, input }, at) => ({
    type: 'tool_use' as const,
    id: `toolu_${turn}_${at}`,
    name: tool,
    input,
  }));
  return [...text, ...calls];
}

function streamed(message: { content: Content[]; stop_reason: string; usage: { output_tokens: number } }): object[] {
  return [
    { type: 'message_start', message: { ...message, content: [], stop_reason: null } },
    ...message.content.flatMap((content, index) => [
      { type: 'content_block_start', index, content_block: emptied(content) },
      { type: 'content_block_delta', index, delta: deltaOf(content) },
      { type: 'content_block_stop', index },
    ]),
    { type: 'message_delta', delta: { stop_reason: message.stop_reason, stop_sequence: null }, usage: message.usage },
    { type: 'message_stop' },
  ];
}

function emptied(content: Content): object {
  return content.type === 'text' ? { ...content, text: '' } : { ...content, input: {} };
}

function deltaOf(content: Content): object {
  return content.type === 'text'
    ? { type: 'text_delta', text: content.text }
    : { type: 'input_json_delta', partial_json: JSON.stringify(content.input) };
}
