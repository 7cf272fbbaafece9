import type { Choice, SessionState } from '../../core/ports/session.ts';
import type { PromptState } from '../../core/ports/session-store.ts';
import type { PendingQuestions } from '../../core/questions/questions.ts';
import type { SessionControl } from '../../core/sessions/control.ts';
import { HostUnreachable } from '../../core/ports/session.ts';
import { reasonOf, Refusal } from '../../core/refusal.ts';
import { flagsOf, hostOf } from './config.ts';
import type { ControlFile, SessionEntry } from './config.ts';
import { decisionBeside } from './dialog-hook.ts';
import type { HistoryFiles } from './history-files.ts';
import type { HistoryLine, SessionHistory } from './history.ts';
import type { Hosts } from './hosts.ts';
import { answerSaid, ControlError, endSaid, line, notInitialized, ERRORS } from './phrases.ts';
import { agentOf, askTimeOf, choiceOf, limitOf, promptText } from './requests.ts';
import type { ControlRequest } from './requests.ts';

const ASK_MS = 5 * 60_000;
const HISTORY_LINES = 100;
const SCREEN_LINES = 50;
const GIST_CHARACTERS = 100;
const QUEUE_CHARACTERS = 200;

/** The dependencies of the commands. */
export interface CommandDeps {
  control: SessionControl;
  config: ControlFile;
  hosts: Pick<Hosts, 'want'>;
  history: Pick<SessionHistory, 'page' | 'last' | 'stateOf'>;
  files: Pick<HistoryFiles, 'lastModified'>;
  version: string;
  now: () => number;
  /** When the server started, ms. */
  since: number;
  /** Tells the chat that a session was started again. */
  continued?: (session: string, agent: string) => void;
  /** How long an ask may take; 5 minutes unless a test says less. */
  askMs?: number;
}

type Answer = { ok: true } & Record<string, unknown>;
/** Writes a line to the caller before the answer. */
type Tell = (event: Record<string, unknown>) => void;
type Handler = (
  deps: CommandDeps,
  request: ControlRequest,
  tell: Tell,
  /** Aborted when the caller is gone or the server stops. */
  gone: AbortSignal,
) => Answer | Promise<Answer>;

/** Every command except `subscribe`, which is a stream. An answer has all its fields, zeros included. spec: control#commands */
const COMMANDS: Record<string, Handler> = {
  ping({ config, version, now, since }) {
    const uptime = Math.max(0, Math.floor((now() - since) / 1000));
    return { ok: true, version, uptime_seconds: uptime, sessions_active: config.sessions().length };
  },

  async sessions({ control, config, files }) {
    const settings = config.read();
    const found = await control.sessions();
    const sessions = found
      .sort((a, b) => (a.name < b.name ? -1 : 1))
      .map(({ name, host, client, state }) => {
        const entry = settings.sessions[name];
        return {
          name,
          host,
          ...shownState(state),
          cwd: entry?.path ?? '',
          last_activity: files.lastModified(name),
          client,
          flags: entry ? flagsOf(entry, settings) : [],
        };
      });
    return { ok: true, sessions };
  },

  async ask(deps, request, tell) {
    const began = deps.now();
    const deadline = began + askTimeOf(request, deps.askMs ?? ASK_MS);
    const stored = (id: number): void => {
      if (request.progress) tell({ event: 'stored', message_id: id });
    };
    const end = await deps.control.ask({ ...promptIn(deps, request), deadline, stored });
    const ms = deps.now() - began;
    if (end.outcome !== 'answered') {
      // The next server continues the prompt: the caller can look for the answer there.
      const prompt = end.outcome === 'closed' ? { message_id: end.id } : {};
      throw new ControlError(endSaid(end, clientOf(deps, request), deps.now() >= deadline), prompt);
    }
    const { reply, started } = end;
    return {
      ok: true,
      response: reply.text,
      message_id: reply.id,
      duration_ms: ms,
      // An empty answer counts: the client ended its turn without text.
      ...(reply.text === '' && { empty: true }),
      ...(started && { started }),
      ...(reply.shared && { shared: true }),
    };
  },

  async send(deps, request) {
    const sent = await deps.control.send({ ...promptIn(deps, request), deadline: null });
    if (sent.outcome !== 'sent') throw new ControlError(endSaid(sent, clientOf(deps, request), false));
    const { id, status, because, started } = sent;
    return {
      ok: true,
      message_id: id,
      status,
      ...(because && { because: line(because) }),
      ...(started && { started }),
    };
  },

  async continue(deps, request) {
    known(deps, request);
    try {
      await deps.control.restart(request.session);
    } catch (error) {
      if (!(error instanceof Refusal) || error instanceof HostUnreachable) throw error;
      // `outcome_unknown`: the client was started but did not become ready. Any other error: nothing was started.
      if (error.code === 'outcome_unknown')
        throw new ControlError(notInitialized(clientOf(deps, request)), { reason: line(error.message) });
      throw new ControlError(`failed to start: ${line(error.message)}`);
    }
    deps.continued?.(request.session, agentOf(request));
    return { ok: true };
  },

  async history(deps, request) {
    const isRemoved = request.deleted && request.session !== '' && !deps.config.session(request.session);
    if (!isRemoved) known(deps, request);
    const after = request.after ?? undefined;
    if (after !== undefined && after < 0) throw new ControlError('after must be 0 or more');
    const page = { after, limit: limitOf(request, HISTORY_LINES), from: request.from_filter || undefined };
    try {
      const messages = await deps.history.page(request.session, page);
      if (isRemoved && messages.length === 0) throw new ControlError(ERRORS.notFound);
      return { ok: true, messages };
    } catch (error) {
      throw unreadable(error);
    }
  },

  async activity({ config, history }) {
    const names = config.sessions().map(([name]) => name);
    return { ok: true, activity: await Promise.all(names.map(async (name) => lastOf(name, await history.last(name)))) };
  },

  async screenshot(deps, request) {
    known(deps, request);
    try {
      const { session, styles } = request;
      return { ok: true, response: await deps.control.screen(session, limitOf(request, SCREEN_LINES), { styles }) };
    } catch (error) {
      if (!(error instanceof Refusal) || error instanceof HostUnreachable) throw error;
      throw new ControlError(`capture failed: ${line(error.message)}`);
    }
  },

  async questions(deps, request) {
    known(deps, request);
    const pending = await deps.control.questions(request.session);
    return pending ? { ok: true, questions: shownQuestions(request.session, pending) } : { ok: true };
  },

  async answer(deps, request) {
    known(deps, request);
    const { session, question_index: question, from, timestamp } = request;
    if (question === null || question === undefined) throw new ControlError('question_index required');
    const choice = choiceOf(request);
    const agent = from.trim() === '' ? undefined : agentOf(request);
    const end = await deps.control.answer(session, { question, choice, agent, askedAt: timestamp ?? undefined });
    if (end.outcome !== 'answered') throw new ControlError(answerSaid(end));
    return { ok: true, response: `answered question ${question} with ${chosen(choice)} (${line(end.words)})` };
  },

  /** Ours: the prompts that have not ended. */
  async queue(deps, request) {
    if (request.session !== '') known(deps, request);
    const prompts = await deps.control.queue(request.session || undefined);
    const queue = prompts.map(({ id, session, state, at, text, because }) => ({
      id,
      session,
      state,
      ts: Math.floor(at / 1000),
      text: gistOf(text, QUEUE_CHARACTERS),
      ...(because !== null && { because: line(because) }),
    }));
    return { ok: true, queue };
  },

  /** Ours: takes back a prompt that was not typed yet. */
  async cancel({ control, history }, { message_id: id }) {
    if (id === null || id === undefined) throw new ControlError('message_id required');
    if (!(await control.cancel(id))) throw new ControlError(tooLate(id, await history.stateOf(id)));
    return { ok: true };
  },

  /** Ours: a hook waits for the decision on its dialog. */
  async dialog({ control }, { event }, _tell, gone) {
    const decision = await decisionBeside(control, event, gone);
    return { ok: true, ...(decision && { decision }) };
  },

  /** Ours: ends a client and its terminal. */
  async stop(deps, request) {
    known(deps, request);
    await deps.control.stop(request.session);
    return { ok: true };
  },
};

/** Answers one request. Throws the error for the caller. */
export async function answerRequest(
  deps: CommandDeps,
  request: ControlRequest,
  tell: Tell,
  gone: AbortSignal,
): Promise<Answer> {
  const handler = Object.hasOwn(COMMANDS, request.cmd) ? COMMANDS[request.cmd] : undefined;
  if (!handler) throw new ControlError(ERRORS.unknownCommand);
  try {
    return await handler(deps, request, tell, gone);
  } catch (error) {
    // Another process deleted the session meanwhile.
    const isGone = request.session !== '' && !deps.config.session(request.session);
    if (error instanceof Refusal && error.code === 'not_found' && isGone) throw new ControlError(ERRORS.notFound);
    throw error;
  }
}

/** A status as the document defines it. A session that waits for a person is idle, with a further field. */
export function shownState({ status, waitingFor }: SessionState): { status: string; waiting_for?: string } {
  switch (status) {
    case 'waiting':
      return { status: 'idle', waiting_for: waitingFor ?? 'input needed' };
    case 'starting':
      return { status: 'active' };
    default:
      return { status };
  }
}

/** Questions in the document's shape. Ours: `kind` for dialogs that are not a question of the model, and choices of several options or text. */
function shownQuestions(session: string, { kind, questions, choices, askedAt }: PendingQuestions) {
  const shown = questions.map(({ question, header, options, multiSelect }, at) => {
    const choice = choices[at] ?? null;
    return {
      question,
      header,
      options,
      multi_select: multiSelect,
      answered: choice !== null,
      ...(choice && shownChoice(choice)),
    };
  });
  const timestamp = Math.floor(askedAt / 1000);
  return { session, questions: shown, timestamp, ...(kind !== 'question' && { kind }) };
}

function shownChoice(choice: Choice): Record<string, unknown> {
  if ('text' in choice) return { answer_text: choice.text };
  const [index] = choice.options;
  return { answer_index: index, ...(choice.options.length > 1 && { answer_indexes: choice.options }) };
}

function chosen(choice: Choice): string {
  if ('text' in choice) return 'text';
  return choice.options.length === 1 ? `option ${choice.options[0]}` : `options ${choice.options.join(', ')}`;
}

/** The session of a request, or the error for it. */
function known({ config, hosts }: Pick<CommandDeps, 'config' | 'hosts'>, { session }: ControlRequest): SessionEntry {
  if (session === '') throw new ControlError(ERRORS.sessionRequired);
  const entry = config.session(session);
  if (!entry) throw new ControlError(ERRORS.notFound);
  const host = hostOf(session, entry);
  if (host !== 'local' && !Object.hasOwn(config.read().hosts, host)) throw new ControlError(ERRORS.noHost);
  hosts.want(host);
  return entry;
}

function clientOf({ config }: CommandDeps, { session }: ControlRequest): string {
  return config.session(session)?.client ?? 'claude';
}

function promptIn(deps: CommandDeps, request: ControlRequest) {
  const words = promptText(request);
  const agent = agentOf(request);
  known(deps, request);
  const { allow_commands: isAllowed, label } = deps.config.read();
  if (request.raw && !isAllowed) throw new ControlError(ERRORS.commandsOff);
  const text = label && !request.raw ? `[from ${agent}] ${words}` : words;
  return { session: request.session, text, from: 'api' as const, agent, raw: request.raw };
}

/** The beginning of the last line: of a voice message its transcription, of a photo its caption. */
function lastOf(name: string, last: HistoryLine | null): Record<string, unknown> {
  if (!last) return { name, lastMessageId: 0, lastMessageTs: 0 };
  const { id, ts, from, type, text, transcription, caption } = last;
  const spoken = type === 'voice' ? transcription : type === 'photo' ? caption : text;
  const words = [spoken, text].find((one) => typeof one === 'string') ?? '';
  return { name, lastMessageId: id, lastMessageTs: ts, lastFrom: from, lastText: gistOf(words, GIST_CHARACTERS) };
}

/** A text cut between characters. */
function gistOf(text: string, limit: number): string {
  const characters = Array.from(text.slice(0, 3 * limit));
  const gist = characters.slice(0, limit).join('');
  return characters.length > limit ? `${gist}...` : gist;
}

/** Why a prompt cannot be withdrawn. */
function tooLate(id: number, state: PromptState | null): string {
  if (state === null) return `no prompt ${id}`;
  if (state === 'submitting' || state === 'submitted') return 'too late: it was typed; its answer goes to the history';
  return `too late: it has ended (${state})`;
}

function unreadable(error: unknown): unknown {
  if (error instanceof ControlError || error instanceof Refusal) return error;
  return new ControlError(`failed to read history: ${line(reasonOf(error))}`);
}
