import { command } from '../../core/command.ts';
import { lineForModel, visibleText } from '../../core/gate.ts';
import { Refusal } from '../../core/refusal.ts';
import { durationFrom } from '../../core/time.ts';
import { withLimit } from '../../core/wait.ts';
import { ControlClient, requestControl, ServerGone } from '../../protocols/control/client.ts';
import type { Answered } from '../../protocols/control/client.ts';
import { splitName } from '../../protocols/control/config.ts';
import { ERRORS } from '../../protocols/control/phrases.ts';
import { MOST_ASK_SECONDS } from '../../protocols/control/requests.ts';
import { shellWord } from '../../clients/shell-word.ts';
import { tmuxNameOf } from '../../sessions/tmux-session.ts';
import type { Context } from '../context.ts';
import type { Queued } from './control.ts';
import { FROM, fromOf, RAW, promptFrom, unknownSession } from './control.ts';

/** Exit codes of an ask without an answer, beside those of refusals. docs/guides/scripts-and-json.md lists them. */
const EXIT = { question: 2, timeout: 3, notStarted: 4, noAnswer: 5, serverEnded: 6, interrupted: 130 } as const;

/** How often the queue is asked why the prompt waits. */
const LOOK_MS = 1000;

const askCommand = command({
  usage: 'ask <session> <text … | ->',
  about:
    'Puts a prompt into a running client and waits for its answer, at most 5 minutes. The answer goes to stdout, what happens to stderr.\n' +
    'A session that does not run is started. Ends with 0 for an answer, with 2 if the session asks a person something, with 3 after the time, ' +
    'with 4 if the session could not be started, with 5 if the turn ended without an answer (interrupted, the client ended, taken back), ' +
    'with 6 if the server ended: the prompt is stored and goes on with the next server, so do not ask again. Ctrl-C leaves the prompt there.',
  options: {
    from: FROM,
    raw: RAW,
    timeout: { type: 'string', value: 'span', help: 'how long to wait: 30s, 20m, 2h (default 5m)' },
  },
  words: [2, Infinity],
  examples: [
    'parley ask api "which tests fail?"',
    'git diff | parley ask reviewer -',
    'parley ask api "run the full suite" --timeout 20m',
  ],
  async run(context: Context, values, [session = '', ...words]) {
    const seconds = values.timeout === undefined ? undefined : secondsFrom(values.timeout);
    const text = await promptFrom(words);
    const ask = new Asking(context, session);
    await ask.run({ text, from: fromOf(context, values.from), raw: values.raw, timeout_seconds: seconds });
  },
});

function secondsFrom(span: string): number {
  const seconds = durationFrom(span) / 1000;
  if (seconds >= 1 && seconds <= MOST_ASK_SECONDS) return seconds;
  throw new Refusal('invalid_request', '--timeout: from 1s to 1d');
}

type End = { answer: Answered } | { waitingFor: string } | { signal: true };

/** One ask, with what its user is told meanwhile. */
class Asking {
  readonly #clients: ControlClient[] = [];
  /** Of the prompt, as soon as it is stored. */
  #id: number | null = null;
  #isTyped = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #signal = Promise.withResolvers<{ signal: true }>();

  constructor(
    readonly context: Context,
    readonly session: string,
  ) {}

  async run(fields: Record<string, unknown>): Promise<void> {
    const onSignal = (): void => this.#signal.resolve({ signal: true });
    process.on('SIGINT', onSignal);
    try {
      // All are open before anything is asked: no answer comes while nobody listens.
      const [asking, watching, looking] = [await this.#open(), await this.#open(), await this.#open()];
      const request = { cmd: 'ask', session: this.session, progress: true, ...fields };
      watching.write({ cmd: 'subscribe', sessions: [this.session] });
      // It says `subscribed`: from here on no change of the session is missed.
      await watching.next();
      await this.#say(
        await Promise.race([this.#answer(asking, looking, request), this.#question(watching), this.#signal.promise]),
      );
    } catch (error) {
      this.#sayFailure(error);
    } finally {
      process.off('SIGINT', onSignal);
      clearTimeout(this.#timer);
      for (const client of this.#clients) client.close();
    }
  }

  async #open(): Promise<ControlClient> {
    const client = await ControlClient.open(this.context.env);
    this.#clients.push(client);
    return client;
  }

  async #answer(client: ControlClient, looking: ControlClient, request: Record<string, unknown>): Promise<End> {
    return {
      answer: await client.request(request, ({ message_id: id }) => {
        this.#id = Number(id);
        void this.#look(looking);
      }),
    };
  }

  /** Says each reason why the prompt waits, until it is typed. */
  async #look(client: ControlClient): Promise<void> {
    for (let last = ''; ;) {
      await this.#pause();
      // The connection of the ask says what went wrong.
      const answer = await client.request({ cmd: 'queue', session: this.session }).catch(() => null);
      if (!answer) return;
      const own = this.#ownIn(answer);
      if (this.#isTyped) return;
      const because = own?.because ?? last;
      if (because !== last) this.#note(`${this.session}: waits, ${lineForModel(because)}`);
      last = because;
    }
  }

  /** The prompt in the queue. One that is being typed may come back: somebody has written into the composer. */
  #ownIn(answer: Answered): Queued | undefined {
    const own = (answer['queue'] as Queued[]).find(({ id }) => id === this.#id);
    this.#isTyped = own === undefined || own.state === 'submitted';
    return own;
  }

  async #pause(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#timer = setTimeout(resolve, LOOK_MS);
    await promise;
  }

  /** Says each state. Returns only when the session asks a person something. */
  async #question(client: ControlClient): Promise<End> {
    for (let event = await client.next(); event; event = await client.next()) {
      if (event['event'] !== 'status') continue;
      const { waiting_for: waitingFor } = event;
      if (typeof waitingFor === 'string') return { waitingFor };
      this.#note(`${this.session}: ${String(event['status'])}`);
    }
    // The connection of the ask says what went wrong.
    return new Promise(() => {});
  }

  async #say(end: End): Promise<void> {
    const { context, session } = this;
    if ('answer' in end) {
      if (context.json) return context.sayJson(end.answer);
      return context.say(visibleText(String(end.answer['response'])));
    }
    if ('signal' in end) return this.#end(EXIT.interrupted, 'interrupted here', await this.#left());
    const { waitingFor } = end;
    const see = `see: parley screenshot ${shellWord(session)}; the prompt waits until its time is over (parley queue); its answer goes to the history`;
    const isHere = waitingFor.startsWith('dialog open') && splitName(session).host === 'local';
    const there = `\nanswer it there: tmux attach -t =${tmuxNameOf(session)}, or \`ccc\` in its folder; leave with Ctrl-b d`;
    const note = `${session} waits for a person: ${lineForModel(waitingFor)}\n${see}${isHere ? there : ''}`;
    this.#end(EXIT.question, 'a question is open', note, { waiting_for: waitingFor });
  }

  /** What becomes of the prompt when its user goes away. */
  async #left(): Promise<string> {
    if (this.#id === null) return 'parley: stopped before the prompt was stored';
    const looked = requestControl(this.context.env, { cmd: 'queue', session: this.session }).catch(() => null);
    const answer = await withLimit(looked, LOOK_MS);
    if (answer) this.#ownIn(answer);
    const history = `parley history ${shellWord(this.session)}`;
    if (this.#isTyped) return `parley: prompt ${this.#id} was typed; its answer goes to the history: ${history}`;
    return `parley: prompt ${this.#id} stays and will be typed; take it back: parley queue --cancel ${this.#id}; its answer: ${history}`;
  }

  #sayFailure(error: unknown): void {
    if (!(error instanceof Refusal)) throw error;
    const { message } = error;
    const history = `\`parley history ${shellWord(this.session)}\``;
    const fail = (exit: number, advice = ''): void =>
      this.#end(exit, message, `parley: ${lineForModel(message, 1000)}${advice}`);
    if (message === ERRORS.timeout)
      return this.#end(EXIT.timeout, message, `parley: no answer within the time; ${history} shows what becomes of it`);
    if (message.startsWith(ERRORS.notRestarted)) return fail(EXIT.notStarted, '; nothing was typed');
    if (message === ERRORS.interrupted || message === ERRORS.stopped || message === ERRORS.withdrawn)
      return fail(EXIT.noAnswer, `; see ${history}`);
    if (this.#id !== null && (message === ERRORS.closing || error instanceof ServerGone))
      return this.#end(
        EXIT.serverEnded,
        message,
        `parley: the control server ended; prompt ${this.#id} is stored and goes on with the next server: do not ask again, see ${history}`,
      );
    throw unknownSession(this.context, this.session, error);
  }

  #note(text: string): void {
    if (!this.context.json) this.context.note(text);
  }

  /** An end without an answer. */
  #end(exit: number, error: string, note: string, more: Record<string, unknown> = {}): void {
    process.exitCode = exit;
    this.context.note(note);
    const id = this.#id === null ? {} : { prompt_id: this.#id };
    if (this.context.json) this.context.sayJson({ ok: false, error, ...more, ...id });
  }
}

export const commands = { ask: askCommand };
