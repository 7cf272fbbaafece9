// The real Claude Code, in a home of the test, with a scripted model.
//
//   const claude = aClaude({ place, model, settings: { hooks: … } });
//   const run = await claude.headless('do it');              // `claude -p`, to its end: { out, err, code }
//   const session = await claude.interactive();              // in tmux, at its prompt
//   await session.terminal.submit('do it'); await session.until('busy'); await session.until('idle');
//
// Settings files and `.mcp.json` can also be written by the product itself, before or after: aClaude writes only
// ~/.claude.json (so that no dialog comes), and ~/.claude/settings.json where there is none or `settings` is given.
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import type { Run } from '../../support/program.ts';
import { within } from '../../support/within.ts';
import type { Model } from '../model/model.ts';
import type { Place } from './place.ts';
import { runs } from './runs.ts';
import { aTerminal, type Terminal } from './terminal.ts';
import { client } from './where.ts';

const KEY = 'a-key-of-the-scripted-model';
const DEADLINE = 200_000;

export interface ClaudeOptions {
  place: Place;
  model: Model;
  /** Joined to what the tests need in ~/.claude/settings.json. */
  settings?: Record<string, unknown>;
  env?: Record<string, string>;
  /** `ask` shows its permission dialogs; by default every tool may run. */
  permissions?: 'ask' | 'bypass';
  /** By default its user trusts the project. */
  trust?: false;
}

/** ~/.claude/sessions/<pid>.json, as far as tests look. */
export interface Registered {
  pid: number;
  sessionId: string;
  status: 'idle' | 'busy' | 'waiting';
  waitingFor?: string;
  messagingSocketPath: string;
  kind: string;
}

export class Claude {
  readonly program = client('claude').program;
  readonly env: Record<string, string>;

  constructor(readonly options: ClaudeOptions) {
    const { place, model } = options;
    this.env = {
      ...place.env,
      ANTHROPIC_BASE_URL: model.url,
      ANTHROPIC_API_KEY: KEY,
      CLAUDE_CODE_TMPDIR: `${place.home}/tmp`,
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
      DISABLE_AUTOUPDATER: '1',
      // Tests may run as root, where it otherwise refuses to run tools unasked.
      IS_SANDBOX: '1',
      ...options.env,
    };
    this.#prepare();
  }

  get folder(): string {
    return `${this.options.place.home}/.claude`;
  }

  /** `claude -p <prompt>` to its end. */
  headless(prompt: string, args: string[] = [], ms = DEADLINE): Promise<Run> {
    const command = [this.program, '-p', ...this.#permissions(), ...args, '--', prompt];
    return runs(command, { cwd: this.options.place.project, env: this.env, ms });
  }

  /** Claude Code in a terminal, when it waits for a prompt. */
  async interactive(args: string[] = []): Promise<ClaudeSession> {
    const command = [this.program, ...this.#permissions(), ...args];
    const session = new ClaudeSession(this, await aTerminal(this.options.place, command, { env: this.env }));
    await session.until('idle');
    return session;
  }

  /** The transcript files of this project, as parsed lines. */
  transcripts(): { path: string; lines: Record<string, unknown>[] }[] {
    const folder = `${this.folder}/projects`;
    if (!existsSync(folder)) return [];
    return readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.jsonl'))
      .map((name) => ({ path: `${folder}/${name}`, lines: linesOf(`${folder}/${name}`) }));
  }

  #permissions(): string[] {
    return this.options.permissions === 'ask' ? ['--permission-mode', 'default'] : ['--dangerously-skip-permissions'];
  }

  /** With these keys no dialog comes before the first prompt. */
  #prepare(): void {
    const { place, settings } = this.options;
    mkdirSync(this.folder, { recursive: true });
    const known = readIfThere(`${place.home}/.claude.json`);
    const state = {
      ...known,
      hasCompletedOnboarding: true,
      theme: 'dark',
      customApiKeyResponses: { approved: [KEY.slice(-20)], rejected: [] },
      ...(this.options.trust !== false && { projects: { [place.project]: { hasTrustDialogAccepted: true } } }),
    };
    writeFileSync(`${place.home}/.claude.json`, JSON.stringify(state));
    const file = `${this.folder}/settings.json`;
    if (settings || !existsSync(file)) {
      writeFileSync(
        file,
        JSON.stringify({ skipDangerousModePermissionPrompt: true, ...readIfThere(file), ...settings }),
      );
    }
  }
}

export class ClaudeSession {
  constructor(
    readonly claude: Claude,
    readonly terminal: Terminal,
  ) {}

  /** What Claude Code itself says about this session; null while it starts and after its end. */
  registered(): Registered | null {
    try {
      return JSON.parse(readFileSync(`${this.claude.folder}/sessions/${this.terminal.pid}.json`, 'utf8')) as Registered;
    } catch {
      // Not there, or being written.
      return null;
    }
  }

  /** Waits until the client says so of itself. */
  async until(status: Registered['status'], ms = DEADLINE): Promise<Registered> {
    try {
      await within(ms, async () => this.registered()?.status === status);
    } catch {
      const screen = await this.terminal.screen().catch(() => 'there is no screen any more');
      throw new Error(`Claude Code was not ${status} in ${ms} ms but ${this.registered()?.status}:\n${screen}`);
    }
    return this.registered() as Registered;
  }
}

export function aClaude(options: ClaudeOptions): Claude {
  return new Claude(options);
}

function readIfThere(path: string): Record<string, unknown> {
  return existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as Record<string, unknown>) : {};
}

function linesOf(path: string): Record<string, unknown>[] {
  return readFileSync(path, 'utf8')
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}
