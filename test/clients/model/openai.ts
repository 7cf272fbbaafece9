// The chat completions wire, as far as OpenCode uses it.
import { Asked, type Piece } from './asked.ts';
import { events, json } from './answers.ts';
import type { Step } from './steps.ts';

interface Entry {
  role: 'system' | 'developer' | 'user' | 'assistant' | 'tool';
  content?: string | { type: string; text?: string }[] | null;
  tool_calls?: { function: { name: string; arguments: string } }[];
}

interface Body {
  model?: string;
  stream?: boolean;
  messages?: Entry[];
  tools?: { function?: { name?: string } }[];
}

export function readCompletions(body: unknown, headers: Headers): Asked {
  const { messages = [], tools = [] } = body as Body;
  const names = tools.flatMap((tool) => (tool.function?.name ? [tool.function.name] : []));
  return new Asked('openai', messages.flatMap(piecesOf), names, headers, body);
}

function piecesOf({ role, content, tool_calls = [] }: Entry, at: number): Piece[] {
  const parts = typeof content === 'string' ? [{ type: 'text', text: content }] : (content ?? []);
  const texts = parts.map((part) => ({ ...placeOf(role, at), text: part.text ?? JSON.stringify(part) }));
  const calls = tool_calls.map((one): Piece => ({
    role: 'assistant',
    kind: 'tool call',
    text: `${one.function.name} ${one.function.arguments}`,
  }));
  return [...texts, ...calls];
}

function placeOf(role: Entry['role'], at: number): Omit<Piece, 'text'> {
  if (role === 'tool') return { role: 'user', kind: 'tool result' };
  if (role === 'user' || role === 'assistant') return { role, kind: 'text' };
  return { role: 'system', kind: at === 0 ? 'prompt' : 'text' };
}

export function answerCompletions(asked: Asked, step: Step, turn: number): Response {
  const { model = 'scripted', stream = false } = asked.body as Body;
  const head = { id: `chatcmpl-${turn}`, created: 0, model };
  const usage = { prompt_tokens: 10, completion_tokens: 10, total_tokens: 20 };
  const finish_reason = step.calls ? 'tool_calls' : 'stop';
  const message = {
    role: 'assistant',
    content: step.text ?? null,
    ...(step.calls && { tool_calls: callsOf(step, turn) }),
  };
  if (!stream)
    return json({ ...head, object: 'chat.completion', choices: [{ index: 0, message, finish_reason }], usage });
  const chunk = (choices: object[]) => ({ ...head, object: 'chat.completion.chunk', choices });
  return events([
    chunk([{ index: 0, delta: message, finish_reason: null }]),
    chunk([{ index: 0, delta: {}, finish_reason }]),
    { ...chunk([]), usage },
    '[DONE]',
  ]);
}

function callsOf(step: Step, turn: number): object[] {
  return (step.calls ?? []).map(({ tool, input }, index) => ({
    index,
    id: `call_${turn}_${index}`,
    type: 'function',
    function: { name: tool, arguments: JSON.stringify(input) },
  }));
}
