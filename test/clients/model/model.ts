// A model that answers by script, on loopback, for real clients.
//
//   const model = aModel([bash('true'), say('done')]);     // Anthropic and Gemini at model.url; chat completions and responses at `${model.url}/v1`
//   const request = await model.saw('the build is red');   // a request of the agent in which the text stands
//   request.count('the build is red');                     // how often; model.last is the newest request
//
// Each main request takes the next step; when the script has ended the model says `END`. Side requests (titles: they
// offer no tools) get a fixed text and take no step. A step with `after` is a gate: the request is in `model.main` at
// once, the answer comes when the gate opens. Two sessions that need two scripts have two models.
import { answerMessages, readMessages } from './anthropic.ts';
import { json } from './answers.ts';
import type { Asked } from './asked.ts';
import { answerGemini, geminiMethod, readGemini } from './gemini.ts';
import { answerCompletions, readCompletions } from './openai.ts';
import { answerResponses, readResponses } from './responses.ts';
import { say, type Step } from './steps.ts';

/** What the model says when its script has ended. */
export const END = 'the script has ended';
const SIDE = 'A title';
/** For a machine under load; it only ends what hangs. */
const DEADLINE = 200_000;

type Waiter = () => void;

export class Model {
  /** Every request, in the order in which they came. */
  readonly asked: Asked[] = [];
  /** What else clients wanted from this server, as `GET /path`. */
  readonly strays: string[] = [];
  readonly #steps: Step[];
  readonly #waiters = new Set<Waiter>();
  readonly #server: Bun.Server<undefined>;
  #turn = 0;

  constructor(steps: readonly Step[]) {
    this.#steps = [...steps];
    this.#server = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      // A gate may stay closed for longer than a usual answer takes.
      idleTimeout: 0,
      fetch: (request) => this.#answer(request),
    });
  }

  get url(): string {
    return `http://127.0.0.1:${this.#server.port}`;
  }

  /** The requests of the agent itself: without titles and the like. */
  get main(): Asked[] {
    return this.asked.filter((asked) => !asked.isSide);
  }

  get last(): Asked {
    const last = this.main.at(-1);
    if (!last) throw new Error('the model was asked nothing yet');
    return last;
  }

  /** More steps, after those that are left. */
  script(...steps: Step[]): void {
    this.#steps.push(...steps);
  }

  /** How many steps are left. */
  get left(): number {
    return this.#steps.length;
  }

  /** The first main request in which the text stands, now or within the deadline. */
  saw(text: string, ms = DEADLINE): Promise<Asked> {
    return this.#until(() => this.main.find((asked) => asked.has(text)), `a request with ${JSON.stringify(text)}`, ms);
  }

  /** The n-th main request (from 1), now or within the deadline. */
  request(n: number, ms = DEADLINE): Promise<Asked> {
    return this.#until(() => this.main[n - 1], `request ${n}`, ms);
  }

  /** Stops at once; a client that still waits for an answer loses its connection. */
  async close(): Promise<void> {
    await this.#server.stop(true);
  }

  async #answer(request: Request): Promise<Response> {
    const { pathname } = new URL(request.url);
    if (request.method === 'POST' && pathname === '/v1/messages')
      return this.#turnOf(request, readMessages, answerMessages);
    if (request.method === 'POST' && pathname === '/v1/chat/completions')
      return this.#turnOf(request, readCompletions, answerCompletions);
    if (request.method === 'POST' && pathname === '/v1/responses')
      return this.#turnOf(request, readResponses, answerResponses);
    const gemini = request.method === 'POST' ? geminiMethod(pathname) : null;
    if (gemini)
      return this.#turnOf(request, readGemini, (_asked, step, turn) =>
        answerGemini(step, turn, gemini !== 'generateContent'),
      );
    if (pathname === '/v1/messages/count_tokens') return json({ input_tokens: 10 });
    this.strays.push(`${request.method} ${pathname}`);
    return json(
      { type: 'error', error: { type: 'not_found_error', message: 'the scripted model has no such path' } },
      404,
    );
  }

  async #turnOf(
    request: Request,
    read: (body: unknown, headers: Headers) => Asked,
    answer: (asked: Asked, step: Step, turn: number) => Response,
  ): Promise<Response> {
    const asked = read(await request.json(), request.headers);
    const step = asked.isSide ? say(SIDE) : (this.#steps.shift() ?? say(END));
    this.asked.push(asked);
    for (const look of this.#waiters) look();
    await step.after;
    this.#turn += 1;
    if (step.refusal !== undefined)
      return json({ type: 'error', error: { type: 'api_error', message: 'the scripted model refuses' } }, step.refusal);
    return answer(asked, step, this.#turn);
  }

  #until<T>(find: () => T | undefined, what: string, ms: number): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const look = (): void => {
      const found = find();
      if (found !== undefined) resolve(found);
    };
    const timer = setTimeout(
      () => reject(new Error(`${what} did not reach the model in ${ms} ms; ${this.#told()}`)),
      ms,
    );
    this.#waiters.add(look);
    look();
    return promise.finally(() => {
      clearTimeout(timer);
      this.#waiters.delete(look);
    });
  }

  #told(): string {
    const side = this.asked.length - this.main.length;
    return `${this.main.length} requests came, ${side} side requests, ${this.#steps.length} steps are left`;
  }
}

export function aModel(steps: readonly Step[] = []): Model {
  return new Model(steps);
}
