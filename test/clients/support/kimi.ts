// The real Kimi, in a home of the test, with a scripted model.
//
//   const kimi = aKimi({ place, model });                    // before the product installs its hooks there
//   const run = await kimi.headless('do it');                // `kimi -p`, to its end: { out, err, code }
//   await kimi.ready(terminal);                              // its TUI in tmux, no matter who started it, at its prompt
//   const server = await kimi.web();                         // `kimi web`; kimi.webSession(server, 'do it') begins a session there
//   await kimi.turn(terminal, 'do it', 'done');              // a whole turn, in which the model says `done`
//
// `kimi` is on the PATH of `kimi.env`, beside the Node that it needs, as after `npm install -g`.
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { kimiServers } from '../../../src/clients/kimi/web.ts';
import type { KimiServer } from '../../../src/clients/kimi/web.ts';
import type { Run } from '../../support/program.ts';
import { within } from '../../support/within.ts';
import type { Model } from '../model/model.ts';
import type { Place } from './place.ts';
import { runs } from './runs.ts';
import type { Terminal } from './terminal.ts';
import { client, nodeForScripts } from './where.ts';

const DEADLINE = 200_000;

export interface KimiOptions {
  place: Place;
  model: Model;
  /** More of its settings, as TOML. */
  settings?: string;
}

export class Kimi {
  readonly env: Record<string, string>;

  constructor(readonly options: KimiOptions) {
    const { place, model } = options;
    const bin = `${place.home}/bin`;
    mkdirSync(bin, { recursive: true });
    symlinkSync(client('kimi').program, `${bin}/kimi`);
    symlinkSync(nodeForScripts(), `${bin}/node`);
    this.env = { ...place.env, PATH: `${bin}:${place.env['PATH']}`, KIMI_DISABLE_TELEMETRY: '1' };
    const file = `${this.folder}/config.toml`;
    if (existsSync(file)) throw new Error(`${file} is there already: let the product install after aKimi`);
    mkdirSync(this.folder, { recursive: true });
    writeFileSync(file, `${scripted(model)}${options.settings ?? ''}`);
  }

  get folder(): string {
    return `${this.options.place.home}/.kimi-code`;
  }

  /** As if its user had said so before: it asks nothing when it starts there. */
  trustProject(): void {
    const root = this.options.place.project;
    const sum = new Bun.CryptoHasher('sha256').update(root).digest('hex').slice(0, 12);
    mkdirSync(`${this.folder}/workspace-trust`);
    writeFileSync(`${this.folder}/workspace-trust/wd_project_${sum}`, JSON.stringify({ root, trustedAt: 1 }));
  }

  /** All that it has written down of its conversations. */
  wires(): string {
    const paths = [
      ...new Bun.Glob('sessions/*/*/agents/main/wire.jsonl').scanSync({ cwd: this.folder, absolute: true }),
    ];
    return paths.map((path) => readFileSync(path, 'utf8')).join('');
  }

  /** `kimi -p <prompt>` to its end. */
  headless(prompt: string, args: string[] = [], ms = DEADLINE): Promise<Run> {
    const command = ['kimi', ...args, '-p', prompt];
    return runs(command, { cwd: this.options.place.project, env: this.env, ms });
  }

  /** `kimi web`, as its user starts it. */
  async web(): Promise<KimiServer> {
    const how = { cwd: this.options.place.project, env: this.env, stdin: 'ignore', stdout: 'ignore' } as const;
    const child = Bun.spawn(['kimi', 'web', '--no-open'], how);
    let server: KimiServer | undefined;
    await within(DEADLINE, async () => {
      server = kimiServers(this.folder).find(({ pid }) => pid === child.pid);
      return (await server?.call('GET', '/meta').catch(() => null)) != null;
    });
    return server as unknown as KimiServer;
  }

  /** A session on a server, as its page begins one: with this prompt. */
  async webSession(server: KimiServer, text: string): Promise<string> {
    const made = (await server.call('POST', '/sessions', { metadata: { cwd: this.options.place.project } })) as {
      id: string;
    };
    const content = [{ type: 'text', text }];
    await server.call('POST', `/sessions/${made.id}/prompts`, { content, model: 'scripted' });
    return made.id;
  }

  /** Waits until its TUI takes a prompt: the user trusts the folder first. */
  async ready(terminal: Terminal): Promise<void> {
    const screen = await terminal.shows(/Trust this folder|│ >/, DEADLINE);
    if (screen.includes(TRUST)) await terminal.confirm(TRUST);
    // The composer is drawn before the model is known; a prompt before that is lost.
    await terminal.shows('No session yet', DEADLINE);
  }

  /** Gives it a prompt, and waits until its turn is over: it has said this, and works no more. */
  async turn(terminal: Terminal, prompt: string, said: string): Promise<void> {
    await terminal.submit(prompt);
    const isOver = (screen: string): boolean => screen.includes(`● ${said}`) && !MOON.test(screen);
    await terminal.until(isOver, `show ${said} and rest`, DEADLINE);
  }
}

const TRUST = 'Trust this folder';
/** The moon that is drawn while it works. */
const MOON = /[\u{1f311}-\u{1f318}]/u;

export function aKimi(options: KimiOptions): Kimi {
  return new Kimi(options);
}

/** The model of the test as Kimi's only one. */
function scripted(model: Model): string {
  return `default_model = "scripted"

[providers.scripted]
type = "openai"
base_url = "${model.url}/v1"
api_key = "none"

[models.scripted]
provider = "scripted"
model = "one"
max_context_size = 200000
`;
}
