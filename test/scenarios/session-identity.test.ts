// Sessions that people start by themselves after `parley install`: who they are, and whose mail they get.
import { afterEach, describe, expect, it } from 'bun:test';
import { existsSync, mkdirSync, readFileSync, realpathSync, utimesSync, writeFileSync } from 'node:fs';
import { contextIn } from '../support/hooks.ts';
import { InstallMachine } from '../support/install-home.ts';
import { linesOf } from '../support/mcp.ts';
import { PARLEY } from '../support/program.ts';
import type { Run } from '../support/program.ts';

const DAY = 24 * 60 * 60 * 1000;

function standIn(words: string[]): Bun.Subprocess<'pipe', 'pipe', 'inherit'> {
  return Bun.spawn([process.execPath, `${import.meta.dir}/../support/stand-in.child.ts`, ...words], {
    stdin: 'pipe',
    stdout: 'pipe',
    stderr: 'inherit',
  });
}

/** One running session of a client: a process of its own, with the hook and the tools that `parley install` gives it. */
class Session {
  readonly #child: ReturnType<typeof standIn>;
  readonly #said: ReturnType<typeof linesOf>;

  constructor(
    readonly machine: InstallMachine,
    readonly folder: string,
    public id: string = crypto.randomUUID(),
    readonly client = 'claude',
    /** The words with which the client was started. */
    ...words: string[]
  ) {
    this.#child = standIn(words);
    this.#said = linesOf(this.#child.stdout);
    mkdirSync(folder, { recursive: true });
  }

  async #does(command: string[], stdin: string, env: Record<string, string> = {}): Promise<Run> {
    const order = { command, stdin, env: { ...this.machine.env(), ...env }, cwd: this.folder };
    await this.#child.stdin.write(`${JSON.stringify(order)}\n`);
    await this.#child.stdin.flush();
    return JSON.parse(String((await this.#said.next()).value)) as Run;
  }

  /** What the model gets from its hook at this event. */
  async hook(name: string, fields: Record<string, unknown> = {}): Promise<string> {
    const event = { session_id: this.id, cwd: this.folder, hook_event_name: name, ...fields };
    const { out, err, code } = await this.#does(
      ['sh', '-c', `sh "$HOME/.parley/hook" ${this.client}`],
      JSON.stringify(event),
    );
    expect({ err, code }).toEqual({ err: '', code: 0 });
    return contextIn(out);
  }

  async starts(): Promise<this> {
    expect(await this.hook('SessionStart', { source: 'startup' })).toBe('');
    return this;
  }

  /** The model is asked, and calls a tool. */
  async works(): Promise<string> {
    const prompt = crypto.randomUUID();
    const first = await this.hook('UserPromptSubmit', { prompt_id: prompt });
    return first + (await this.hook('PostToolUse', { prompt_id: prompt, tool_name: 'Bash', tool_use_id: prompt }));
  }

  /** What the tools say, in one process as a client starts it. */
  async tools(...calls: [name: string, given: object][]): Promise<string[]> {
    const lines = [
      {
        id: 0,
        method: 'initialize',
        params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'x', version: '1' } },
      },
      ...calls.map(([name, given], index) => ({
        id: index + 1,
        method: 'tools/call',
        params: { name, arguments: given, ...(this.client === 'codex' && { _meta: { threadId: this.id } }) },
      })),
    ].map((one) => JSON.stringify({ jsonrpc: '2.0', ...one }));
    const { out } = await this.#does([PARLEY, 'mcp', '--client', this.client], `${lines.join('\n')}\n`);
    const answers = out
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { id: number; result?: { content?: { text: string }[] } });
    return calls.map((_, index) => answers.find(({ id }) => id === index + 1)?.result?.content?.[0]?.text ?? '');
  }

  /** `parley …` in a shell that the model started. */
  async shell(...args: string[]): Promise<string> {
    const { out, err, code } = await this.runs('"$0" "$@"; exit $?', ...args);
    if (code !== 0) throw new Error(`parley ${args.join(' ')} ended with ${code}: ${err}`);
    return out;
  }

  /** The same with a script of the shell; `$0` is parley. */
  async runs(script: string, ...args: string[]): Promise<Run> {
    const mark: Record<string, string> = this.client === 'codex' ? { CODEX_THREAD_ID: this.id } : { CLAUDECODE: '1' };
    return this.#does(['bash', '-c', script, PARLEY, ...args], '', mark);
  }

  async whoami(): Promise<string> {
    return /^@(\S+)/.exec(await this.shell('whoami'))?.[1] ?? '';
  }

  async ends(): Promise<void> {
    await this.#child.stdin.end();
    await this.#child.exited;
  }
}

let open: Session[] = [];
afterEach(async () => {
  for (const one of open) await one.ends();
  open = [];
});

async function installed(...args: string[]): Promise<InstallMachine> {
  const machine = new InstallMachine();
  await machine.does('parley', ['init', 'me']);
  await machine.does('parley', ['install', 'claude', ...args]);
  return machine;
}

function session(machine: InstallMachine, folder: string, ...more: string[]): Session {
  const one = new Session(machine, `${realpathSync(machine.at('project'))}/${folder}`, ...more);
  open.push(one);
  return one;
}

async function send(machine: InstallMachine, to: string, text: string): Promise<string> {
  return (JSON.parse(await machine.does('parley', ['send', to, text, '--json'])) as { id: string }).id;
}

async function waiting(machine: InstallMachine, name: string): Promise<string[]> {
  const mail = JSON.parse(await machine.does('parley', ['inbox', '--as', name, '--json'])) as { body: string }[];
  return mail.map(({ body }) => body);
}

describe('a session that a person starts after `parley install`', () => {
  it('has a name of its own, in its hook, its tools and its shells', async () => {
    const machine = await installed();
    const [api, web, second] = [session(machine, 'api'), session(machine, 'web'), session(machine, 'api')];
    for (const one of [api, web, second]) await one.starts();
    expect([await api.whoami(), await web.whoami(), await second.whoami()]).toEqual([
      'claude.api',
      'claude.web',
      'claude.api.2',
    ]);
    expect((await second.tools(['agents', {}]))[0]).toStartWith('you are @claude.api.2; mail for @claude is for you');
    await send(machine, '@claude.web', 'only web');
    expect(await api.works()).toBe('');
    expect(await web.works()).toContain('Mail for @claude.web. ');
    expect(await machine.does('parley', ['whoami'])).toStartWith('@me ');
  });

  it('has the same name if its tools are asked before its hook runs', async () => {
    const machine = await installed();
    const one = session(machine, 'api');
    expect((await one.tools(['agents', {}]))[0]).toStartWith('you are @claude.api;');
    await one.starts();
    expect(await one.whoami()).toBe('claude.api');
    expect((await one.tools(['agents', {}]))[0]).toStartWith('you are @claude.api;');
  });

  it('keeps its name over /clear, and its conversation gets it again when it goes on', async () => {
    const machine = await installed();
    const first = await session(machine, 'api').starts();
    const before = first.id;
    first.id = crypto.randomUUID();
    expect(await first.hook('SessionStart', { source: 'clear' })).toBe('');
    expect(await first.whoami()).toBe('claude.api');
    const second = await session(machine, 'api').starts();
    const kept = second.id;
    await second.ends();
    await send(machine, '@claude.api.2', 'for the second');
    await first.ends();
    const resumed = session(machine, 'api', kept);
    await resumed.hook('SessionStart', { source: 'resume' });
    expect(await resumed.works()).toContain('for the second');
    const cleared = session(machine, 'api', before);
    await cleared.hook('SessionStart', { source: 'resume' });
    expect(await cleared.whoami()).toBe('claude.api');
  });

  it("is the client's mailbox where somebody chose one", async () => {
    const machine = await installed('--as', 'reviewer');
    const [api, web] = [await session(machine, 'api').starts(), await session(machine, 'web').starts()];
    await send(machine, '@reviewer', 'for both');
    expect((await api.tools(['agents', {}]))[0]).toStartWith('you are @reviewer\n');
    expect(await web.works()).toContain('Mail for @reviewer. ');
    expect(existsSync(`${machine.at('.parley')}/names`)).toBe(false);
  });

  it('goes on as @claude if it began with an older Parley, and others share its mail', async () => {
    const machine = await installed();
    const old = session(machine, 'api');
    const folder = `${machine.at('.parley')}/sessions/${old.id}`;
    mkdirSync(folder, { recursive: true });
    const binding = { v: 1, by: 'claude', agent: 'claude', match: old.folder, cwd: old.folder };
    writeFileSync(`${folder}/session.json`, JSON.stringify(binding));
    const next = await session(machine, 'web').starts();
    await send(machine, '@claude', 'one of you');
    expect(await old.works()).toContain('Mail for @claude. ');
    expect(await next.works()).toBe('');
    await old.hook('SessionStart', { source: 'resume' });
    expect(await old.whoami()).toBe('claude.api');
  });

  it('is not said to have ended while nothing tells that: its process has many', async () => {
    const machine = await installed();
    const first = await session(machine, 'api').starts();
    const file = `${machine.at('.parley')}/names/claude.api.json`;
    // As a session of `kimi web` has it.
    writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, 'utf8')), pid: 0, start: null }));
    await first.ends();
    expect((await machine.run('parley', ['send', '@claude.api', 'are you there?'])).err).toBe('');
  });

  it('is listed, also if the files of another client cannot be read', async () => {
    const machine = await installed();
    await session(machine, 'api').starts();
    mkdirSync(machine.at('.kimi-code/session_index.jsonl'), { recursive: true });
    const { out, err, code } = await machine.run('parley', ['agents']);
    expect([code, out]).toEqual([0, expect.stringContaining('@claude.api  claude in ~/project/api, running')]);
    expect(err).toStartWith('parley: the running sessions of kimi cannot be listed: ');
  });

  it('leaves its name to the next one in its folder, and `send` says when it was last seen', async () => {
    const machine = await installed();
    const first = await session(machine, 'api').starts();
    await first.ends();
    const { err: gone } = await machine.run('parley', ['send', '@claude.api', 'are you there?']);
    expect(gone).toContain(`@claude.api does not run here now; the next claude session in ${first.folder} gets this\n`);
    await machine.does('parley', ['drain', '--as', 'claude.api']);
    for (const path of ['names/claude.api.json', `sessions/${first.id}`, 'agents/claude.api.json']) {
      const file = `${machine.at('.parley')}/${path}`;
      const text = path.endsWith('.json') ? readFileSync(file, 'utf8') : null;
      const then = new Date(Date.now() - 3 * DAY);
      if (text?.includes('lastSeen'))
        writeFileSync(file, JSON.stringify({ ...JSON.parse(text), lastSeen: then.toISOString() }));
      utimesSync(file, then, then);
    }
    const { err } = await machine.run('parley', ['send', '@claude.api', 'still there?']);
    expect(err).toContain(`@claude.api was last seen 3 d ago; the next claude session in ${first.folder} gets this\n`);
    const next = await session(machine, 'api').starts();
    expect(await next.works()).toContain('still there?');
    expect((await machine.run('parley', ['send', '@claude.api', 'hello'])).err).toBe('');
  });
});

describe('mail for the client', () => {
  it('reaches exactly one of its sessions, which owes the answer and gives it under its own name', async () => {
    const machine = await installed();
    const [api, web] = [await session(machine, 'api').starts(), await session(machine, 'web').starts()];
    const id = await send(machine, '@claude', 'which tests fail?');
    expect((await web.tools(['inbox', {}]))[0]).toContain('which tests fail?');
    expect(await api.works()).toContain('Mail for @claude.api. ');
    expect(await web.works()).toBe('');
    expect(await web.tools(['inbox', {}], ['reply', { id, text: 'none' }])).toEqual([
      'you owe nothing; no messages',
      expect.stringContaining('is here for you'),
    ]);
    expect(await api.shell('owe')).toContain('which tests fail?');
    expect((await api.tools(['inbox', {}]))[0]).toStartWith(`you owe an answer to ${id.slice(0, 8)} (@me)`);
    expect((await api.tools(['reply', { id, text: 'all pass' }]))[0]).toContain('for @me');
    expect(await waiting(machine, 'me')).toEqual(['all pass']);
    const [answer] = JSON.parse(await machine.does('parley', ['inbox', '--json'])) as {
      from: string;
      thread: string;
    }[];
    expect(answer).toMatchObject({ from: 'claude.api', thread: id });
    expect(await machine.does('parley', ['owe', '--blocking'])).toBe('nobody owes you anything\n');
    expect(await api.shell('owe')).toBe('you owe nothing\n');
    expect(await machine.does('parley', ['owe', '--as', 'claude'])).toBe('you owe nothing\n');
  });

  it('is taken by the session that reads or answers it first', async () => {
    const machine = await installed();
    const [api, web] = [await session(machine, 'api').starts(), await session(machine, 'web').starts()];
    const [read, answered] = [await send(machine, '@claude', 'read me'), await send(machine, '@claude', 'answer me')];
    expect((await web.tools(['read', { id: read }]))[0]).toContain('read me');
    expect(await api.shell('inbox', '--brief')).toContain('answer me');
    expect(await api.shell('reply', answered, 'here')).toContain('for @me');
    expect(await web.shell('owe')).toContain('read me');
    expect(await api.shell('owe')).toBe('you owe nothing\n');
    for (const one of [api, web]) expect(await one.works()).toBe('');
    expect(await machine.does('parley', ['owe', '--blocking'])).toContain('@claude.web owes you');
  });

  it('still waits for all of them where what `read` says cannot be written', async () => {
    const machine = await installed();
    const [api, web] = [await session(machine, 'api').starts(), await session(machine, 'web').starts()];
    const id = await send(machine, '@claude', 'read me');
    expect((await api.runs('"$0" "$@" > /dev/full', 'read', id)).code).not.toBe(0);
    expect(await web.shell('read', id)).toContain('read me');
    expect(await web.shell('owe')).toContain('read me');
  });

  it('is drained together with the mail of the session, as one list, and cannot be held', async () => {
    const machine = await installed();
    const api = await session(machine, 'api').starts();
    const drained = async (...args: string[]): Promise<string[]> =>
      (JSON.parse(await api.shell('drain', '--json', ...args)) as { body: string }[]).map(({ body }) => body);
    for (const text of ['one', 'two']) await send(machine, '@claude.api', text);
    const id = await send(machine, '@claude', 'three');
    await send(machine, '@claude', 'four');
    expect((await api.runs('"$0" "$@"', 'take', id, '--lease', '1m')).err).toContain(
      'is for any session of @claude, and cannot be held; take it: parley take',
    );
    expect(await drained('--limit', '3')).toEqual(['one', 'two', 'three']);
    expect(await drained()).toEqual(['four']);
    expect(await drained()).toEqual([]);
    await send(machine, '@claude.api', 'five');
    await send(machine, '@claude', 'six');
    expect(await api.shell('drain')).toMatch(/five\n\n[^]*six\n/);
  });

  it('is shown and taken by `parley watch` of a session, too, and counted by `parley`', async () => {
    const machine = await installed();
    const api = await session(machine, 'api').starts();
    await send(machine, '@claude.api', 'mine');
    const id = await send(machine, '@claude', 'for any');
    expect(await api.shell()).toContain('You are @claude.api: 2 waiting');
    // Two lines, and then it is told to end.
    const twoLines =
      'mkfifo said; "$0" "$@" > said & { read -r a; read -r b; } < said; kill $!; wait; rm said; echo "$a$b"';
    const seen = await api.runs(twoLines, 'watch', '--json');
    const taken = await api.runs(twoLines, 'watch', '--take', '--json');
    for (const { out } of [seen, taken]) expect(out).toMatch(/(?=.*"mine")(?=.*"for any")/);
    expect(await api.shell('inbox')).toContain('inbox empty');
    expect(await machine.does('parley', ['trace', id])).toContain('taken by @claude.api');
    await send(machine, '@claude', 'another');
    expect(await api.shell('take', '--lease', '1m')).toContain('cannot be held; take it: parley take');
  });

  it('waits for the others again if its reader ends before its model was asked', async () => {
    const machine = await installed();
    const [api, web] = [await session(machine, 'api').starts(), await session(machine, 'web').starts()];
    await send(machine, '@claude', 'somebody');
    expect(await api.hook('UserPromptSubmit', { prompt_id: 'p' })).toContain('somebody');
    expect(await web.works()).toBe('');
    await api.ends();
    // Any command notices that its reader has ended; a hook that finds nothing new looks within half a minute.
    await machine.does('parley', ['inbox']);
    expect(await web.works()).toContain('somebody');
    expect(await machine.does('parley', ['owe', '--blocking'])).toContain('@claude.web owes you');
  });

  it('is not for the session that sent it', async () => {
    const machine = await installed();
    const [api, web] = [await session(machine, 'api').starts(), await session(machine, 'web').starts()];
    await api.shell('send', '@claude', 'who is there?');
    expect(await api.works()).toBe('');
    expect(await web.works()).toContain('who is there?');
  });

  it('costs a session that has none of it no start of the program', async () => {
    const machine = await installed();
    const [api, web] = [await session(machine, 'api').starts(), await session(machine, 'web').starts()];
    await send(machine, '@claude', 'for one');
    expect(await api.works()).toContain('for one');
    const event = { prompt_id: 'p', tool_name: 'Bash', tool_use_id: 't' };
    expect(await web.hook('PostToolUse', event)).toBe('');
    // Without the program the script ends before it would need it.
    writeFileSync(
      `${machine.at('.parley')}/hook`,
      readFileSync(`${machine.at('.parley')}/hook`, 'utf8').replaceAll(PARLEY, '/bin/false'),
    );
    expect(await web.hook('PostToolUse', event)).toBe('');
    expect(await api.hook('PostToolUse', { ...event, tool_use_id: 'u' })).toBe('');
  });

  it('is shown by `agents` with the sessions that share it', async () => {
    const machine = await installed();
    await send(machine, '@claude', 'one');
    expect(await machine.does('parley', ['agents'])).toContain(
      '@claude  mail for any session of claude: none runs  1 waiting',
    );
    await session(machine, 'api').starts();
    const said = await machine.does('parley', ['agents']);
    expect(said).toContain('@claude  mail for any session of claude: @claude.api  1 waiting\n');
    expect(said).toMatch(
      /^@claude\.api {2}claude in ~\/project\/api, running; mail comes with your next prompt \(hook\)$/m,
    );
  });
});

describe('a session of Codex, which has one process for many', () => {
  it.each([
    ['without its daemon', 'resume'],
    ['in a daemon that does not answer', 'app-server'],
  ])('has a name of its own beside another one in its folder, %s', async (_where, word) => {
    const machine = await installed();
    await machine.does('parley', ['install', 'codex']);
    const two = [1, 2].map(() => session(machine, 'api', crypto.randomUUID(), 'codex', word));
    for (const one of two) await one.starts();
    expect(await Promise.all(two.map((one) => one.whoami()))).toEqual(['codex.api', 'codex.api.2']);
    await send(machine, '@codex.api', 'for the first');
    expect(await two[1]?.works()).toBe('');
    expect(await two[0]?.works()).toContain('for the first');
  });

  it('has a name by its thread, also in its tools and shells', async () => {
    const machine = await installed();
    await machine.does('parley', ['install', 'codex']);
    const one = session(machine, 'api', crypto.randomUUID(), 'codex');
    await one.starts();
    expect((await one.tools(['agents', {}]))[0]).toStartWith('you are @codex.api;');
    expect(await one.whoami()).toBe('codex.api');
    await send(machine, '@codex', 'any of you');
    expect(await one.works()).toContain('Mail for @codex.api. ');
  });
});
