import * as v from 'valibot';
import type { Answering, AskedQuestion, Choice, OpenQuestion, QuestionDriver } from '../../core/ports/session.ts';
import { reasonOf } from '../../core/refusal.ts';
import { Schema } from '../../core/schema.ts';
import { runsIn } from '../../platform/process.ts';
import { takeTurn } from '../../sessions/pty.ts';
import type { TmuxPane } from '../../sessions/tmux.ts';
import { type Dialog, dialogOn, squashed } from './dialog.ts';
import { DialogClosed, DialogKeys, NotAnswered } from './dialog-keys.ts';
import { ASK, type OpenCall, OpenCalls } from './open-calls.ts';
import { answerWords, decisionFor, type WaitingHook, hooksBeside } from './permission-hook.ts';
import type { ClaudeSession } from './state.ts';

/** Time for the client to record an answer, ms. */
const RECORDED_MS = 10_000;
const LOOK_MS = 25;
/** Keys right after a dialog opens may be lost, so they wait until it is this old, ms. */
const SETTLED_MS = 300;
/** A client loses keys in its first seconds: 4 of 20 answers at an age of 2 s, none at 5 s. Keys wait until it is this old, ms. */
const YOUNG_MS = 5000;

/** Time for the hook to start beside an open dialog, ms. */
const HOOK_MS = 5000;
/** How long to wait for the end of an allowed call, ms. Its tool may run for hours. */
const ALLOWED_MS = 500;
/** How long to wait for the end of a denied call, ms. */
const DENIED_MS = 3000;

/** The input fields of a call that its dialog shows. */
const SUBJECTS = ['command', 'file_path', 'notebook_path'];

/** The values of `waitingFor` in the registry. */
const WAITS_FOR = { question: 'input needed', permission: 'permission prompt' };
const PLAN = 'ExitPlanMode';

/** How to find the client of a session, its terminal and its transcript. */
export interface ClaudePlaces {
  live(): Promise<ClaudeSession | null>;
  terminalOf(live: ClaudeSession): Promise<TmuxPane | null>;
  transcriptOf(conversation: string): string | null;
}

/**
 * The dialogs of Claude Code. The registry says that the client waits, the transcript has the questions, and only the screen has the options
 * of a permission.
 *
 * If the PermissionRequest hook waits beside the dialog, the hook gives the answer. Otherwise keys do: if no hook waits, if the hook may belong
 * to another call, and for plans and the further options of a permission, which only the dialog has. A key is pressed only while registry,
 * transcript and screen all show this dialog as open.
 */
export class ClaudeQuestions implements QuestionDriver {
  readonly #calls = new OpenCalls();
  #transcript: { session: string; path: string | null } | null = null;

  constructor(readonly places: ClaudePlaces) {}

  async open(): Promise<OpenQuestion | null> {
    return (await this.#look())?.open ?? null;
  }

  async answer(call: string, choices: readonly Choice[], signal: AbortSignal): Promise<Answering> {
    try {
      const found = await this.#look();
      if (found?.open.call !== call) return { outcome: 'gone' };
      const { live, open } = found;
      const terminal = await this.places.terminalOf(live);
      const byHook = await this.#answerByHook(found, choices, signal, terminal ? 0 : HOOK_MS);
      if (byHook) return byHook;
      if (!terminal)
        return left(
          'Claude Code runs outside of tmux, and the hook that `ccc setup` adds does not wait beside its dialog; answer in its window',
        );
      if (!runsIn(live.pid, terminal.tty)) return left(`Claude Code does not run in ${terminal.name} any more`);
      const turn = takeTurn(terminal.tty);
      if (turn === null) return left('another program is typing into this terminal; try again');
      try {
        const from = Math.max(open.askedAt + SETTLED_MS, (live.startedAt ?? 0) + YOUNG_MS);
        await Bun.sleep(Math.max(0, from - Date.now()));
        const isOpen = async (): Promise<boolean> => {
          if (signal.aborted) throw new NotAnswered('Parley was stopped before the dialog was answered');
          return this.#isOpen(live, open);
        };
        const keys = new DialogKeys(terminal, isOpen);
        if (open.kind === 'question') await keys.answer(open.questions, choices);
        else await keys.approve((dialog) => permissionIn(live, dialog, this.#calls.open)?.call === call, choices);
        return await this.#recorded(live, open, choices);
      } finally {
        turn.release();
      }
    } catch (error) {
      if (error instanceof DialogClosed) return { outcome: 'gone' };
      const because = reasonOf(error);
      return error instanceof NotAnswered ? left(because) : { outcome: 'unknown', because };
    }
  }

  async #look(): Promise<{ live: ClaudeSession; open: OpenQuestion } | null> {
    const live = await this.places.live();
    if (live?.status !== 'waiting') return null;
    this.#read(live);
    if (live.waitingFor === WAITS_FOR.question) {
      const call = this.#calls.open.find(({ name }) => name === ASK);
      const questions = questionsIn(call);
      const askedAt = askedAtOf(live);
      this.#endHooks(live);
      return call && questions ? { live, open: { call: call.id, kind: 'question', questions, askedAt } } : null;
    }
    if (live.waitingFor !== WAITS_FOR.permission) return null;
    this.#endHooks(live);
    const terminal = await this.places.terminalOf(live);
    const screen = await terminal?.screen();
    const dialog = screen && dialogOn(screen.lines);
    const open = terminal ? dialog && permissionIn(live, dialog, this.#calls.open) : this.#permissionOfHook(live);
    return open ? { live, open } : null;
  }

  /** The hook beside the open dialog and its call; null if the pair is not certain. */
  #hookOf({ sessionId }: ClaudeSession): HookOfCall | null {
    const [hook, ...others] = hooksBeside(sessionId);
    const calls = this.#calls.open.filter((call) => hook && isHookFor(hook, call));
    const [call] = calls;
    if (!hook || !call || others.length > 0 || calls.length > 1) return null;
    hook.call = call.id;
    return { hook, call };
  }

  /** Ends hooks whose dialogs are closed: the client does not end them when a person closes the dialog. */
  #endHooks({ sessionId }: ClaudeSession): void {
    const { open } = this.#calls;
    for (const hook of hooksBeside(sessionId)) {
      hook.call ??= open.find((call) => isHookFor(hook, call))?.id;
      if (hook.call !== undefined && !open.some(({ id }) => id === hook.call)) hook.end();
    }
  }

  /** A permission outside of tmux, where the screen cannot be read: with the two options that each permission has and that the hook can decide. */
  #permissionOfHook(live: ClaudeSession): OpenQuestion | null {
    const found = this.#hookOf(live);
    if (!found || found.call.name === ASK || found.call.name === PLAN) return null;
    const { id, name, input } = found.call;
    const question = `${name}\n${JSON.stringify(input, null, 2)}`;
    const options = [{ label: 'Yes' }, { label: 'No' }];
    const questions = [{ question, header: name, options, multiSelect: false }];
    return { call: hookCall(live, id), kind: 'permission', questions, askedAt: askedAtOf(live) };
  }

  /** Null if the hook cannot answer. `waitMs`: how long to wait until the client starts the hook. */
  async #answerByHook(
    { live, open }: { live: ClaudeSession; open: OpenQuestion },
    choices: readonly Choice[],
    signal: AbortSignal,
    waitMs: number,
  ): Promise<Answering | null> {
    let found: HookOfCall | null;
    for (const until = performance.now() + waitMs; ; await Bun.sleep(LOOK_MS)) {
      if (signal.aborted) return null;
      if (!(await this.#isOpen(live, open))) return { outcome: 'gone' };
      // No await between here and the decision, so the dialog cannot change in between.
      found = this.#hookOf(live);
      if (found || performance.now() >= until) break;
    }
    if (!found || !this.#isCallOf(live, open, found.call)) return null;
    const decision = decisionFor(open, choices, found.hook.input);
    if (!decision) return null;
    found.hook.decide(decision);
    const end = await this.#recorded(live, open, choices);
    if (open.kind === 'question' || end.outcome !== 'answered') return end;
    const isDenied = decision.behavior === 'deny';
    const until = performance.now() + (isDenied ? DENIED_MS : ALLOWED_MS);
    for (; ; await Bun.sleep(LOOK_MS)) {
      this.#read(live);
      if (!this.#calls.open.some(({ id }) => id === found.call.id)) break;
      if (performance.now() < until) continue;
      return isDenied ? { outcome: 'unknown', because: 'Claude Code did not end the call that was denied' } : end;
    }
    return (this.#calls.decidedBy(found.call.id) ?? 'hook') === 'hook' ? end : { outcome: 'gone' };
  }

  /** Is the dialog about this call, and certainly about no other open call? */
  #isCallOf(live: ClaudeSession, { call, kind, questions }: OpenQuestion, one: OpenCall): boolean {
    if (kind === 'question') return one.id === call;
    if (one.name === ASK) return false;
    if (call === hookCall(live, one.id)) return true;
    const shown = this.#calls.open.filter((other) => isShownIn(questions[0]?.question ?? '', other));
    return shown.length === 1 && shown[0]?.id === one.id;
  }

  #read({ sessionId }: ClaudeSession): void {
    if (this.#transcript?.session !== sessionId || this.#transcript.path === null)
      this.#transcript = { session: sessionId, path: this.places.transcriptOf(sessionId) };
    if (this.#transcript.path !== null) this.#calls.read(this.#transcript.path);
  }

  /** Is the dialog still open, by the client's own records? Callers that press keys also check the screen. */
  async #isOpen(before: ClaudeSession, open: OpenQuestion): Promise<boolean> {
    const live = await this.places.live();
    if (live?.pid !== before.pid || live.status !== 'waiting' || live.waitingFor !== before.waitingFor) return false;
    if (open.kind !== 'question') return live.statusUpdatedAt === before.statusUpdatedAt;
    this.#read(live);
    return this.#calls.open.find(({ name }) => name === ASK)?.id === open.call;
  }

  /** Waits until the client continues, and reports whether it did so with these choices. */
  async #recorded(live: ClaudeSession, open: OpenQuestion, choices: readonly Choice[]): Promise<Answering> {
    const until = performance.now() + RECORDED_MS;
    for (;;) {
      if (open.kind === 'question') {
        this.#read(live);
        const answers = this.#calls.answersTo(open.call);
        if (answers) return isTaken(open.questions, choices, answers) ? { outcome: 'answered' } : { outcome: 'gone' };
      } else if (!(await this.#isOpen(live, open))) return { outcome: 'answered' };
      if (performance.now() > until) return { outcome: 'unknown', because: 'Claude Code did not take the answer' };
      await Bun.sleep(LOOK_MS);
    }
  }
}

interface HookOfCall {
  hook: WaitingHook;
  call: OpenCall;
}

function isHookFor({ tool, input }: WaitingHook, call: OpenCall): boolean {
  return call.name === tool && Bun.deepEquals(call.input, input);
}

/** The id of a permission that is known only from its hook. */
function hookCall({ pid }: ClaudeSession, id: string): string {
  return `${pid}-${id}`;
}

/** Do whole lines of a dialog, joined, make up the command or path of this call? The screen may break it over several lines. */
function isShownIn(text: string, { input }: OpenCall): boolean {
  const subject = SUBJECTS.map((key) => input[key]).find((value) => typeof value === 'string' && value !== '');
  if (typeof subject !== 'string') return false;
  const lines = text.split('\n').map(squashed);
  const wanted = squashed(subject);
  return lines.some((_line, from) => {
    let to = from;
    for (let joined = ''; to < lines.length && wanted.startsWith(joined); to += 1) {
      joined += lines[to] ?? '';
      if (joined === wanted) return true;
    }
    return false;
  });
}

/** When the dialog opened. All versions of Claude Code that we know record the time of the status. */
function askedAtOf({ statusUpdatedAt, updatedAt }: ClaudeSession): number {
  return statusUpdatedAt ?? updatedAt ?? 0;
}

/** The input of AskUserQuestion. Claude Code validates it and shows no dialog for an invalid one. */
const Asked = new Schema(() =>
  v.object({
    questions: v.pipe(
      v.array(
        v.object({
          question: v.string(),
          header: v.nullish(v.string(), ''),
          options: v.array(v.object({ label: v.string(), description: v.nullish(v.string(), '') })),
          multiSelect: v.nullish(v.boolean(), false),
        }),
      ),
      v.minLength(1),
    ),
  }),
);

function questionsIn(call: OpenCall | undefined): AskedQuestion[] | null {
  const asked = Asked.safeParse(call?.input);
  if (!asked.success) return null;
  return asked.data.questions.map(({ options, ...question }) => ({
    ...question,
    options: options.map(({ label, description }) => ({ label, ...(description !== '' && { description }) })),
  }));
}

/** A permission as the dialog shows it. The registry does not say which of the open calls it is for. */
function permissionIn(live: ClaudeSession, dialog: Dialog, calls: readonly OpenCall[]): OpenQuestion | null {
  if (dialog.kind !== 'permission' || dialog.rows.length === 0) return null;
  const options = dialog.rows.map(({ text }) => ({ label: text }));
  const [header = ''] = dialog.text.split('\n');
  const askedAt = askedAtOf(live);
  const words = JSON.stringify([dialog.text, options].flat());
  const isPlan = calls.find(({ name }) => name !== ASK)?.name === PLAN;
  return {
    call: `${live.pid}-${askedAt}-${Bun.hash(squashed(words)).toString(36)}`,
    kind: isPlan ? 'plan' : 'permission',
    questions: [{ question: dialog.text, header, options, multiSelect: false }],
    askedAt,
  };
}

function isTaken(
  questions: readonly AskedQuestion[],
  choices: readonly Choice[],
  answers: Record<string, string>,
): boolean {
  return questions.every((question, at) => {
    const words = answerWords(question, choices[at] ?? { options: [] });
    return squashed(answers[question.question] ?? '') === squashed(words);
  });
}

const left = (because: string): Answering => ({ outcome: 'left', because });
