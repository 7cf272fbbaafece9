import * as v from 'valibot';
import { dirname } from 'node:path';
import type { Answering, AskedQuestion, Choice, OpenQuestion, QuestionDriver } from '../../core/ports/session.ts';
import { Schema } from '../../core/schema.ts';
import { endOfLines, linesFrom } from '../../sessions/follow.ts';
import { isRecord } from '../../wire/jsonrpc.ts';
import { AskedTimes } from '../asked-times.ts';
import { NoServer } from '../loopback.ts';
import { type KimiIndex, objectIn } from './record.ts';
import { type KimiServer, WebRefusal } from './web.ts';

/** Limit for Kimi to record the answer, ms. */
const RECORDED_MS = 10_000;
/** Limit for an approved tool call to end, ms. A command may run for hours, so this does not wait for it. */
const APPROVED_MS = 500;
const LOOK_MS = 20;

const Asked = {
  /** The agent that asks: `main`, or a subagent. */
  agent_id: v.optional(v.string(), 'main'),
  tool_call_id: v.optional(v.string()),
  created_at: v.string(),
};
const Approval = new Schema(() =>
  v.object({
    approval_id: v.string(),
    tool_name: v.string(),
    action: v.string(),
    tool_input_display: v.optional(v.record(v.string(), v.unknown()), {}),
    ...Asked,
  }),
);
const Question = new Schema(() =>
  v.object({
    question_id: v.string(),
    questions: v.pipe(
      v.array(
        v.object({
          id: v.string(),
          question: v.string(),
          header: v.optional(v.string(), ''),
          body: v.optional(v.string(), ''),
          options: v.array(v.object({ id: v.string(), label: v.string(), description: v.optional(v.string(), '') })),
          multi_select: v.optional(v.boolean(), false),
        }),
      ),
      v.minLength(1),
    ),
    ...Asked,
  }),
);

/** An open question, with the path and the body for its answer. */
interface Request extends Omit<OpenQuestion, 'call' | 'askedAt'> {
  id: string;
  agent: string;
  toolCall: string | undefined;
  at: number;
  path: string;
  reply(choices: readonly Choice[]): object;
}

/**
 * What a session on a `kimi web` asks its user: approvals, and questions of its model. Kimi takes one answer to each, from its page or by its
 * API, and refuses every later one. So an answer can never reach a later question.
 */
export class KimiWebQuestions implements QuestionDriver {
  readonly #askedTimes = new AskedTimes();

  constructor(
    /** The server of the session; null if none has it. */
    readonly server: () => Promise<KimiServer | null>,
    readonly conversation: () => string | null,
    readonly index: KimiIndex,
  ) {}

  async open(): Promise<OpenQuestion | null> {
    const found = await this.#look();
    if (!found) return null;
    const { id, kind, questions, at } = found.request;
    return { call: id, kind, questions, askedAt: this.#askedTimes.of(id, at) };
  }

  async answer(call: string, choices: readonly Choice[], signal: AbortSignal): Promise<Answering> {
    const found = await this.#look();
    if (found?.request.id !== call) return { outcome: 'gone' };
    if (signal.aborted) return { outcome: 'left', because: 'it was stopped before' };
    const { server, request, session } = found;
    const record = this.#recordOf(session, request.agent);
    const from = record === null ? 0 : endOfLines(record);
    try {
      await server.call('POST', request.path, request.reply(choices));
    } catch (error) {
      // The question was answered already, or its turn has ended.
      if (error instanceof WebRefusal) return { outcome: 'gone' };
      const because = error instanceof Error ? error.message : String(error);
      return { outcome: error instanceof NoServer ? 'left' : 'unknown', because };
    }
    return record === null ? { outcome: 'answered' } : this.#resumed(record, from, request, choices);
  }

  /** The oldest open question. Lists questions only if the session has one, because listing loads the session. */
  async #look(): Promise<{ server: KimiServer; session: string; request: Request } | null> {
    const server = await this.server();
    const session = this.conversation();
    if (!server || session === null) return null;
    const known = await server.session(session).catch(ifNobody);
    if (!known || known.pending_interaction === 'none') return null;
    const waiting: Request[] = [];
    for (const [path, read] of [
      ['approvals', approvalIn],
      ['questions', questionIn],
    ] as const) {
      const place = `/sessions/${session}/${path}`;
      const data = await server.call('GET', `${place}?status=pending`).catch(ifNobody);
      const items: unknown[] = isRecord(data) && Array.isArray(data['items']) ? data['items'] : [];
      waiting.push(...items.flatMap((item) => read(item, place) ?? []));
    }
    const [request] = waiting.toSorted((a, b) => a.at - b.at);
    return request ? { server, session, request } : null;
  }

  /** After Kimi took the answer: waits until its record has the answer and the end of the tool call that waited for it. */
  async #resumed(record: string, from: number, request: Request, choices: readonly Choice[]): Promise<Answering> {
    const isLong = request.kind === 'permission' && isApproval(request.reply(choices));
    const began = performance.now();
    let isResolved = false;
    for (let at = from; performance.now() - began < RECORDED_MS; await Bun.sleep(LOOK_MS)) {
      for (const { text, to } of linesFrom(record, at)) {
        at = to;
        isResolved ||= isEntry(text, 'interaction.resolved', request.id);
        if (isResolved && isEnd(text, request.toolCall)) return { outcome: 'answered' };
      }
      if (isResolved && isLong && performance.now() - began > APPROVED_MS) return { outcome: 'answered' };
    }
    return isResolved
      ? { outcome: 'answered' }
      : { outcome: 'unknown', because: 'Kimi took the answer, but its record does not have it' };
  }

  #recordOf(session: string, agent: string): string | null {
    const main = this.index.find(session)?.path;
    return main === undefined ? null : `${dirname(dirname(main))}/${agent}/wire.jsonl`;
  }
}

function isEntry(line: string, type: string, id: string): boolean {
  return line.startsWith(`{"type":"${type}"`) && objectIn(line)?.['id'] === id;
}

/** Whether this line is the result of this tool call. */
function isEnd(line: string, toolCall: string | undefined): boolean {
  if (!line.startsWith('{"type":"context.append_loop_event"') || !line.includes('"tool.result"')) return false;
  const event = objectIn(line)?.['event'];
  return isRecord(event) && event['type'] === 'tool.result' && event['toolCallId'] === toolCall;
}

interface Decision {
  label: string;
  description?: string;
  reply: { decision: 'approved' | 'rejected' | 'cancelled'; scope?: 'session'; selected_label?: string };
}

const REJECT: Decision = { label: 'Reject', reply: { decision: 'rejected' } };

/** The possible decisions, in the order and the words of Kimi's own window. */
function decisionsOf({ kind, options }: Record<string, unknown>): readonly Decision[] {
  if (kind === 'plan_review') {
    const ways = (Array.isArray(options) ? (options as unknown[]) : []).filter(isRecord);
    const labels = ways.length > 1 ? ways : [{ label: 'Approve' }];
    const approved = labels.map(({ label, description }): Decision => ({
      label: String(label),
      ...(typeof description === 'string' && description !== '' && { description }),
      reply: { decision: 'approved', selected_label: String(label) },
    }));
    const refused = ['Reject', 'Revise'].map((label): Decision => ({
      label,
      reply: { decision: 'rejected', selected_label: label },
    }));
    return [...approved, ...refused];
  }
  // Starting a goal also changes the permission mode, and only Kimi's own page names the modes.
  if (kind === 'goal_start') return [REJECT];
  return [
    { label: 'Approve once', reply: { decision: 'approved' } },
    { label: 'Approve for this session', reply: { decision: 'approved', scope: 'session' } },
    REJECT,
  ];
}

/** What the call is about to do, as far as Kimi shows it. */
function aboutIn(action: string, display: Record<string, unknown>): string {
  const { kind, command, cwd, plan, path, before, after, content, detail } = display;
  const text = (value: unknown): string => (typeof value === 'string' ? value : '');
  if (kind === 'command') return `$ ${text(command)}${text(cwd) && `\n(in ${text(cwd)})`}`;
  if (kind === 'plan_review') return text(plan);
  const change = text(after) === '' ? '' : `\n- ${text(before)}\n+ ${text(after)}`;
  return [action, text(path) + change, text(content), text(detail)].filter((part) => part !== '').join('\n');
}

function approvalIn(value: unknown, place: string): Request | null {
  const parsed = Approval.safeParse(value);
  if (!parsed.success) return null;
  const {
    approval_id: id,
    tool_name,
    action,
    tool_input_display: display,
    agent_id,
    tool_call_id,
    created_at,
  } = parsed.data;
  const decisions = decisionsOf(display);
  const options = decisions.map(({ label, description }) => ({ label, ...(description && { description }) }));
  const isPlan = display['kind'] === 'plan_review';
  const question = `${isPlan ? 'Approve this plan?' : `Approval required: ${tool_name}`}\n\n${aboutIn(action, display)}`;
  return {
    id,
    agent: agent_id,
    toolCall: tool_call_id,
    at: Date.parse(created_at),
    kind: isPlan ? 'plan' : 'permission',
    questions: [{ question, header: tool_name, options, multiSelect: false }],
    path: `${place}/${id}`,
    reply: ([choice]) => {
      const chosen = choice && 'options' in choice ? decisions[choice.options[0] ?? -1] : undefined;
      return (chosen ?? REJECT).reply;
    },
  };
}

function questionIn(value: unknown, place: string): Request | null {
  const parsed = Question.safeParse(value);
  if (!parsed.success) return null;
  const { question_id: id, questions, agent_id, tool_call_id, created_at } = parsed.data;
  const answerTo = (at: number, choice: Choice | undefined): object => {
    if (!choice) return { kind: 'skipped' };
    if ('text' in choice) return { kind: 'other', text: choice.text };
    const ids = choice.options.map((one) => questions[at]?.options[one]?.id ?? '');
    return questions[at]?.multi_select ? { kind: 'multi', option_ids: ids } : { kind: 'single', option_id: ids[0] };
  };
  return {
    id,
    agent: agent_id,
    toolCall: tool_call_id,
    at: Date.parse(created_at),
    kind: 'question',
    questions: questions.map(({ question, header, body, options, multi_select }): AskedQuestion => ({
      question: body === '' ? question : `${question}\n\n${body}`,
      header,
      options: options.map(({ label, description }) => ({ label, ...(description !== '' && { description }) })),
      multiSelect: multi_select,
    })),
    path: `${place}/${id}`,
    reply: (choices) => ({
      answers: Object.fromEntries(questions.map((one, at) => [one.id, answerTo(at, choices[at])])),
    }),
  };
}

function isApproval(reply: object): boolean {
  return 'decision' in reply && reply.decision === 'approved';
}

function ifNobody(error: unknown): null {
  if (error instanceof NoServer || error instanceof WebRefusal) return null;
  throw error;
}
