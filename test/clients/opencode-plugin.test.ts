// Our plugin in the real OpenCode, with the real `c2c`. What counts is what OpenCode sends to its model.
import { OpenCodeState, patched, StateFile } from '../../src/clients/opencode/statefile.ts';
import type { JsonObject } from '../../src/clients/opencode/statefile.ts';
import { afterEach, describe, expect } from 'bun:test';
import { chmodSync, copyFileSync, existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { PARLEY, personAt } from '../support/program.ts';
import type { Run } from '../support/program.ts';
import { within } from '../support/within.ts';
import { aModel } from './model/model.ts';
import type { Model } from './model/model.ts';
import { call, gate, say } from './model/steps.ts';
import type { Step } from './model/steps.ts';
import { anOpenCode, seedPluginFolder } from './support/opencode.ts';
import type { OpenCode } from './support/opencode.ts';
import { closeAll, opens } from './support/opened.ts';
import { aPlace } from './support/place.ts';
import type { Place } from './support/place.ts';
import { processesOf } from './support/processes.ts';
import { runs } from './support/runs.ts';
import { client } from './support/where.ts';

const PLUGIN = new URL('../../plugins/opencode/c2c.ts', import.meta.url).pathname;
const opencode = client('opencode');
afterEach(closeAll);

/** A project whose OpenCode has the plugin, and somebody who writes to it. */
class Office {
  readonly openCode: OpenCode;
  readonly env: Record<string, string>;

  constructor(
    readonly place: Place,
    readonly model: Model,
  ) {
    const bin = `${this.place.home}/bin`;
    mkdirSync(bin);
    // What is streamed is also kept, so that every state of the run can be looked at.
    writeFileSync(
      `${bin}/c2c`,
      `#!/bin/sh
case "$2" in stream-write-statefile) tee -a "$HOME/stream.jsonl" | '${PARLEY}' c2c "$@"; exit ;; esac
exec '${PARLEY}' c2c "$@"
`,
    );
    chmodSync(`${bin}/c2c`, 0o755);
    this.env = {
      ...this.place.env,
      PATH: `${bin}:${this.place.env['PATH']}`,
      C2C_MCP_BROKER_ROOT: `${this.place.home}/broker`,
    };
    const { PATH = '' } = this.env;
    this.openCode = anOpenCode({ place: this.place, model, env: { PATH } });
    const folder = `${this.place.project}/.opencode`;
    seedPluginFolder(folder);
    const sidecar = { session_id: 'opencode-project', alias: 'ocean', broker_root: `${this.place.home}/broker` };
    writeFileSync(`${folder}/c2c-plugin.json`, JSON.stringify(sidecar));
  }

  install(folder: string): this {
    mkdirSync(`${folder}/plugins`, { recursive: true });
    copyFileSync(PLUGIN, `${folder}/plugins/c2c.ts`);
    return this;
  }

  installForUser(): this {
    return this.install(this.openCode.config);
  }

  installInProject(): this {
    return this.install(`${this.place.project}/.opencode`);
  }

  /** `c2c …` as the user types it at a terminal. */
  async userRuns(...args: string[]): Promise<Run> {
    const command = [PARLEY, 'c2c', ...args];
    const order = { command, cwd: this.place.project, env: this.env, typed: '', files: `${this.place.home}/user` };
    const run = await personAt(order);
    if (run.code !== 0) throw new Error(`c2c ${args.join(' ')}: ${run.err}${run.out}`);
    return run;
  }

  /** `c2c …` of another session, river’s. */
  async c2c(...args: string[]): Promise<Run> {
    const env = { ...this.env, C2C_MCP_SESSION_ID: 'river-session' };
    const run = await runs(['c2c', ...args], { cwd: this.place.project, env, ms: 60_000 });
    if (run.code !== 0) throw new Error(`c2c ${args.join(' ')}: ${run.err}${run.out}`);
    return run;
  }

  /** Mail from river, when ocean can be written to. */
  async write(text: string): Promise<void> {
    await this.c2c('register', 'river');
    await within(60_000, async () => (await this.c2c('list', '--json')).out.includes('ocean'));
    await this.c2c('send', 'ocean', text);
  }

  processes(word: string): number[] {
    return processesOf(this.place.home).filter(
      (pid) => commandOf(pid).includes(word) && commandOf(pid).includes(PARLEY),
    );
  }

  /** The spool files that still hold something. */
  spools(): string[] {
    const folder = `${this.place.home}/.local/share/c2c/opencode`;
    return readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => /spool\..*\.json$/.test(name));
  }

  log(): string {
    const path = `${this.place.home}/.local/share/c2c/opencode/plugin.log`;
    return existsSync(path) ? readFileSync(path, 'utf8') : '';
  }
}

async function anOffice(steps: Step[]): Promise<Office> {
  return new Office(await aPlace(), opens(aModel(steps)));
}

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
  } catch {
    return '';
  }
}

describe(`the plugin in OpenCode${opencode.why}`, () => {
  opencode.it('puts a message before the model as a user turn, exactly once, and proves it [C2C-37]', async () => {
    const office = (await anOffice([say('hello'), say('I read it')])).installForUser();
    const server = await office.openCode.serve();
    const session = await server.session();
    await session.prompt('begin');
    await session.idle();
    await office.write('the river is rising');
    const asked = await office.model.saw('the river is rising');
    expect(asked.where('the river is rising')).toMatchObject([{ role: 'user', kind: 'text' }]);
    await session.idle(2);
    await within(20_000, async () => office.spools().length === 0);
    expect(office.model.last.count('the river is rising')).toBe(1);
    expect(office.model.main).toHaveLength(2);
  });

  opencode.it('joins a turn that is running, and is answered in it [C2C-37]', async () => {
    const door = gate();
    const step = call('bash', { command: 'true', description: 'wait' });
    const office = (await anOffice([{ ...step, after: door.opened }, say('done')])).installForUser();
    const server = await office.openCode.serve();
    const session = await server.session();
    await session.prompt('begin');
    await office.model.request(1);
    await office.write('while you work');
    await server.event(({ properties }) => JSON.stringify(properties).includes('while you work'));
    door.open();
    const asked = await office.model.saw('while you work');
    expect(asked.count('while you work')).toBe(1);
    await session.idle();
    expect(office.model.main).toHaveLength(2);
  });

  opencode.it('brings the next message in after its monitor was killed [C2C-37]', async () => {
    const office = (await anOffice([say('one'), say('two'), say('three')])).installForUser();
    const server = await office.openCode.serve();
    const session = await server.session();
    await office.write('before the kill');
    await office.model.saw('before the kill');
    await session.idle();
    const killed = office.processes('c2c monitor');
    expect(killed).toHaveLength(1);
    for (const pid of killed) process.kill(pid, 'SIGKILL');
    await office.c2c('send', 'ocean', 'after the kill');
    const asked = await office.model.saw('after the kill');
    expect(asked.count('after the kill')).toBe(1);
    await within(
      20_000,
      async () =>
        office.processes('c2c monitor').length === 1 && !killed.includes(office.processes('c2c monitor')[0] ?? 0),
    );
    await session.idle(2);
    expect(office.model.last.count('before the kill')).toBe(1);
  });

  opencode.it('brings a message in once when it is installed for the user and in the project [C2C-37b]', async () => {
    const office = (await anOffice([say('one'), say('two')])).installForUser().installInProject();
    const server = await office.openCode.serve();
    const session = await server.session();
    await office.write('only once');
    await office.model.saw('only once');
    await session.idle();
    await within(20_000, async () => office.spools().length === 0);
    expect(office.processes('c2c monitor')).toHaveLength(1);
    // A second message comes after everything that the first could have caused.
    await office.c2c('send', 'ocean', 'and another');
    await office.model.saw('and another');
    await session.idle(2);
    expect(office.model.last.count('only once')).toBe(1);
    expect(office.model.last.count('and another')).toBe(1);
  });

  opencode.it(
    'publishes states that follow their schema, in a run with a tool, a permission and a question [C2C-53]',
    async () => {
      const steps = [
        call('bash', { command: 'echo canary-command', description: 'try' }),
        call('question', {
          questions: [
            {
              question: 'Which?',
              header: 'W',
              options: [
                { label: 'Red', description: 'r' },
                { label: 'Blue', description: 'b' },
              ],
            },
          ],
        }),
        say('canary-answer'),
      ];
      const office = (await anOffice(steps)).installForUser();
      writeFileSync(`${office.place.project}/opencode.json`, JSON.stringify({ permission: { bash: 'ask' } }));
      const server = await office.openCode.serve();
      const session = await server.session();
      await session.prompt('canary-prompt');
      const permission = await server.event(({ type }) => type === 'permission.asked');
      await server.call('POST', `/permission/${String(permission.properties['id'])}/reply`, { reply: 'once' });
      const question = await server.event(({ type }) => type === 'question.asked');
      await server.call('POST', `/question/${String(question.properties['id'])}/reply`, { answers: [['Blue']] });
      await session.idle();
      const path = `${office.place.home}/.local/share/c2c/oc-plugin-state.json`;
      const file = (): string => (existsSync(path) ? readFileSync(path, 'utf8') : '');
      await within(20_000, async () => file().includes('"turn_count":1'));

      const states = statesIn(`${office.place.home}/stream.jsonl`);
      for (const state of states) {
        const parsed = OpenCodeState.safeParse(state);
        expect(parsed.success ? '' : `${parsed.path}: ${parsed.why}`).toBe('');
        expect(Object.keys(state).sort()).toEqual(KEYS);
      }
      expect(states[0]).toMatchObject({
        root_opencode_session_id: null,
        agent: { is_idle: null },
        pendingQuestion: null,
      });
      const seen = states.map((state) => (state as { tui_focus: { ty: string } }).tui_focus.ty);
      expect(seen.filter((ty, at) => ty !== seen[at - 1])).toEqual([
        'unknown',
        'prompt',
        'permission',
        'prompt',
        'question',
        'prompt',
      ]);
      const last = StateFile.parse(JSON.parse(file()));
      expect(last.state).toMatchObject({
        root_opencode_session_id: session.id,
        opencode_pid: server.child.pid,
        agent: { is_idle: true, turn_count: 1, step_count: 3, provider_id: 'scripted', model_id: 'one' },
      });
      expect(readFileSync(`${office.place.home}/stream.jsonl`, 'utf8')).not.toContain('canary');
      expect(office.log()).toBe('');
    },
  );

  opencode.it('makes OpenCode answer what came in while a turn was aborted', async () => {
    const door = gate();
    const office = (await anOffice([say('never heard', door.opened), say('here I am')])).installForUser();
    const server = await office.openCode.serve();
    const session = await server.session();
    await session.prompt('begin');
    await office.model.request(1);
    await office.write('came too late');
    await within(60_000, async () => office.spools().length === 0);
    await server.call('POST', `/session/${session.id}/abort`);
    const asked = await office.model.saw('came too late');
    door.open();
    expect(asked.count('came too late')).toBe(1);
    await server.event(
      ({ type, properties }) => type === 'message.part.updated' && JSON.stringify(properties).includes('here I am'),
    );
    expect(office.model.main).toHaveLength(2);
  });

  opencode.it('gives a permission on the word of a supervisor whom the user named, and of nobody else', async () => {
    const steps = [
      call('bash', { command: 'echo allowed > allowed.txt', description: 'try' }),
      say('done'),
      say('read'),
    ];
    const office = (await anOffice(steps)).installForUser();
    writeFileSync(`${office.place.project}/opencode.json`, JSON.stringify({ permission: { bash: 'ask' } }));
    const atRiver = ['--session-id', 'river-session'];
    await office.userRuns('repo', 'set', 'supervisors', 'river');
    await office.userRuns('register', 'river', ...atRiver);
    const server = await office.openCode.serve();
    const session = await server.session();
    await within(60_000, async () => (await office.c2c('list', '--json')).out.includes('ocean'));
    await session.prompt('begin');
    const { properties } = await server.event(({ type }) => type === 'permission.asked');
    const answer = `permission:${String(properties['id'])}:approve-once`;
    await within(60_000, async () => (await office.userRuns('peek-inbox', '--json', ...atRiver)).out.includes(answer));
    const stranger = { ...office.env, C2C_MCP_SESSION_ID: 'stranger-session' };
    await runs(['c2c', 'register', 'stranger'], { cwd: office.place.project, env: stranger, ms: 60_000 });
    await runs(['c2c', 'send', 'ocean', answer], { cwd: office.place.project, env: stranger, ms: 60_000 });
    await within(60_000, async () => office.spools().length === 1);
    expect(server.events.filter(({ type }) => type === 'permission.replied')).toEqual([]);
    await expect(office.c2c('send', 'ocean', answer, '--from', 'river')).rejects.toThrow('answers for the user');
    await office.userRuns('send', 'ocean', answer, '--from', 'river');
    await server.event(({ type }) => type === 'permission.replied');
    await session.idle();
    expect(readFileSync(`${office.place.project}/allowed.txt`, 'utf8')).toBe('allowed\n');
    // The stranger's words were mail; the supervisor's never reach the model.
    const asked = await office.model.saw('from="stranger"');
    expect(asked.count(answer)).toBe(1);
  });

  opencode.it('hands out after a restart what OpenCode had not taken when it was killed, once', async () => {
    const office = (await anOffice([say('one'), say('two'), say('three')])).installForUser();
    const first = await office.openCode.serve();
    const session = await first.session();
    await office.write('an early letter');
    await office.model.saw('an early letter');
    await session.idle();
    first.child.kill('SIGKILL');
    await first.child.exited;
    await office.c2c('send', 'ocean', 'while nobody was here');
    const second = await office.openCode.serve();
    const next = await second.session();
    const asked = await office.model.saw('while nobody was here');
    expect(asked.count('while nobody was here')).toBe(1);
    expect(asked.count('an early letter')).toBe(0);
    await next.idle();
  });

  opencode.it('brings mail into the terminal, where a person sees it', async () => {
    const office = (await anOffice([say('hello you'), say('I read it')])).installForUser();
    const terminal = await office.openCode.terminal();
    await terminal.submit('begin');
    await terminal.shows(/hello you/);
    await office.write('the tide is out');
    const asked = await office.model.saw('the tide is out');
    expect(asked.count('the tide is out')).toBe(1);
    await terminal.shows(/the tide is out/);
  });

  opencode.it('begins a session in a window that had no prompt yet, and shows it there [C2C-37]', async () => {
    const office = (await anOffice([say('I read it')])).installForUser();
    const terminal = await office.openCode.terminal();
    await office.write('the tide is out');
    expect((await office.model.saw('the tide is out')).count('the tide is out')).toBe(1);
    await terminal.shows(/I read it/);
    expect(office.model.main).toHaveLength(1);
  });

  opencode.it('goes on after the session was shortened, and repeats nothing', async () => {
    const office = (await anOffice([say('one'), say('two')])).installForUser();
    const server = await office.openCode.serve();
    const session = await server.session();
    await office.write('an early letter');
    await office.model.saw('an early letter');
    await session.idle();
    const model = { providerID: 'scripted', modelID: 'one' };
    await server.call('POST', `/session/${session.id}/summarize`, model);
    await server.event(({ type }) => type === 'session.compacted');
    await office.c2c('send', 'ocean', 'a later letter');
    const asked = await office.model.saw('a later letter');
    expect(asked.count('a later letter')).toBe(1);
    await within(20_000, async () => office.spools().length === 0);
    expect(office.model.main).toHaveLength(2);
  });

  opencode.it('begins no session on a server, where nobody would see it', async () => {
    const office = (await anOffice([say('never')])).installForUser();
    const server = await office.openCode.serve([], ['--print-logs']);
    const before = await server.call('GET', '/session');
    await office.write('It is red.');
    await Bun.sleep(5000);
    expect(await server.call('GET', '/session')).toEqual(before);
    expect(office.model.main).toHaveLength(0);
  });

  opencode.it('begins again when OpenCode loads the project again, and its former life is over', async () => {
    const office = (await anOffice([say('one'), say('two')])).installForUser();
    const server = await office.openCode.serve();
    const session = await server.session();
    await office.write('an early letter');
    await office.model.saw('an early letter');
    await session.idle();
    const former = office.processes(' c2c ');
    await server.call('POST', '/instance/dispose');
    await within(20_000, async () => !office.processes(' c2c ').some((pid) => former.includes(pid)));
    await office.c2c('send', 'ocean', 'between two lives');
    await server.session();
    const asked = await office.model.saw('between two lives');
    expect(asked.count('between two lives')).toBe(1);
    expect(asked.count('an early letter')).toBe(0);
    await within(20_000, async () => office.processes('c2c monitor').length === 1 && office.spools().length === 0);
  });

  opencode.it('brings each message into one of two OpenCodes in one folder, and into that once', async () => {
    const office = (await anOffice(Array.from({ length: 8 }, () => say('read')))).installForUser();
    const servers = [await office.openCode.serve(), await office.openCode.serve()];
    const sessions = await Promise.all(servers.map((server) => server.session()));
    await within(60_000, async () => office.processes('c2c monitor').length === 2);
    const letters = ['letter-one', 'letter-two', 'letter-three'];
    for (const letter of letters) await office.write(letter);
    const record = async (): Promise<string> => {
      const all = sessions.map(({ server, id }) => server.call('GET', `/session/${id}/message`));
      return JSON.stringify(await Promise.all(all));
    };
    await within(60_000, async () => {
      const text = await record();
      return letters.every((letter) => text.includes(letter)) && office.spools().length === 0;
    });
    for (const letter of letters) expect((await record()).split(letter)).toHaveLength(2);
  });

  opencode.it('does not keep OpenCode from ending, and ends with it', async () => {
    const office = (await anOffice([say('all done')])).installForUser();
    const run = await office.openCode.run('begin');
    expect(run).toMatchObject({ code: 0, out: expect.stringContaining('all done') });
    await within(20_000, async () => office.processes(' c2c ').length === 0);
  });

  opencode.it('leaves no process behind when OpenCode is killed', async () => {
    const office = (await anOffice([say('one')])).installForUser();
    const server = await office.openCode.serve();
    await within(20_000, async () => office.processes(' c2c ').length >= 2);
    server.child.kill('SIGKILL');
    await within(20_000, async () => office.processes(' c2c ').length === 0);
  });
});

const KEYS = [
  'agent',
  'c2c_alias',
  'c2c_session_id',
  'opencode_pid',
  'pendingQuestion',
  'plugin_started_at',
  'prompt',
  'root_opencode_session_id',
  'state_last_updated_at',
  'tui_focus',
];

/** Every state of a stream, one after the other. */
function statesIn(path: string): object[] {
  const states: JsonObject[] = [];
  for (const line of readFileSync(path, 'utf8').split('\n').filter(Boolean)) {
    const { state, patch = {} } = JSON.parse(line) as { state?: JsonObject; patch?: JsonObject };
    states.push(state ?? patched(states.at(-1) ?? {}, patch));
  }
  expect(states.length).toBeGreaterThan(5);
  return states;
}
