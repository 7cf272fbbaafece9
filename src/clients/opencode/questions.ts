import * as v from 'valibot';
import type { Answering, AskedQuestion, Choice, OpenQuestion, QuestionDriver } from '../../core/ports/session.ts';
import { type Described, Schema } from '../../core/schema.ts';
import { isRecord } from '../../wire/jsonrpc.ts';
import { AskedTimes } from '../asked-times.ts';
import type { OpenCodeRecord } from './record.ts';
import { NoServer } from '../loopback.ts';
import { NotTaken } from './server.ts';

/** Time for OpenCode to record an answer, ms. On a busy machine its first turn was seen to pause for 15 s. */
const RECORDED_MS = 30_000;
/** How long to wait for the end of an allowed call, ms. A command may run for hours. */
const ALLOWED_MS = 500;
const LOOK_MS = 20;
/** Time to find the OpenCode that asks the question, ms. */
const AGAIN_MS = 2000;
/** Ids of OpenCode begin with the last 36 bits of the time in ms. */
const CYCLE_MS = 2 ** 36;

const Tool = () => v.optional(v.object({ messageID: v.string(), callID: v.string() }));
const Permission = new Schema(() =>
  v.object({
    id: v.string(),
    sessionID: v.string(),
    permission: v.string(),
    patterns: v.optional(v.array(v.string()), []),
    always: v.optional(v.array(v.string()), []),
    metadata: v.optional(v.record(v.string(), v.unknown()), {}),
    tool: Tool(),
  }),
);
const Question = new Schema(() =>
  v.object({
    id: v.string(),
    sessionID: v.string(),
    questions: v.pipe(
      v.array(
        v.object({
          question: v.string(),
          header: v.optional(v.string(), ''),
          options: v.optional(v.array(v.object({ label: v.string(), description: v.optional(v.string(), '') })), []),
          multiple: v.optional(v.boolean(), false),
        }),
      ),
      v.minLength(1),
    ),
    tool: Tool(),
  }),
);

/** The API of the OpenCode that runs a session: its server, or our plugin in its window. */
export interface QuestionApi {
  get(path: string): Promise<unknown>;
  /** Throws NotTaken if OpenCode refuses the answer, because it does not wait for it any more. */
  post(path: string, body: object): Promise<unknown>;
}

/** A waiting question, and how to post an answer to it. */
interface Request extends Omit<OpenQuestion, 'call' | 'askedAt'> {
  id: string;
  tool: Described<typeof Permission>['tool'];
  path: string;
  reply(choices: readonly Choice[]): object;
  /** Did the model's waiting call end with this answer? Null while it has not ended. */
  isDone(state: Record<string, unknown>, choices: readonly Choice[]): boolean | null;
}

type Found = { api: QuestionApi; request: Request } | 'nobody' | null;

/**
 * The questions of an OpenCode 1.18 session to its user: permissions, and questions of the model. OpenCode takes one answer, from its window or
 * its API, and refuses all later ones, so an answer cannot reach a later dialog.
 */
export class OpenCodeQuestions implements QuestionDriver {
  readonly #askedTimes = new AskedTimes();

  constructor(
    /** Null if there is no API: the session does not run, or a person opened it without our plugin. */
    readonly api: () => Promise<QuestionApi | null>,
    readonly record: OpenCodeRecord,
    readonly conversation: () => string | null,
  ) {}

  async open(): Promise<OpenQuestion | null> {
    const found = await this.#look();
    if (!found || found === 'nobody') return null;
    const { id, kind, questions } = found.request;
    return { call: id, kind, questions, askedAt: this.#askedTimes.of(id, timeIn(id, Date.now())) };
  }

  async answer(call: string, choices: readonly Choice[], signal: AbortSignal): Promise<Answering> {
    let found: Found;
    try {
      found = await this.#lookAgain();
    } catch (error) {
      return { outcome: 'left', because: wordsOf(error) };
    }
    if (found === 'nobody')
      return { outcome: 'left', because: 'Parley cannot reach OpenCode now; answer in its window' };
    if (found?.request.id !== call) return { outcome: 'gone' };
    if (signal.aborted) return { outcome: 'left', because: 'Parley was stopped before it answered' };
    const { api, request } = found;
    try {
      await api.post(request.path, request.reply(choices));
    } catch (error) {
      if (error instanceof NotTaken) return { outcome: 'gone' };
      return { outcome: error instanceof NoServer ? 'left' : 'unknown', because: wordsOf(error) };
    }
    return this.#resumed(request, choices);
  }

  /** Looks again for `AGAIN_MS`: for a moment, a process that OpenCode starts seems to be a second OpenCode in its folder. */
  async #lookAgain(): Promise<Found> {
    const end = performance.now() + AGAIN_MS;
    let found = await this.#look();
    for (; found === 'nobody' && performance.now() < end; found = await this.#look()) await Bun.sleep(LOOK_MS);
    return found;
  }

  /** The first waiting question of this conversation or its subagents. `nobody`: there is no API to ask. Null: no question waits. */
  async #look(): Promise<Found> {
    // First the API: this look may find the conversation that a person opened.
    const api = await this.api();
    const conversation = this.conversation();
    if (!api || conversation === null) return 'nobody';
    for (const [path, read] of [
      ['/permission', permissionIn],
      ['/question', questionIn],
    ] as const) {
      const asked = await api.get(path).catch(ifNobody);
      for (const one of Array.isArray(asked) ? (asked as unknown[]) : []) {
        const request = read(one);
        const session = isRecord(one) ? String(one['sessionID']) : '';
        if (request && this.record.rootOf(session) === conversation) return { api, request };
      }
    }
    return null;
  }

  /** OpenCode took the answer. Waits until the record of the waiting call shows that the work continues with it. */
  async #resumed(request: Request, choices: readonly Choice[]): Promise<Answering> {
    const isAllowed = request.kind === 'permission' && !isRejection(choices);
    const end = performance.now() + (isAllowed ? ALLOWED_MS : RECORDED_MS);
    for (; performance.now() < end; await Bun.sleep(LOOK_MS)) {
      const state = request.tool && this.record.callState(request.tool.messageID, request.tool.callID);
      const isDone = state ? request.isDone(state, choices) : null;
      if (isDone !== null) return { outcome: isDone ? 'answered' : 'gone' };
    }
    if (isAllowed || !request.tool) return { outcome: 'answered' };
    return { outcome: 'unknown', because: 'OpenCode did not record the answer' };
  }
}

/** The labels of OpenCode's own window, in its order, and the words of its API. */
const DECISIONS = [
  ['Allow once', 'once'],
  ['Allow always', 'always'],
  ['Reject', 'reject'],
] as const;

function permissionIn(value: unknown): Request | null {
  const parsed = Permission.safeParse(value);
  if (!parsed.success) return null;
  const { id, permission, patterns, always, metadata, tool } = parsed.data;
  const { command, diff } = metadata;
  const about =
    typeof command === 'string' ? `$ ${command}` : typeof diff === 'string' && diff !== '' ? diff : patterns.join('\n');
  const options = DECISIONS.map(([label, word]) => ({
    label,
    ...(word === 'always' && always.length > 0 && { description: `until OpenCode is restarted: ${always.join(', ')}` }),
  }));
  return {
    id,
    tool,
    kind: 'permission',
    questions: [
      { question: `Permission required: ${permission}\n\n${about}`, header: permission, options, multiSelect: false },
    ],
    path: `/permission/${id}/reply`,
    reply: (choices) => ({ reply: DECISIONS[chosen(choices)]?.[1] ?? 'reject' }),
    isDone({ status }, choices) {
      if (status !== 'completed' && status !== 'error') return null;
      return !isRejection(choices) || status === 'error';
    },
  };
}

function questionIn(value: unknown): Request | null {
  const parsed = Question.safeParse(value);
  if (!parsed.success) return null;
  const { id, questions, tool } = parsed.data;
  const shown = questions.map(({ question, header, options, multiple }): AskedQuestion => ({
    question,
    header,
    options: options.map(({ label, description }) => ({ label, ...(description !== '' && { description }) })),
    multiSelect: multiple,
  }));
  const answers = (choices: readonly Choice[]): string[][] =>
    shown.map(({ options }, at) => {
      const choice = choices[at] ?? { options: [] };
      return 'text' in choice ? [choice.text] : choice.options.map((one) => options[one]?.label ?? '');
    });
  return {
    id,
    tool,
    kind: 'question',
    questions: shown,
    path: `/question/${id}/reply`,
    reply: (choices) => ({ answers: answers(choices) }),
    isDone({ status, metadata }, choices) {
      if (status === 'error') return false;
      if (status !== 'completed') return null;
      const told = isRecord(metadata) ? metadata['answers'] : undefined;
      return JSON.stringify(told) === JSON.stringify(answers(choices));
    },
  };
}

function chosen([choice]: readonly Choice[]): number {
  return choice && 'options' in choice ? (choice.options[0] ?? -1) : -1;
}

function isRejection(choices: readonly Choice[]): boolean {
  return (DECISIONS[chosen(choices)]?.[1] ?? 'reject') === 'reject';
}

/** The creation time in an id, Unix ms. */
function timeIn(id: string, now: number): number {
  const [, digits] = /^[a-z]+_([0-9a-f]{12})/.exec(id) ?? [];
  if (digits === undefined) return now;
  const at = Math.floor(Number.parseInt(digits, 16) / 0x1000);
  return now - (((((now % CYCLE_MS) - at) % CYCLE_MS) + CYCLE_MS) % CYCLE_MS);
}

function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function ifNobody(error: unknown): null {
  if (error instanceof NoServer) return null;
  throw error;
}
