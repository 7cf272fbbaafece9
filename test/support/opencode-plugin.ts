// Our OpenCode plugin in this process, with a scripted OpenCode on one side and a stand-in for `c2c` on the other.
import plugin from '../../plugins/opencode/c2c.ts';
import {
  appendFileSync,
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  writeFileSync,
} from 'node:fs';
import { temporaryHome } from './home.ts';
import { within } from './within.ts';

export const PLUGIN = new URL('../../plugins/opencode/c2c.ts', import.meta.url).pathname;
const FAKE = new URL('./fake-c2c.child.ts', import.meta.url).pathname;

type Facts = Record<string, unknown>;
type Hooks = Awaited<ReturnType<typeof plugin>>;
export interface Streamed {
  event: string;
  ts?: string;
  state?: Facts;
  patch?: Facts;
}

/** An OpenCode that records what it is asked, and tells its plugins of it as the real one does. */
export class ScriptedOpenCode {
  readonly prompts: { session: string; parts: { type: string; text?: string }[]; agent?: string }[] = [];
  readonly toasts: string[] = [];
  readonly answers: Facts[] = [];
  readonly messages = new Map<string, { info: Facts; parts: Facts[] }[]>();
  readonly sessions = new Map<string, Facts>();
  readonly hooks: Hooks[] = [];
  /** The outcome of a prompt: recorded, refused, accepted and never recorded, recorded without an event, or never answered. */
  takes: 'recorded' | 'refused' | 'nothing' | 'silently' | 'never' = 'recorded';
  /** Sessions of which it knows nothing any more. */
  readonly gone = new Set<string>();
  hasScreen = true;
  /** What it waits for before it tells what is in a session. */
  beforeAnswer: () => Promise<void> = async () => {};
  /** What happens once, after the next message was recorded. */
  afterRecord: (() => Promise<void>) | null = null;
  #count = 0;

  get client(): Parameters<typeof plugin>[0]['client'] {
    return {
      session: {
        promptAsync: async ({ path, body }) =>
          this.#prompt(path.id, body as { parts: { type: string; text?: string }[] }),
        messages: async ({ path }) => {
          await this.beforeAnswer();
          return { data: this.messages.get(path.id) ?? [] };
        },
        get: async ({ path }) =>
          this.sessions.has(path.id) ? { data: this.sessions.get(path.id) } : { error: {}, response: { status: 404 } },
      },
      tui: {
        showToast: async ({ body }) => {
          if (!this.hasScreen) throw new Error('nobody looks');
          this.toasts.push(String(body['message']));
        },
      },
      postSessionIdPermissionsPermissionId: async (call) => this.#answer(call),
      _client: { post: async (call) => this.#answer(call) },
    };
  }

  /** Tells every plugin of an event. */
  async emit(type: string, properties: Facts): Promise<void> {
    for (const hooks of this.hooks) await hooks.event?.({ event: { type, properties } });
  }

  created(id: string, parentID?: string): Promise<void> {
    this.sessions.set(id, { id, ...(parentID && { parentID }) });
    return this.emit('session.created', {
      sessionID: id,
      info: { id, ...(parentID && { parentID }), title: 'canary-title' },
    });
  }

  idle(sessionID: string): Promise<void> {
    return this.emit('session.idle', { sessionID });
  }

  /** An answer to a message of the session is begun. */
  answer(sessionID: string, parentID: string): Promise<void> {
    const info = { id: this.#id(), role: 'assistant', parentID, providerID: 'maker', modelID: 'large', sessionID };
    this.messages.get(sessionID)?.push({ info, parts: [] });
    return this.emit('message.updated', { sessionID, info });
  }

  lastMessage(session: string): string {
    return String(this.messages.get(session)?.at(-1)?.info['id']);
  }

  async #prompt(session: string, body: { parts: { type: string; text?: string }[] }): Promise<Facts> {
    this.prompts.push({ session, ...body });
    if (this.gone.has(session)) return { error: { name: 'NotFoundError' }, response: { status: 404 } };
    if (this.takes === 'never') return new Promise(() => {});
    if (this.takes === 'refused') return { error: { name: 'BadRequest' }, response: { status: 400 } };
    if (this.takes === 'nothing' || body.parts.length === 0) return {};
    const info = {
      id: this.#id(),
      role: 'user',
      sessionID: session,
      agent: 'build',
      model: { providerID: 'maker', modelID: 'large' },
    };
    const parts = body.parts.map((part) => ({ ...part, messageID: info.id, sessionID: session }));
    this.messages.set(session, [...(this.messages.get(session) ?? []), { info, parts }]);
    if (this.takes === 'silently') return {};
    await this.emit('message.updated', { sessionID: session, info });
    for (const part of parts) await this.emit('message.part.updated', { sessionID: session, part });
    void this.afterRecord?.();
    this.afterRecord = null;
    return {};
  }

  async #answer(call: Facts): Promise<Facts> {
    this.answers.push(call);
    return { data: true };
  }

  #id(): string {
    return `msg_${String((this.#count += 1)).padStart(6, '0')}`;
  }
}

export class PluginRun {
  readonly home = temporaryHome();
  readonly directory = `${this.home}/project`;
  readonly fake = `${this.home}/fake`;
  openCode = new ScriptedOpenCode();
  readonly #before = { ...process.env };
  #posted = 0;

  constructor(sidecar: Facts = { session_id: 'opencode-project', alias: 'ocean', broker_root: '/nowhere/broker' }) {
    mkdirSync(`${this.directory}/.opencode`, { recursive: true });
    mkdirSync(`${this.fake}/inbox`, { recursive: true });
    writeFileSync(`${this.directory}/.opencode/c2c-plugin.json`, JSON.stringify(sidecar));
    const command = `${this.home}/c2c`;
    writeFileSync(command, `#!/bin/sh\nexec '${process.execPath}' '${FAKE}' "$@"\n`);
    chmodSync(command, 0o755);
    for (const name of Object.keys(process.env)) if (name.startsWith('C2C_')) delete process.env[name];
    Object.assign(process.env, { HOME: this.home, FAKE_C2C: this.fake, C2C_CLI_COMMAND: command });
    Object.assign(process.env, { C2C_PLUGIN_RESTART_MS: '20', C2C_PLUGIN_PROOF_MS: '200', C2C_PLUGIN_SETTLE_MS: '20' });
  }

  async load(start = plugin, below = ''): Promise<Hooks> {
    const directory = `${this.directory}${below}`;
    const hooks = await start({ client: this.openCode.client, directory, worktree: this.directory });
    this.openCode.hooks.push(hooks);
    return hooks;
  }

  /** A copy of the plugin as OpenCode loads it from this folder. */
  async loadFrom(folder: string): Promise<Hooks> {
    mkdirSync(folder, { recursive: true });
    copyFileSync(PLUGIN, `${folder}/c2c.ts`);
    return this.load(((await import(`${folder}/c2c.ts`)) as { default: typeof plugin }).default);
  }

  /** Mail, and the line that tells of it. */
  arrive(...messages: Facts[]): void {
    this.post(...messages);
    const arrivals = `${this.fake}/arrivals.json`;
    this.#put(arrivals, [...this.#rows(arrivals), '[10:00:00] 📬  river→you  "…"']);
  }

  /** Mail that nobody tells of. */
  post(...messages: Facts[]): void {
    const rows = messages.map((message) => ({ from_alias: 'river', to_alias: 'ocean', ...message }));
    this.#put(`${this.fake}/inbox/${String((this.#posted += 1)).padStart(4, '0')}`, rows);
  }

  supervise(...names: string[]): void {
    writeFileSync(`${this.fake}/supervisors.json`, JSON.stringify(names));
  }

  /** What `c2c` was asked. */
  calls(): { args: string[]; pid: number; env: Record<string, string> }[] {
    return this.#lines(`${this.fake}/calls.jsonl`) as { args: string[]; pid: number; env: Record<string, string> }[];
  }

  called(word: string): string[][] {
    return this.calls().flatMap(({ args }) => (args.includes(word) ? [args] : []));
  }

  /** The newest child that was started for this. */
  child(word: string): number {
    return this.calls().findLast(({ args }) => args.includes(word))?.pid ?? 0;
  }

  stream(): Streamed[] {
    return this.#lines(`${this.fake}/stream.jsonl`) as unknown as Streamed[];
  }

  /** Waits until the stream's last event is so. */
  async streamed(isSo: (last: Streamed, all: Streamed[]) => boolean): Promise<Streamed> {
    await within(10_000, async () => {
      const all = this.stream();
      const last = all.at(-1);
      return last !== undefined && isSo(last, all);
    });
    return this.stream().at(-1) as Streamed;
  }

  /** What the spool files hold. */
  spooled(): unknown[] {
    const folder = `${this.home}/.local/share/c2c/opencode`;
    if (!existsSync(folder)) return [];
    return readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((name) => /spool\..*json$/.test(name))
      .flatMap((name) => this.#rows(`${folder}/${name}`));
  }

  log(): string {
    const path = `${this.home}/.local/share/c2c/opencode/plugin.log`;
    return existsSync(path) ? readFileSync(path, 'utf8') : '';
  }

  /** What was offered, and what is proven. */
  journal(): string {
    const folder = `${this.home}/.local/share/c2c/opencode`;
    const [name] = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((one) =>
      one.endsWith('journal.jsonl'),
    );
    return name === undefined ? '' : readFileSync(`${folder}/${name}`, 'utf8');
  }

  async close(): Promise<void> {
    for (const hooks of this.openCode.hooks) await hooks.dispose?.();
    for (const name of Object.keys(process.env)) delete process.env[name];
    Object.assign(process.env, this.#before);
    // A monitor that was just being started is told to end too.
    await within(10_000, async () => this.calls().every(({ args, pid }) => args[0] !== 'monitor' || !isThere(pid)));
  }

  /** Writes a file atomically, because another process may be reading it. */
  #put(path: string, rows: unknown[]): void {
    writeFileSync(`${this.home}/draft`, JSON.stringify(rows));
    renameSync(`${this.home}/draft`, path);
  }

  #rows(path: string): unknown[] {
    return existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as unknown[]) : [];
  }

  #lines(path: string): Facts[] {
    if (!existsSync(path)) appendFileSync(path, '');
    const lines = readFileSync(path, 'utf8').split('\n').slice(0, -1);
    return lines.map((line) => JSON.parse(line) as Facts);
  }
}

function isThere(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
