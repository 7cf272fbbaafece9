// The real OpenCode, in a home of the test, with a scripted model.
//
//   const openCode = anOpenCode({ place, model });           // before or after the product installs its plugin there
//   const run = await openCode.run('do it');                 // `opencode run`, to its end: { out, err, code }
//   const server = await openCode.serve();                   // its HTTP server, warm, for the project
//   const session = await server.session(); await session.prompt('do it'); await session.idle();
//   const terminal = await openCode.terminal();              // its TUI in tmux, ready for input
//
// Plugins go to ~/.config/opencode/plugins/ (`openCode.config`), or to <project>/.opencode/plugins/ after
// `seedPluginFolder(`${place.project}/.opencode`)`: OpenCode installs packages into every folder with settings, which
// takes half a minute or a network; a seeded folder has them already.
import { existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import type { Run } from '../../support/program.ts';
import type { Model } from '../model/model.ts';
import { type OpenCodeServer, startServer } from './opencode-server.ts';
import type { Place } from './place.ts';
import { runs } from './runs.ts';
import { aTerminal, type Terminal } from './terminal.ts';
import { client, CLIENTS, PLUGIN_VERSION } from './where.ts';

/** A first start does much: a loaded machine needs its time. */
const DEADLINE = 200_000;

/** A composer in which only the letter x was typed. */
const TYPED = /^\s*┃\s+x+\s*$/m;

export interface OpenCodeOptions {
  place: Place;
  model: Model;
  /** Joined to the settings of the scripted model in ~/.config/opencode/opencode.json. */
  settings?: Record<string, unknown>;
  env?: Record<string, string>;
  /** False: OpenCode was never started here, and has no package for plugins. */
  hasPackage?: boolean;
}

export class OpenCode {
  readonly program = client('opencode').program;
  readonly env: Record<string, string>;

  constructor(readonly options: OpenCodeOptions) {
    this.env = {
      ...options.place.env,
      OPENCODE_DISABLE_MODELS_FETCH: '1',
      OPENCODE_DISABLE_AUTOUPDATE: '1',
      OPENCODE_DISABLE_LSP_DOWNLOAD: '1',
      ...options.env,
    };
    mkdirSync(this.config, { recursive: true });
    if (options.hasPackage ?? true) seedPluginFolder(this.config);
    const settings = { ...scripted(options.model), ...options.settings };
    const file = `${this.config}/opencode.json`;
    if (existsSync(file)) throw new Error(`${file} is there already: let the product install after anOpenCode`);
    writeFileSync(file, JSON.stringify(settings, null, 2));
  }

  /** The user's settings folder of OpenCode. */
  get config(): string {
    return `${this.options.place.home}/.config/opencode`;
  }

  /** `opencode run <prompt>` to its end. */
  run(prompt: string, args: string[] = [], ms = DEADLINE): Promise<Run> {
    return runs([this.program, 'run', ...args, prompt], { cwd: this.options.place.project, env: this.env, ms });
  }

  /** `opencode serve` on a free port of loopback. */
  serve(args: string[] = [], options: string[] = []): Promise<OpenCodeServer> {
    return startServer([this.program, ...options, 'serve', ...args], this.options.place.project, this.env, DEADLINE);
  }

  /** The TUI, when it takes input. What is typed before that is lost. */
  async terminal(args: string[] = []): Promise<Terminal> {
    const terminal = await aTerminal(this.options.place, [this.program, ...args], { env: this.env });
    await this.ready(terminal);
    return terminal;
  }

  /** Waits until a TUI takes input. */
  async ready(terminal: Terminal): Promise<void> {
    await takesInput(terminal);
  }
}

export function anOpenCode(options: OpenCodeOptions): OpenCode {
  return new OpenCode(options);
}

/** The composer is shown before it listens. It listens when it shows a letter; then the letter is taken back. */
async function takesInput(terminal: Terminal): Promise<void> {
  const until = performance.now() + DEADLINE;
  while (performance.now() < until) {
    await terminal.type('x');
    try {
      await terminal.shows(TYPED, 1000);
      break;
    } catch {
      // That letter was lost.
    }
  }
  await terminal.keys('C-u');
  await terminal.until((screen) => !TYPED.test(screen), 'lose the letter');
}

/** Gives a settings folder of OpenCode the packages that it would otherwise fetch at its first start. */
export function seedPluginFolder(folder: string): void {
  const dependencies = { '@opencode-ai/plugin': PLUGIN_VERSION };
  mkdirSync(`${folder}/node_modules/@opencode-ai`, { recursive: true });
  symlinkSync(`${CLIENTS}/node_modules/@opencode-ai/plugin`, `${folder}/node_modules/@opencode-ai/plugin`);
  writeFileSync(`${folder}/package.json`, JSON.stringify({ dependencies }));
  const packages = { '': { dependencies }, 'node_modules/@opencode-ai/plugin': { version: PLUGIN_VERSION } };
  writeFileSync(`${folder}/package-lock.json`, JSON.stringify({ lockfileVersion: 3, packages }));
}

/** The model of the test as OpenCode's only provider. */
function scripted(model: Model): Record<string, unknown> {
  return {
    autoupdate: false,
    share: 'disabled',
    model: 'scripted/one',
    small_model: 'scripted/one',
    provider: {
      scripted: {
        npm: '@ai-sdk/openai-compatible',
        name: 'Scripted',
        options: { baseURL: `${model.url}/v1`, apiKey: 'none' },
        models: { one: { name: 'One', limit: { context: 200_000, output: 8000 } } },
      },
    },
  };
}
