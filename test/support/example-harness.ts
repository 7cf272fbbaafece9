import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { Machine, until } from './bch.ts';
import type { Running } from './bch.ts';
import { HostClient } from './host-client.ts';
import { HostTap } from './host-tap.ts';

const HARNESS = new URL('../../examples/harness/harness.ts', import.meta.url).pathname;

/** The real `parley host`, the harness of the examples, and everything that its model was given. */
export class ExampleHouse {
  readonly machine = new Machine();
  readonly program = this.machine.program;
  readonly journal = `${this.program.home}/journal.jsonl`;
  readonly #log = `${this.program.home}/prompts`;
  readonly #model = `${this.program.home}/model`;
  readonly #clients: HostClient[] = [];
  tap = new HostTap('', '');
  #host: Running | undefined;
  #harness: Bun.Subprocess | undefined;

  /** A host with these agents; the first is the one whom the harness runs. */
  async open(...names: string[]): Promise<this> {
    await this.program.init(...names);
    this.#host = this.machine.start('parley', ['host']);
    await this.#host.says('listening');
    this.tap = await new HostTap(`${this.program.home}/tap`, this.socket).open();
    this.thinks('echo done');
    return this;
  }

  get socket(): string {
    return `${this.program.home}/.parley/host/socket`;
  }

  /** What the model does after it has read its prompt. */
  thinks(script: string): void {
    writeFileSync(this.#model, `#!/bin/sh\nprintf '%s\\0' "$(cat)" >> ${this.#log}\n${script}\n`);
    chmodSync(this.#model, 0o700);
  }

  async start(agent: string, ...options: string[]): Promise<void> {
    const args = ['--socket', this.tap.path, '--journal', this.journal, ...options, agent, '--', this.#model];
    const binds = this.#answeredBinds;
    this.#harness = Bun.spawn([process.execPath, HARNESS, ...args], {
      env: this.program.env,
      stdio: ['ignore', 'ignore', 'ignore'],
    });
    await until('the harness', () => this.#answeredBinds > binds);
  }

  get #answeredBinds(): number {
    return this.tap.seen.filter(({ from, frame }) => from === 'host' && frame.result?.['warnings']).length;
  }

  /** Kills the harness with SIGKILL. */
  kill(): void {
    this.#harness?.kill('SIGKILL');
  }

  async killed(): Promise<void> {
    this.kill();
    await this.#harness?.exited;
  }

  /** Everything that a model saw, one entry per turn. */
  get prompts(): string[] {
    return existsSync(this.#log) ? readFileSync(this.#log, 'utf8').split('\0').slice(0, -1) : [];
  }

  /** The events that stand in the harness's journal. */
  get stored(): Record<string, unknown>[] {
    return this.#lines.flatMap(({ accepted }) => (accepted ? [accepted] : []));
  }

  /** How many turns the host has confirmed as over. */
  get turns(): number {
    return this.#lines.filter(({ state }) => state === 'told').length;
  }

  get #lines(): { accepted?: Record<string, unknown>; state?: string }[] {
    if (!existsSync(this.journal)) return [];
    const lines = readFileSync(this.journal, 'utf8').split('\n').filter(Boolean);
    return lines.map((line) => JSON.parse(line) as object);
  }

  async told(what: string, isSo: (prompts: string[]) => boolean): Promise<void> {
    await until(what, () => isSo(this.prompts));
  }

  /** A chat with people. */
  async surface(): Promise<HostClient> {
    const client = await this.#connect({ role: 'surface' });
    await client.done('surface/bind', { platform: 'slack', workspaceId: 'T1' });
    return client;
  }

  /** Another session of the same or another agent, to call tools with. */
  async session(agent: string, fields: object = {}): Promise<HostClient> {
    const client = await this.#connect({});
    await client.done('session/bind', { sessionId: `tools-${agent}`, identities: [agent], ...fields });
    return client;
  }

  async close(): Promise<void> {
    await this.killed();
    for (const client of this.#clients) client.close();
    this.tap.close();
    await this.#host?.stop();
  }

  async #connect(fields: object): Promise<HostClient> {
    const client = await (await HostClient.onSocket(this.socket)).initialize(fields);
    this.#clients.push(client);
    return client;
  }
}
