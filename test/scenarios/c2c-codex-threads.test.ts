// Codex names its threads by itself and runs hooks with a strange environment. Which managed session a thread belongs to is known by
// the process that runs its hooks and servers. The clients here are shells that are called `codex` and run what a test tells them.
import { afterEach, beforeEach, describe, expect, it } from 'bun:test';
import { chmodSync, existsSync, mkdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { LoopMachine } from '../support/c2c-loops.ts';
import { PARLEY } from '../support/program.ts';

const HOOK = 'c2c hook codex';
const POLL = { jsonrpc: '2.0', id: 2, method: 'tools/call', params: { name: 'poll_inbox', arguments: {} } };

let machine: Codexes;
beforeEach(async () => {
  machine = new Codexes();
  await machine.register('alice');
});
afterEach(() => machine.close());

describe('two managed sessions of Codex in one folder', () => {
  it('each get their mail in the hooks of their own threads, whatever the environment of a hook says', async () => {
    await machine.start('one', 'two');
    await machine.send('one', 'CANARY for one');
    await machine.send('two', 'CANARY for two');
    const env = { C2C_MCP_SESSION_ID: 'one', C2C_INSTANCE_NAME: 'one' };
    expect(await machine.within('two', HOOK, aPrompt('thread-2'), env)).toContain('CANARY for two');
    expect(await machine.within('one', HOOK, aPrompt('thread-1'), {})).toContain('CANARY for one');
  });

  it('each poll their own inbox by a server that was given no environment', async () => {
    await machine.start('one', 'two');
    await machine.send('two', 'CANARY for two');
    expect(await machine.within('one', 'c2c mcp', JSON.stringify(POLL))).not.toContain('CANARY');
    expect(await machine.within('two', 'c2c mcp', JSON.stringify(POLL))).toContain('CANARY for two');
  });
});

describe('a managed session of Codex', () => {
  it('shares its mail with no client that runs below it: a daemon, or one that its model started', async () => {
    await machine.start('one');
    await machine.send('one', 'CANARY for one');
    const below = `${machine.codex} -c '${HOOK}; true'`;
    expect(await machine.within('one', below, aPrompt('thread-9'), { C2C_MCP_SESSION_ID: 'one' })).toBe('');
    expect(await machine.within('one', HOOK, aPrompt('thread-1'))).toContain('CANARY for one');
  });

  it('is known through the script that npm puts before the program', async () => {
    symlinkSync(machine.codex, `${machine.home}/bin/node`);
    // The script of npm stays, and waits for the program.
    const script = `${machine.home}/bin/started`;
    const npm = `${machine.home}/@openai/codex/bin/codex.js`;
    mkdirSync(dirname(npm), { recursive: true });
    writeFileSync(npm, `${machine.codex} ${machine.runner}; exit\n`);
    writeFileSync(script, `#!/bin/sh\nexec ${machine.home}/bin/node ${npm}\n`);
    chmodSync(script, 0o755);
    await machine.startAs('one', script);
    await machine.send('one', 'CANARY for one');
    expect(await machine.within('one', HOOK, aPrompt('thread-1'))).toContain('CANARY for one');
  });

  it('gets its mail in a thread that belonged to another session before it was resumed', async () => {
    await machine.start('one', 'two');
    await machine.within('one', HOOK, aPrompt('thread-1'));
    await machine.send('two', 'CANARY for two');
    expect(await machine.within('two', HOOK, aPrompt('thread-1'))).toContain('CANARY for two');
  });

  it('is nobody after it has ended: its number may be another process by then', async () => {
    await machine.start('one');
    await machine.send('one', 'CANARY for one');
    const config = `${machine.data}/instances/one/config.json`;
    const instance = JSON.parse(readFileSync(config, 'utf8')) as object;
    writeFileSync(config, JSON.stringify({ ...instance, pid_start: '1' }));
    expect(await machine.within('one', HOOK, aPrompt('thread-1'))).toBe('');
  });
});

const aPrompt = (session_id: string): string =>
  JSON.stringify({ session_id, cwd: '/', hook_event_name: 'UserPromptSubmit', prompt: 'hello' });

/** Managed clients that run what they are told, one order after the other. */
class Codexes extends LoopMachine {
  readonly codex = `${this.home}/bin/codex`;
  readonly runner = `${this.home}/runner.sh`;
  #orders = 0;

  constructor() {
    super();
    // By this name it is a client.
    symlinkSync('/bin/sh', this.codex);
    writeFileSync(this.runner, RUNNER);
    writeFileSync(this.client, `#!/bin/sh\nexec ${this.codex} ${this.runner}\n`);
    writeFileSync(`${this.home}/bin/c2c`, `#!/bin/sh\nexec '${PARLEY}' c2c "$@"\n`);
    for (const path of [this.client, `${this.home}/bin/c2c`]) chmodSync(path, 0o755);
  }

  async start(...names: string[]): Promise<void> {
    for (const name of names) await this.startAs(name, this.client);
  }

  async startAs(name: string, program: string): Promise<void> {
    mkdirSync(`${this.home}/orders/${name}`, { recursive: true });
    await this.json(['start', 'codex', '-n', name, '--no-wake', '--bin', program]);
  }

  /** What a command prints that this client starts, with this on its standard input and nothing else in its environment. */
  async within(name: string, command: string, input: string, env: Record<string, string> = {}): Promise<string> {
    this.#orders += 1;
    const order = `${this.home}/orders/${name}/${this.#orders}`;
    const given = { HOME: this.home, PATH: `${this.home}/bin:${process.env['PATH']}`, ...env };
    const variables = Object.entries(given).map(([key, value]) => `${key}='${value}'`);
    writeFileSync(`${order}.in`, `${input}\n`);
    writeFileSync(`${order}.new`, `env -i ${variables.join(' ')} sh -c "${command}" <${order}.in >${order}.out\n`);
    renameSync(`${order}.new`, `${order}.sh`);
    await this.until(() => existsSync(`${order}.done`));
    return readFileSync(`${order}.out`, 'utf8');
  }
}

const RUNNER = `cd "$HOME/orders/$C2C_INSTANCE_NAME"
while :; do
  for order in *.sh; do
    [ -e "$order" ] || continue
    sh "$order"
    mv "$order" "\${order%.sh}.done"
  done
  sleep 0.05
done
`;
