// The real Gemini CLI, in a home of the test, with a scripted model.
//
//   const gemini = aGemini({ place, model });                // before the product installs its hooks there
//   const run = await gemini.headless('do it');              // `gemini -p`, to its end: { out, err, code }
//   await gemini.ready(terminal);                            // its TUI in tmux, no matter who started it, at its prompt
//   await gemini.submit(terminal, 'do it');                  // a prompt, as a user pastes it
//
// `gemini` is on the PATH of `gemini.env`, beside the Node that it needs, as after `npm install -g`.
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import type { Run } from '../../support/program.ts';
import type { Model } from '../model/model.ts';
import { call } from '../model/steps.ts';
import type { Step } from '../model/steps.ts';
import type { Place } from './place.ts';
import { runs } from './runs.ts';
import type { Terminal } from './terminal.ts';
import { client, nodeForScripts } from './where.ts';

const DEADLINE = 200_000;
/** Gemini CLI takes an Enter within 40 ms after a paste for a part of it. */
const ENTER_MS = 400;

export interface GeminiOptions {
  place: Place;
  model: Model;
  /** Its user has not said yet that it may work in the project. */
  isTrusted?: boolean;
  /** Further settings. */
  settings?: Record<string, unknown>;
}

export class Gemini {
  readonly env: Record<string, string>;

  constructor(readonly options: GeminiOptions) {
    const { place, model, settings = {} } = options;
    const bin = `${place.home}/bin`;
    mkdirSync(bin, { recursive: true });
    symlinkSync(client('gemini').program, `${bin}/gemini`);
    symlinkSync(nodeForScripts(), `${bin}/node`);
    this.env = {
      ...place.env,
      PATH: `${bin}:${place.env['PATH']}`,
      GEMINI_API_KEY: 'none',
      GOOGLE_GEMINI_BASE_URL: model.url,
    };
    mkdirSync(this.folder, { recursive: true });
    const own = {
      security: { auth: { selectedType: 'gemini-api-key' } },
      general: { enableAutoUpdate: false, enableAutoUpdateNotification: false },
      // Otherwise it asks a model first which model it should ask.
      model: { name: 'gemini-3.8-flash' },
      privacy: { usageStatisticsEnabled: false },
    };
    writeFileSync(this.settings, `${JSON.stringify({ ...own, ...settings }, null, 2)}\n`, { flag: 'wx' });
    if (options.isTrusted !== false)
      writeFileSync(`${this.folder}/trustedFolders.json`, JSON.stringify({ [place.project]: 'TRUST_FOLDER' }));
  }

  get folder(): string {
    return `${this.options.place.home}/.gemini`;
  }

  get settings(): string {
    return `${this.folder}/settings.json`;
  }

  /** `gemini -p <prompt>` to its end. It runs each tool unasked. */
  headless(prompt: string, args: string[] = [], ms = DEADLINE): Promise<Run> {
    const command = ['gemini', '--yolo', ...args, '-p', prompt];
    return runs(command, { cwd: this.options.place.project, env: this.env, ms });
  }

  /** Waits until its TUI takes a prompt. */
  async ready(terminal: Terminal): Promise<void> {
    const isAtRest = (screen: string): boolean =>
      /^ [>*] {3}Type your message/m.test(screen) && !screen.includes('(esc to cancel');
    await terminal.until(isAtRest, 'rest at its prompt', DEADLINE);
  }

  async submit(terminal: Terminal, prompt: string): Promise<void> {
    await terminal.paste(prompt);
    await terminal.until((screen) => /^ [>*] /m.test(screen) && screen.includes(prompt), `show ${prompt}`, DEADLINE);
    await Bun.sleep(ENTER_MS);
    await terminal.keys('Enter');
  }
}

export function aGemini(options: GeminiOptions): Gemini {
  return new Gemini(options);
}

/** A shell command by the tool of Gemini CLI. */
export const geminiShell = (command: string, after?: Promise<unknown>): Step =>
  call('run_shell_command', { command, description: 'a scripted step' }, after);
