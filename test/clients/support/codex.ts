// The real Codex, in a home of the test, with a scripted model.
//
//   const codex = aCodex({ place, model });                  // before the product installs its hooks there
//   const run = await codex.exec('do it');                   // `codex exec`, to its end: { out, err, code }
//   const terminal = await codex.terminal();                 // its TUI in tmux
//   await codex.trustHooks(terminal);                        // the user of the test says yes to the hooks
//   await codex.ready(terminal);                             // … and it is at its prompt
//   await codex.turn(terminal, 'do it');                     // a whole turn
//
// `codex` is on the PATH of `codex.env` as npm leaves it: a script that starts the program. A TUI leaves a daemon, which ends with
// `codex`, and a process that updates it: that one has the home of the test, and ends with `place`.
import { existsSync, lstatSync, mkdirSync, readlinkSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import type { Run } from '../../support/program.ts';
import type { Model } from '../model/model.ts';
import { opens } from './opened.ts';
import type { Place } from './place.ts';
import { runs } from './runs.ts';
import { aTerminal, type Terminal } from './terminal.ts';
import { client, CLIENTS } from './where.ts';

const DEADLINE = 200_000;
const REVIEW = 'Hooks need review';
/** The hint in an empty composer. */
const EMPTY = 'Ask Codex to do anything';

export interface CodexOptions {
  place: Place;
  model: Model;
  /** Added to the settings of the scripted model in ~/.codex/config.toml. */
  settings?: string;
}

export class Codex {
  /** The program itself, without npm's script in front. */
  readonly program = client('codex').program;
  readonly env: Record<string, string>;

  constructor(readonly options: CodexOptions) {
    const { place } = options;
    const bin = `${place.home}/bin`;
    mkdirSync(bin, { recursive: true });
    symlinkSync(`${CLIENTS}/node_modules/@openai/codex/bin/codex.js`, `${bin}/codex`);
    this.env = { ...place.env, PATH: `${bin}:${place.env['PATH']}`, SCRIPTED_KEY: 'none' };
    const file = `${this.folder}/config.toml`;
    if (existsSync(file)) throw new Error(`${file} is there already: let the product install after aCodex`);
    mkdirSync(this.folder, { recursive: true });
    writeFileSync(file, scripted(options));
  }

  get folder(): string {
    return `${this.options.place.home}/.codex`;
  }

  /** `codex exec <prompt>` to its end. */
  exec(prompt: string, args: string[] = [], ms = DEADLINE): Promise<Run> {
    const command = [this.program, 'exec', '--skip-git-repo-check', ...args, prompt];
    return runs(command, { cwd: this.options.place.project, env: this.env, ms });
  }

  /** The TUI, as it is started by hand. */
  terminal(args: string[] = []): Promise<Terminal> {
    return aTerminal(this.options.place, ['codex', ...args], { env: this.env });
  }

  /** Says yes to the question whether the hooks may run, as a user does. */
  trustHooks(terminal: Terminal): Promise<void> {
    return this.#review(terminal, '2', /› 2\. Trust all/);
  }

  /** Goes on without the hooks. */
  refuseHooks(terminal: Terminal): Promise<void> {
    return this.#review(terminal, '3', /› 3\. Continue without/);
  }

  /** A digit chooses an answer, or gives it at once; Enter gives it. A key that comes while the question is drawn may be lost. */
  async #review(terminal: Terminal, key: string, chosen: RegExp): Promise<void> {
    const isTaken = (screen: string): boolean => chosen.test(screen) || !screen.includes(REVIEW);
    let screen = await terminal.shows(REVIEW, DEADLINE);
    while (!isTaken(screen)) {
      await terminal.keys(key);
      screen = await terminal.until(isTaken, 'take the key', 2000).catch(() => screen);
    }
    if (screen.includes(REVIEW)) await terminal.confirm(REVIEW);
  }

  /** Waits until it takes a prompt. */
  async ready(terminal: Terminal): Promise<void> {
    await terminal.shows(EMPTY, DEADLINE);
  }

  /** Gives it a prompt, and waits until its turn is over: then it says how long it took. */
  async turn(terminal: Terminal, prompt: string): Promise<void> {
    await this.ready(terminal);
    const before = turnsOn(await terminal.screen());
    await terminal.submit(prompt);
    await terminal.until((screen) => turnsOn(screen) > before, 'show the end of the turn', DEADLINE);
  }

  /** Ends the daemon that a TUI left, if there is one. Its sockets lie outside of the home, and would be left behind. */
  async close(): Promise<void> {
    const links = ['app-server-control/app-server-control.sock', 'app-server-daemon/daemon-updater.sock'];
    const sockets = links.flatMap((link) => linkedFrom(`${this.folder}/${link}`));
    if (sockets.length === 0) return;
    const command = [this.program, 'app-server', 'daemon', 'stop'];
    await runs(command, { cwd: this.options.place.project, env: this.env, ms: DEADLINE });
    for (const socket of sockets) for (const path of [socket, `${socket}.lock`]) rmSync(path, { force: true });
  }
}

function linkedFrom(path: string): string[] {
  return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() ? [readlinkSync(path)] : [];
}

const turnsOn = (screen: string): number => screen.split('Worked for').length - 1;

export function aCodex(options: CodexOptions): Codex {
  return opens(new Codex(options));
}

/** The model of the test as Codex's only provider, in a project that the user trusts. */
function scripted({ place, model, settings = '' }: CodexOptions): string {
  return `model = "scripted"
model_provider = "scripted"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false

[model_providers.scripted]
name = "Scripted"
base_url = "${model.url}/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
request_max_retries = 0
stream_max_retries = 0

[projects."${place.project}"]
trust_level = "trusted"

[analytics]
enabled = false
${settings}`;
}
