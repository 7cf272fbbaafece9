// A stand-in for a window of OpenCode. It runs our plugin in this process, keeps the conversation in a file like OpenCode's, and plays a
// model that answers at once, unless `holds` is set.
import { mkdirSync } from 'node:fs';
import plugin from '../../plugins/opencode/parley.ts';
import { anOpenCodeFile } from './opencode-file.ts';
import { within } from './within.ts';

type Facts = Record<string, unknown>;
type Hooks = Awaited<ReturnType<typeof plugin>>;
const DEADLINE = 20_000;

export class StandInOpenCode {
  readonly env: Record<string, string>;
  readonly file: ReturnType<typeof anOpenCodeFile>;
  /** The POST calls, as `/path` and body. */
  readonly calls: [path: string, body: Facts][] = [];
  /** All texts of the conversation at the last answer of the model. */
  seen = '';
  /** True: a prompt is not answered by itself; call `answers`. */
  holds = false;
  /** The HTTP status that refuses prompts; null: they are accepted. */
  refusal: number | null = null;
  /** True: prompts are answered with success, and then lost. */
  loses = false;
  /** The HTTP status of a request for a new session; the request waits for it. */
  begins: Promise<number> = Promise.resolve(200);
  permissions: Facts[] = [];
  questions: Facts[] = [];
  info: Facts = {};
  #isBusy = false;
  #count = 0;
  #hooks: Hooks = {};
  #last = '';

  constructor(readonly home: string) {
    const data = `${home}/data/opencode`;
    mkdirSync(data, { recursive: true });
    this.env = { HOME: home, PARLEY_HOME: `${home}/parley`, XDG_DATA_HOME: `${home}/data` };
    this.file = anOpenCodeFile(data);
  }

  /** Loads the plugin, and selects a session in the window; null: no session yet. */
  async open(session: string | null = 's'): Promise<void> {
    const before = { ...process.env };
    Object.assign(process.env, this.env);
    const call = async (method: string, { url, body = {} }: Facts) => this.#answer(method, String(url), body as Facts);
    this.#hooks = await plugin({
      directory: `${this.home}/project`,
      client: { _client: { get: (one: Facts) => call('GET', one), post: (one: Facts) => call('POST', one) } },
    });
    for (const name of Object.keys(this.env)) {
      if (before[name] === undefined) delete process.env[name];
      else process.env[name] = before[name];
    }
    await (session === null
      ? this.#tell('session.deleted', { sessionID: 's' })
      : this.#tell('tui.session.select', { sessionID: session }));
  }

  async close(): Promise<void> {
    await this.#hooks.dispose?.();
    this.#hooks = {};
  }

  /** Opens the dialogs of these permissions; an empty list closes them. */
  async asks(permissions: Facts[]): Promise<void> {
    this.permissions = permissions;
    await this.#tell(permissions.length > 0 ? 'permission.asked' : 'permission.replied', {});
  }

  /** Makes the session busy until `rests`. */
  async works(): Promise<void> {
    this.#isBusy = true;
    await this.#tell('session.status', {});
  }

  /** Ends a turn in which the model read none of the new prompts. */
  async rests(): Promise<void> {
    this.#isBusy = false;
    await this.#tell('session.idle', {});
  }

  /** Compacts the conversation, and ends the turn without an answer to earlier prompts. */
  async sumsUp(): Promise<void> {
    const id = this.#id('summary');
    this.file.message(id, { role: 'user' });
    this.file.parts(id, { type: 'compaction', auto: true });
    this.file.answers(this.#id('summed'), id, { finish: 'stop', summary: true }, 'what was said so far');
    this.file.answers(this.#id('goingon'), id, { finish: 'stop' }, 'going on');
    await this.rests();
  }

  /** The texts that OpenCode would send to its model for these messages, after our plugin changed them. */
  async request(messages: { id: string; parts: Facts[]; summary?: true; parentID?: string }[]): Promise<unknown[]> {
    const all = messages.map(({ parts, ...info }) => ({ info: { ...info, sessionID: 's' }, parts }));
    await this.#hooks['experimental.chat.messages.transform']?.({}, { messages: all });
    return all.map(({ parts }) => parts[0]?.['text'] ?? parts[0]?.['type']);
  }

  /** Answers the waiting prompts as the model, and ends the turn. */
  async answers(text = 'an answer'): Promise<void> {
    const { record } = this.file;
    this.seen = record
      .rows<{ data: string }>('SELECT data FROM part ORDER BY id')
      .map(({ data }) => (JSON.parse(data) as { text?: string }).text ?? '')
      .join('\n');
    this.file.answers(this.#id('answer'), this.#last, { finish: 'stop' }, text);
    await this.rests();
  }

  /** Waits until this many prompts were posted. */
  async took(count: number): Promise<void> {
    const prompts = () => this.calls.filter(([path]) => path.endsWith('/prompt_async'));
    await within(DEADLINE, async () => prompts().length >= count);
  }

  async #answer(method: string, url: string, body: Facts) {
    const ok = (data: unknown) => ({ data, response: { status: 200 } });
    if (url === '/session/status') return ok(this.#isBusy ? { s: { type: 'busy' } } : {});
    if (url === '/permission') return ok(this.permissions);
    if (url === '/question') return ok(this.questions);
    if (method === 'GET') return ok({ id: url.split('/').at(-1), ...this.info });
    this.calls.push([url, body]);
    if (url === '/session') {
      const status = await this.begins;
      return status === 200 ? ok({ id: 's' }) : { error: { name: 'No' }, response: { status } };
    }
    if (url.endsWith('/prompt_async')) return this.#prompt(body);
    return ok(true);
  }

  async #prompt({ messageID, parts }: Facts) {
    const { refusal } = this;
    if (refusal !== null) return { error: { name: 'No' }, response: { status: refusal } };
    if (this.loses) return { response: { status: 204 } };
    const id = typeof messageID === 'string' ? messageID : this.#id('nudge');
    this.file.message(id, { role: 'user' });
    this.file.parts(id, ...(parts as object[]));
    this.#last = id;
    const wasBusy = this.#isBusy;
    await this.works();
    if (!this.holds && !wasBusy) await this.answers();
    return { response: { status: 204 } };
  }

  async #tell(type: string, properties: Facts): Promise<void> {
    await this.#hooks.event?.({ event: { type, properties } });
  }

  /** A message id that sorts after every earlier one. */
  #id(ending: string): string {
    const time = ((BigInt(Date.now()) * 0x1000n + 0xfffn) & 0xffff_ffff_ffffn).toString(16).padStart(12, '0');
    return `msg_${time}zz${String((this.#count += 1)).padStart(4, '0')}${ending}`;
  }
}
