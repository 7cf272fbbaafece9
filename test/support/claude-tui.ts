// A stand-in for Claude Code, as a test sees it: the program of claude-tui.child.ts, called `claude`, for a real tmux.
//
//   const claude = new ClaudeTui();                    // claude.program: `…/bin/claude`; claude.env: HOME, CLAUDE_CONFIG_DIR, PATH, …
//   … start claude.program in a pane of tmux, with claude.env, or let the product do it …
//   await claude.prompted(2);                          // waits for two prompts; gives their texts
//   await claude.order({ dialog: 'permission prompt' });
//   await claude.close();                              // ends the tmux server of claude.env, and every claude in it
//
// A prompt says how it is answered: `@@{"delay":500,"text":"…"}@@` (ClaudeAnswer). Without that the answer is `re: <its first 60 characters>`.
import { chmodSync, existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import type { DialogCall, DialogEnd } from './claude-dialog.ts';
import { isProcessAlive } from '../../src/platform/process.ts';
import { temporaryHome } from './home.ts';
import { within } from './within.ts';

const CHILD = new URL('./claude-tui.child.ts', import.meta.url).pathname;
const DEADLINE = 20_000;

export interface ClaudeAnswer {
  text?: string;
  /** The blocks of its last message, in place of `text`. */
  parts?: string[];
  /** ms, 20 unless told. */
  delay?: number;
  /** It calls a tool first. */
  tool?: boolean;
  /** It answers only when told to: `order({ finish: 'text' })`. */
  hold?: boolean;
  /** It asks its user something first: `permission prompt`, `input needed`. It answers when that is closed. */
  ask?: string;
  /** It makes these calls first, at once; their dialogs open one after the other. */
  asks?: DialogCall[];
  /** It is killed in this turn. */
  die?: boolean;
  /** It writes no `turn_duration`. */
  noEnd?: boolean;
}

/** How the next ones start. */
export interface ClaudeStart {
  /** How long it takes until it takes prompts. */
  ms?: number;
  /** It takes no prompts until `starts` says otherwise. */
  isHeld?: boolean;
  /** It says this and ends. */
  exit?: { code: number; line: string };
  /** It opens with this question. */
  dialog?: string;
  /** Before it says anything of itself it asks whether it may trust the folder; Down and Enter say yes. */
  trust?: boolean;
  /** The delay of its screen and records when a dialog closes (ms). */
  lagMs?: number;
  /** For this time after its start it drops keys in dialogs, as the real one does (ms). */
  deafMs?: number;
  /** It reports that it started this long ago (ms). */
  ageMs?: number;
  /** The delay of its screen (ms). */
  drawMs?: number;
  /** Enter does nothing. */
  ignoresEnter?: boolean;
  /**
   * What it does with a message on its messaging socket; by default it takes it. `deaf`: takes it and records nothing. `die`: is killed by it.
   * `offline`: takes it, and no model answers.
   */
  inbound?: 'accept' | 'hold' | 'refuse' | 'drop' | 'deaf' | 'die' | 'offline';
}

/** What it can be told. `dialog`: a question (`permission prompt`, `input needed`) or a panel (`dialog open`). `status`: the registry lies. `enter`: `swallowed` empties the composer, and nothing is said of it. */
export interface ClaudeOrder {
  draft?: string;
  enter?: 'ignored' | 'taken' | 'swallowed';
  dialog?: string;
  close?: '';
  /** How its hook decides the dialog: a DialogEnd as JSON. */
  decides?: string;
  finish?: string;
  status?: string;
  quit?: string;
  inbound?: NonNullable<ClaudeStart['inbound']>;
  /** What its user decides about the messages that are held. */
  held?: 'deliver' | 'deny';
}

/** A line of its log. */
export interface ClaudeNoted {
  pid: number;
  session: string;
  cwd: string;
  started?: string[];
  ended?: number;
  /** What one turn began with, and its parts where several were joined. */
  prompt?: string;
  prompts?: string[];
  queued?: string;
  /** Came on the messaging socket; given to the model in the middle of a turn. */
  received?: string;
  absorbed?: string;
  interrupted?: string[];
  approved?: boolean;
  /** A dialog, by its call: it opened, it closed and how, a key or a paste went into it. */
  opened?: string;
  closed?: string;
  end?: DialogEnd;
  key?: string;
  pasted?: string;
  into?: string;
  escaped?: string;
  /** The question whether it may trust the folder was answered. Any other key there is `dialog`. */
  trusted?: boolean;
  /** Typed where it does harm: a command of a shell, a key or a text in a panel or in a question. */
  shell?: string;
  panel?: string;
  dialog?: string;
  command?: string;
  ignored?: string;
  /** The first Enter only asked for a second one. */
  reviewed?: string;
  /** Keys that came before it took prompts. */
  early?: string;
  /** Enter took what was offered for the last word. */
  completed?: string;
}

export class ClaudeTui {
  readonly folder: string;
  readonly program: string;
  /** A home of its own, and a tmux server of its own. */
  readonly env: Record<string, string>;

  constructor(home = temporaryHome()) {
    this.folder = `${home}/stand-in`;
    const bin = `${home}/bin`;
    for (const path of [this.folder, bin, `${home}/.claude`, `${home}/tmux`])
      mkdirSync(path, { recursive: true, mode: 0o700 });
    this.program = `${bin}/claude`;
    writeFileSync(this.program, `#!/bin/sh\nexec '${process.execPath}' '${CHILD}' '${this.folder}' "$@"\n`);
    chmodSync(this.program, 0o755);
    this.env = {
      HOME: home,
      PATH: `${bin}:${process.env['PATH']}`,
      TMUX_TMPDIR: `${home}/tmux`,
      TERM: 'xterm-256color',
      LANG: 'C.UTF-8',
      SHELL: '/bin/sh',
      BUN_RUNTIME_TRANSPILER_CACHE_PATH: '0',
    };
  }

  /** How those that start from now on do it. */
  starts(how: ClaudeStart): void {
    writeFileSync(`${this.folder}/start.json.new`, JSON.stringify(how));
    renameSync(`${this.folder}/start.json.new`, `${this.folder}/start.json`);
  }

  noted(): ClaudeNoted[] {
    if (!existsSync(`${this.folder}/log`)) return [];
    const lines = readFileSync(`${this.folder}/log`, 'utf8').split('\n').slice(0, -1);
    return lines.map((line) => JSON.parse(line) as ClaudeNoted);
  }

  /** The turns that it was given, as it took them. */
  prompts(session?: string): string[] {
    return this.noted().flatMap((noted) =>
      session === undefined || noted.session === session ? (noted.prompt ?? []) : [],
    );
  }

  async prompted(times = 1): Promise<string[]> {
    await within(DEADLINE, async () => this.prompts().length >= times);
    return this.prompts();
  }

  /** Texts that were typed where they do harm: into a shell, a panel or a question. */
  harm(): ClaudeNoted[] {
    return this.noted().filter(
      ({ shell, panel, dialog, approved, command }) => shell ?? panel ?? dialog ?? approved ?? command,
    );
  }

  /** Those that run, the newest last. */
  running(): ClaudeNoted[] {
    return this.noted().filter(({ started, ended, pid }) => started && ended === undefined && isProcessAlive(pid));
  }

  /** What one of them says of itself. */
  registered(pid = this.running().at(-1)?.pid): Record<string, unknown> | null {
    try {
      return JSON.parse(readFileSync(`${this.env['HOME']}/.claude/sessions/${pid}.json`, 'utf8')) as Record<
        string,
        unknown
      >;
    } catch {
      return null;
    }
  }

  /** Waits until the newest one says this of itself. */
  async until(status: string): Promise<void> {
    await within(DEADLINE, async () => this.registered()?.['status'] === status);
  }

  /** Gives an order to the newest one, or the one with this pid, and waits until it is done. */
  async order(what: ClaudeOrder, pid = this.running().at(-1)?.pid): Promise<void> {
    const path = `${this.folder}/${pid}.sock`;
    await within(DEADLINE, async () => existsSync(path));
    const { promise, resolve } = Promise.withResolvers<void>();
    const socket = await Bun.connect({ unix: path, socket: { data: () => resolve(), close: () => resolve() } });
    socket.write(`${JSON.stringify(what)}\n`);
    let isDone = false;
    void promise.then(() => (isDone = true));
    await within(DEADLINE, async () => isDone);
    socket.end();
  }

  /** A command of the tmux server of `env`; what it prints. */
  async tmux(...words: string[]): Promise<string> {
    const child = Bun.spawn(['tmux', '-f', '/dev/null', ...words], { env: this.env, stdout: 'pipe', stderr: 'pipe' });
    const [out, err, code] = await Promise.all([
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
      child.exited,
    ]);
    // A server that just lost its last session takes no new one: the next call starts another server.
    if (words[0] === 'new-session' && err.includes('server exited unexpectedly')) return this.tmux(...words);
    if (code !== 0) throw new Error(`tmux ${words[0]}: ${err}`);
    return out;
  }

  /** Starts it as a person does: in a shell, in a tmux session. Waits until it is at its prompt, and gives its pid. */
  async openByHand(tmuxSession: string, cwd: string, ...args: string[]): Promise<number> {
    await this.tmux('new-session', '-d', '-x', '100', '-y', '30', '-s', tmuxSession, '-c', cwd, '--', 'env', 'sh');
    const before = this.running().length;
    await this.tmux('send-keys', '-t', `=${tmuxSession}:`, [this.program, ...args].join(' '), 'Enter');
    await within(DEADLINE, async () => this.running().length > before);
    await this.until('idle');
    return this.running().at(-1)?.pid ?? 0;
  }

  async close(): Promise<void> {
    const pids = this.running().map(({ pid }) => pid);
    await this.tmux('kill-server').catch(() => 'it ended before');
    await within(DEADLINE, async () => !pids.some(isProcessAlive));
  }
}
