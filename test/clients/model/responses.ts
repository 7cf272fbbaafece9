// The Responses wire, as far as Codex uses it.
import { Asked, type Piece } from './asked.ts';
import { events, json } from './answers.ts';
import type { Call, Step } from './steps.ts';

interface Part {
  type: string;
  text?: string;
}

/** A message, a tool call or its output: what has no text of its own is still searched. */
interface Item {
  type: string;
  role?: string;
  content?: string | Part[];
  name?: string;
  namespace?: string;
  arguments?: string;
  output?: string | Part[];
}

/** A function, or a namespace with functions in it: that is how Codex offers the tools of an MCP server. */
interface Tool {
  type: string;
  name?: string;
  tools?: Tool[];
}

interface Body {
  model?: string;
  stream?: boolean;
  instructions?: string;
  input?: Item[];
  tools?: Tool[];
}

export function readResponses(body: unknown, headers: Headers): Asked {
  const { instructions = '', input = [], tools = [] } = body as Body;
  const prompt: Piece = { role: 'system', kind: 'prompt', text: instructions };
  return new Asked('responses', [prompt, ...input.flatMap(piecesOf)], tools.flatMap(namesOf), headers, body);
}

function piecesOf(item: Item): Piece[] {
  switch (item.type) {
    case 'message':
      return parts(item.content).map((part) => ({ role: roleOf(item.role), kind: 'text', text: textOf(part) }));
    case 'function_call':
      return [{ role: 'assistant', kind: 'tool call', text: `${calledName(item)} ${item.arguments ?? ''}` }];
    case 'function_call_output':
      return [{ role: 'user', kind: 'tool result', text: parts(item.output).map(textOf).join('\n') }];
    default:
      return [{ role: 'assistant', kind: 'text', text: JSON.stringify(item) }];
  }
}

/** What hooks say comes as a message of the developer. */
function roleOf(role: string | undefined): Piece['role'] {
  return role === 'user' || role === 'assistant' ? role : 'system';
}

function parts(content: string | Part[] | undefined): Part[] {
  return typeof content === 'string' ? [{ type: 'text', text: content }] : (content ?? []);
}

function textOf(part: Part): string {
  return part.text ?? JSON.stringify(part);
}

function calledName({ namespace, name }: Item): string {
  return namespace === undefined ? (name ?? '') : `${namespace}__${name}`;
}

function namesOf({ type, name, tools = [] }: Tool): string[] {
  return type === 'namespace' ? tools.map((tool) => `${name}__${tool.name}`) : [name ?? type];
}

export function answerResponses(asked: Asked, step: Step, turn: number): Response {
  const { model = 'scripted', stream = false, tools = [] } = asked.body as Body;
  const output = itemsOf(step, turn, tools);
  const usage = { input_tokens: 10, output_tokens: 10, total_tokens: 20 };
  const response = { id: `resp_${turn}`, object: 'response', model, status: 'completed', output, usage };
  return stream ? events(streamed(response)) : json(response);
}

function itemsOf(step: Step, turn: number, tools: Tool[]): object[] {
  const message = {
    type: 'message',
    role: 'assistant',
    id: `msg_${turn}`,
    content: [{ type: 'output_text', text: step.text, annotations: [] }],
  };
  const calls = (step.calls ?? []).map((call, at) => ({
    type: 'function_call',
    id: `fc_${turn}_${at}`,
    call_id: `call_${turn}_${at}`,
    ...functionOf(call, tools),
    arguments: JSON.stringify(call.input),
  }));
  return [...(step.text === undefined ? [] : [message]), ...calls];
}

/** A tool in a namespace is called by both names. */
function functionOf({ tool }: Call, tools: Tool[]): { namespace?: string; name: string } {
  const space = tools.find(({ type, name }) => type === 'namespace' && tool.startsWith(`${name}__`))?.name;
  return space === undefined ? { name: tool } : { namespace: space, name: tool.slice(space.length + 2) };
}

function streamed(response: { id: string; output: object[] }): object[] {
  return [
    { type: 'response.created', response: { ...response, status: 'in_progress', output: [] } },
    ...response.output.flatMap((item, output_index) => [
      { type: 'response.output_item.added', output_index, item },
      { type: 'response.output_item.done', output_index, item },
    ]),
    { type: 'response.completed', response },
  ];
}
