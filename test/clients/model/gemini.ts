// The wire of the Gemini API, as far as Gemini CLI uses it: generateContent, and streamGenerateContent with server-sent events.
import { Asked, type Piece } from './asked.ts';
import { events, json } from './answers.ts';
import type { Step } from './steps.ts';

interface Part {
  text?: string;
  functionCall?: { name: string; args?: unknown };
  functionResponse?: { name: string; response?: unknown };
}

interface Content {
  role?: 'user' | 'model';
  parts?: Part[];
}

interface Body {
  contents?: Content[];
  systemInstruction?: Content;
  tools?: { functionDeclarations?: { name?: string }[] }[];
}

/** `POST /v1beta/models/<model>:generateContent`; null if the path is another one. Titles, the choice of a model and the like offer no tools. */
export function geminiMethod(pathname: string): 'generateContent' | 'streamGenerateContent' | null {
  const method = /^\/v1beta\/models\/[^/]+:(generateContent|streamGenerateContent)$/.exec(pathname)?.[1];
  return (method as 'generateContent' | 'streamGenerateContent' | undefined) ?? null;
}

export function readGemini(body: unknown, headers: Headers): Asked {
  const { contents = [], systemInstruction, tools = [] } = body as Body;
  const pieces = [
    ...(systemInstruction?.parts ?? []).map((part): Piece => ({ role: 'system', kind: 'prompt', text: textOf(part) })),
    ...contents.flatMap(({ role, parts = [] }) => parts.map((part) => pieceOf(role, part))),
  ];
  const names = tools.flatMap(({ functionDeclarations = [] }) =>
    functionDeclarations.flatMap(({ name }) => name ?? []),
  );
  return new Asked('gemini', pieces, names, headers, body);
}

function pieceOf(role: Content['role'], part: Part): Piece {
  if (part.functionCall)
    return {
      role: 'assistant',
      kind: 'tool call',
      text: `${part.functionCall.name} ${JSON.stringify(part.functionCall.args)}`,
    };
  if (part.functionResponse) return { role: 'user', kind: 'tool result', text: outputOf(part.functionResponse) };
  return { role: role === 'model' ? 'assistant' : 'user', kind: 'text', text: textOf(part) };
}

/** What a tool printed, as it is: in JSON its lines would be one. */
function outputOf({ response }: { response?: unknown }): string {
  const { output } = (response ?? {}) as { output?: unknown };
  return typeof output === 'string' ? output : JSON.stringify(response);
}

function textOf(part: Part): string {
  return part.text ?? JSON.stringify(part);
}

export function answerGemini(step: Step, turn: number, isStream: boolean): Response {
  const calls = (step.calls ?? []).map(({ tool, input }) => ({ functionCall: { name: tool, args: input } }));
  const parts = [...(step.text === undefined ? [] : [{ text: step.text }]), ...calls];
  const answer = {
    candidates: [{ index: 0, content: { role: 'model', parts }, finishReason: 'STOP' }],
    usageMetadata: { promptTokenCount: 10, candidatesTokenCount: 10, totalTokenCount: 20 },
    modelVersion: 'scripted',
    responseId: `resp_${turn}`,
  };
  return isStream ? events([answer]) : json(answer);
}
