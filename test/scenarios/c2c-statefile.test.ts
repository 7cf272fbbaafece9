import { StateFile } from '../../src/clients/opencode/statefile.ts';
import { afterEach, describe, expect, it } from 'bun:test';
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  readdirSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { PARLEY, Program } from '../support/program.ts';
import { within } from '../support/within.ts';

const encoder = new TextEncoder();
const writers: Writer[] = [];
const readers: Bun.Subprocess[] = [];
afterEach(async () => {
  for (const one of readers.splice(0)) one.kill();
  for (let one = writers.pop(); one; one = writers.pop()) await one.end();
});

/** The real writer, with its stdin in the test's hand. */
class Writer {
  readonly program: Program;
  readonly child;
  readonly #err: Promise<string>;

  constructor(env: Record<string, string> = {}, home?: string) {
    this.program = new Program(home, env);
    this.child = Bun.spawn([PARLEY, 'oc-plugin', 'stream-write-statefile'], {
      argv0: 'c2c',
      env: this.program.env,
      cwd: this.program.home,
      stdin: 'pipe',
      stdout: 'ignore',
      stderr: 'pipe',
    });
    this.#err = new Response(this.child.stderr).text();
    writers.push(this);
  }

  get path(): string {
    return `${this.program.home}/.local/share/c2c/oc-plugin-state.json`;
  }

  async say(...events: unknown[]): Promise<void> {
    await this.bytes(encoder.encode(events.map((event) => `${JSON.stringify(event)}\n`).join('')));
  }

  async bytes(bytes: Uint8Array): Promise<void> {
    void this.child.stdin.write(bytes);
    await this.child.stdin.flush();
  }

  async end(): Promise<{ err: string; code: number }> {
    await this.child.stdin.end();
    return { code: await this.child.exited, err: await this.#err };
  }

  file(): { event: string; ts: string; state: Record<string, unknown> } {
    return JSON.parse(readFileSync(this.path, 'utf8')) as ReturnType<Writer['file']>;
  }

  async until(isSo: (state: Record<string, unknown>) => boolean): Promise<void> {
    await within(20_000, async () => existsSync(this.path) && isSo(this.file().state));
  }
}

const TS = '2026-04-21T14:05:00.123Z';
const snapshot = (state: unknown) => ({ event: 'state.snapshot', ts: TS, state });
const patch = (part: unknown, ts = TS) => ({ event: 'state.patch', ts, patch: part });

describe('c2c oc-plugin stream-write-statefile', () => {
  it('reads a stream of ten megabytes, cut anywhere, to its end [C2C-50]', async () => {
    const writer = new Writer();
    const word = 'ä€😀 '.repeat(1000);
    const events = Array.from({ length: 1100 }, (_, n) => patch({ deep: { [`k${n % 7}`]: `${word}${n}` } }));
    const stream = encoder.encode(
      [snapshot({ a: 1 }), ...events].map((event) => `${JSON.stringify(event)}\n`).join(''),
    );
    expect(stream.length).toBeGreaterThan(10_000_000);
    // A prime: the cuts fall into every part of the letters.
    for (let at = 0; at < stream.length; at += 65_521) await writer.bytes(stream.subarray(at, at + 65_521));
    const { err, code } = await writer.end();
    expect([err, code]).toEqual(['', 0]);
    const { state } = writer.file();
    expect(state['a']).toBe(1);
    expect(state['deep']).toEqual(Object.fromEntries(Array.from({ length: 7 }, (_, n) => lastOf(n, word))));
  });

  it('waits for the rest of a letter whose first half has come [C2C-50]', async () => {
    const writer = new Writer();
    const lines = encoder.encode(`${JSON.stringify(snapshot({}))}\n${JSON.stringify(patch({ name: 'grün' }))}\n`);
    const inside = lines.indexOf(0xc3) + 1;
    await writer.bytes(lines.subarray(0, inside));
    // The first line came with the first half of the letter: so that was read, too.
    await writer.until(() => true);
    await writer.bytes(lines.subarray(inside));
    await writer.until(({ name }) => name !== undefined);
    expect(writer.file().state).toEqual({ name: 'grün' });
    expect((await writer.end()).err).toBe('');
  });

  it('takes a last line without an end', async () => {
    const writer = new Writer();
    await writer.bytes(encoder.encode(JSON.stringify(snapshot({ a: 1 }))));
    expect((await writer.end()).code).toBe(0);
    expect(writer.file()).toEqual({ event: 'state.snapshot', ts: TS, state: { a: 1 } });
  });

  it('replaces the state by a snapshot and changes it by a patch [C2C-51]', async () => {
    const writer = new Writer();
    await writer.say(snapshot({ a: { x: 1, y: 2 }, old: true }), patch({ a: { x: null } }, '2026-04-21T14:05:01.456Z'));
    await writer.until(({ a }) => (a as Record<string, unknown>)['x'] === null);
    expect(writer.file()).toEqual({
      event: 'state.snapshot',
      ts: '2026-04-21T14:05:01.456Z',
      state: { a: { x: null, y: 2 }, old: true },
    });
    await writer.say(snapshot({ a: { z: 3 } }));
    await writer.until(({ a }) => (a as Record<string, unknown>)['z'] === 3);
    expect(writer.file().state).toEqual({ a: { z: 3 } });
  });

  it('ignores patches before the first snapshot of its life, with one warning and without a file [C2C-51]', async () => {
    const writer = new Writer();
    await writer.say(patch({ a: 1 }), patch({ a: 2 }), patch({ a: 3 }));
    const { err, code } = await writer.end();
    expect(err).toBe(
      'warning: a state.patch came before the first state.snapshot; patches are ignored until one comes\n',
    );
    expect(code).toBe(0);
    expect(existsSync(writer.path)).toBe(false);
  });

  it('does not patch what a writer before it left [C2C-51]', async () => {
    const first = new Writer();
    await first.say(snapshot({ a: 1 }));
    await first.end();
    const second = new Writer({}, first.program.home);
    await second.say(patch({ b: 2 }));
    expect((await second.end()).err).toContain('before the first state.snapshot');
    expect(second.file().state).toEqual({ a: 1 });
  });

  it('warns once of each kind of bad line, and goes on', async () => {
    const writer = new Writer();
    const deep = `{"event":"state.patch","patch":${'{"a":'.repeat(5000)}1${'}'.repeat(5000)}}`;
    const lines = [
      '{',
      'null',
      '[]',
      '',
      '{"event":"state.patch","patch":[]}',
      '{"event":"other"}',
      deep,
      '{"event":"state.snapshot"}',
    ];
    await writer.say(snapshot({ a: 1 }));
    await writer.bytes(encoder.encode(`${lines.join('\n')}\n`));
    await writer.bytes(new Uint8Array([0x22, 0xff, 0xfe, 0x22, 0x0a]));
    await writer.say(patch({ b: 2 }));
    const { err, code } = await writer.end();
    expect(err.split('\n')).toEqual([
      'warning: a line is no JSON object; it is ignored',
      'warning: a line is neither a state.snapshot with a state nor a state.patch with a patch; it is ignored',
      'warning: a line has objects within objects at more than 100 depths; it is ignored',
      'warning: a line is not UTF-8; it is ignored',
      '',
    ]);
    expect(code).toBe(0);
    expect(writer.file().state).toEqual({ a: 1, b: 2 });
  });

  it('can be read at any moment while ten thousand patches come, and the last one stands there at the end [C2C-58]', async () => {
    const writer = new Writer();
    await writer.say(snapshot({ n: 0, filling: 'x'.repeat(20_000) }));
    await writer.until(({ n }) => n === 0);
    const reader = Bun.spawn([process.execPath, '-e', READER, writer.path], {
      stdout: 'pipe',
      env: writer.program.env,
    });
    readers.push(reader);
    let told = '\n';
    const reading = (async () => {
      for await (const bytes of reader.stdout) told += new TextDecoder().decode(bytes);
    })();
    for (let n = 1; n <= 10_000; n += 1) {
      void writer.child.stdin.write(`${JSON.stringify(patch({ n }))}\n`);
      // Small pieces, as a plugin sends them.
      if (n % 20 === 0) await writer.child.stdin.flush();
      // Now and then until the reader has it. The stream is still open: nobody has to end it for its last word to be written.
      if (n % 500 === 0) await within(20_000, async () => told.includes(`\n${n}\n`));
    }
    await writer.say(patch({ done: true }));
    await reading;
    expect(told).toEndWith('\nbroken: 0\n');
    expect(readdirSync(writer.path.replace(/\/[^/]+$/, ''))).toEqual(['oc-plugin-state.json']);
  });

  it('puts each state in the place of the one before: who reads that goes on in it to its end [C2C-58]', async () => {
    const writer = new Writer();
    await writer.say(snapshot({ n: 0 }));
    await writer.until(({ n }) => n === 0);
    const before = readFileSync(writer.path, 'utf8');
    const reader = openSync(writer.path, 'r');
    await writer.say(patch({ n: 1 }));
    await writer.until(({ n }) => n === 1);
    expect(readFileSync(reader, 'utf8')).toBe(before);
    closeSync(reader);
  });

  it('writes what it has when it is told to end', async () => {
    const writer = new Writer();
    await writer.say(snapshot({ n: 0 }), ...Array.from({ length: 50 }, (_, n) => patch({ n })));
    await writer.until(() => true);
    writer.child.kill('SIGTERM');
    expect(await writer.child.exited).toBe(0);
    expect(writer.file().state['n']).toBe(49);
  });

  it('writes beside the instance that it is named for, for its owner only', async () => {
    const writer = new Writer({ C2C_INSTANCE_NAME: 'my-oc.1' });
    await writer.say(snapshot({ a: 1 }));
    await writer.end();
    const path = `${writer.program.home}/.local/share/c2c/instances/my-oc.1/oc-plugin-state.json`;
    expect(JSON.parse(readFileSync(path, 'utf8'))).toMatchObject({ state: { a: 1 } });
    expect(statSync(path).mode & 0o777).toBe(0o600);
  });

  it.each(['..', '../x', 'a/b', '.hidden', 'a\nb', 'x'.repeat(65)])('refuses the instance name %j', async (name) => {
    const writer = new Writer({ C2C_INSTANCE_NAME: name });
    const { err, code } = await writer.end();
    expect(code).toBe(1);
    expect(err).toMatch(/^error: ".*" is no name of an instance; /);
    expect(existsSync(`${writer.program.home}/.local`)).toBe(false);
  });

  it('says so once if the place cannot be written, and ends with 1', async () => {
    const writer = new Writer();
    mkdirSync(`${writer.program.home}/.local/share`, { recursive: true });
    writeFileSync(`${writer.program.home}/.local/share/c2c`, 'a file where a folder should be');
    await writer.say(snapshot({ a: 1 }), patch({ a: 2 }));
    const { err, code } = await writer.end();
    expect(err).toBe('warning: the statefile cannot be written; it is tried again with the next state\n');
    expect(code).toBe(1);
  });
});

describe('c2c statefile', () => {
  it('prints the state in words, and as it stands with --json [C2C-58]', async () => {
    const writer = new Writer();
    await writer.say(snapshot(aState(process.pid)));
    await writer.end();
    const words = await writer.program.run(['statefile'], { name: 'c2c' });
    expect(words.out).toContain('session opencode-c2c (opencode-mire-kiva), OpenCode process');
    expect(words.out).not.toContain('does not run');
    expect(words.out).toContain('root session ses_1, idle, in front: prompt');
    const raw = await writer.program.run(['statefile', '--json'], { name: 'c2c' });
    expect(raw.out).toBe(readFileSync(writer.path, 'utf8'));
    expect(StateFile.safeParse(JSON.parse(raw.out)).success).toBe(true);
  });

  it('says that its OpenCode is gone', async () => {
    const gone = Bun.spawn(['true']);
    await gone.exited;
    const writer = new Writer();
    await writer.say(snapshot(aState(gone.pid)));
    await writer.end();
    const { out } = await writer.program.run(['statefile'], { name: 'c2c' });
    expect(out).toContain('it does not run any more, and this is its last state');
  });

  it('says what to do if there is none', async () => {
    const program = new Program();
    const { err, code } = await program.run(['statefile', '--instance', 'nobody'], { name: 'c2c' });
    expect(code).toBe(1);
    expect(err).toMatch(
      /^error: no OpenCode has left a state in .*\/instances\/nobody\/oc-plugin-state\.json; start OpenCode/,
    );
  });

  it('refuses a name that would leave its place', async () => {
    const { err, code } = await new Program().run(['statefile', '--instance', '../../etc'], { name: 'c2c' });
    expect([err.slice(0, 18), code]).toEqual(['error: "../../etc"', 1]);
  });
});

/** Reads as fast as it can until the state says that it is done; tells each state that it sees, and how often reading failed. */
const READER = `
const path = process.argv.at(-1);
let [last, broken] = [-1, 0];
for (let done = false; !done; ) {
  try {
    const { state } = JSON.parse(require('node:fs').readFileSync(path, 'utf8'));
    if (state.n !== last) console.log((last = state.n));
    done = state.done === true;
  } catch { broken += 1; }
}
console.log('broken: ' + broken);
`;

function lastOf(n: number, word: string): [string, string] {
  const last = Math.floor((1099 - n) / 7) * 7 + n;
  return [`k${n}`, `${word}${last}`];
}

function aState(pid: number) {
  return {
    c2c_session_id: 'opencode-c2c',
    c2c_alias: 'opencode-mire-kiva',
    root_opencode_session_id: 'ses_1',
    opencode_pid: pid,
    plugin_started_at: TS,
    state_last_updated_at: TS,
    agent: { is_idle: true, turn_count: 3, step_count: 5, last_step: null, provider_id: null, model_id: null },
    tui_focus: { ty: 'prompt', details: null },
    prompt: { has_text: null },
    pendingQuestion: null,
  };
}
