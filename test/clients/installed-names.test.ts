// Sessions of real clients that their user started after `parley install`: each has its own name, and they share the client's mailbox.
import { afterEach, describe, expect } from 'bun:test';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { OpenCodeLive } from '../../src/clients/opencode/live.ts';
import { AgentName } from '../../src/core/names.ts';
import { SessionNames } from '../../src/delivery/session-names.ts';
import { PARLEY, Program } from '../support/program.ts';
import { within } from '../support/within.ts';
import { aModel } from './model/model.ts';
import { bash, call, say } from './model/steps.ts';
import { aClaude, ClaudeSession } from './support/claude.ts';
import { aCodex } from './support/codex.ts';
import { anOpenCode } from './support/opencode.ts';
import { closeAll, opens } from './support/opened.ts';
import { aPlace } from './support/place.ts';
import { aTerminal, type Terminal } from './support/terminal.ts';
import { client } from './support/where.ts';

const [claude, codex, opencode] = [client('claude'), client('codex'), client('opencode')];
const DEADLINE = 200_000;
afterEach(closeAll);

describe(`two sessions of Claude Code after \`parley install\`${claude.why}`, () => {
  claude.it(
    'have a name each; mail for one reaches that one, mail for @claude exactly one, and answers come back',
    async () => {
      const { model, inbox, does, opened, names } = await aMachine('');
      const [a, b] = [await opened('a'), await opened('b')];
      model.script(say('done'));
      const only = await does('send', '@claude.b', 'CANARY only for b', '--fyi', '--as', 'me');
      await a.terminal.submit('go a');
      expect((await model.request(1)).has('CANARY only for b')).toBe(false);
      await a.until('idle');
      model.script(bash('parley send @me "from the shell of b" --fyi'), say('done'));
      await b.terminal.submit('go b');
      expect((await model.request(2)).count('CANARY only for b'), only).toBe(1);
      await within(DEADLINE, async () => (await inbox()).some(({ body }) => body === 'from the shell of b'));
      await b.until('idle');
      const { id } = JSON.parse(await does('send', '@claude', 'CANARY for one', '--as', 'me', '--json')) as {
        id: string;
      };
      model.script(call('mcp__parley__reply', { id, text: 'I have it' }), say('done'));
      await a.terminal.submit('go on a');
      expect((await model.saw('CANARY for one')).count('CANARY for one')).toBe(1);
      await within(DEADLINE, async () => (await inbox()).some(({ body }) => body === 'I have it'));
      await a.until('idle');
      model.script(say('done'));
      await b.terminal.submit('go on b');
      await model.saw('go on b');
      expect(model.last.has('CANARY for one')).toBe(false);
      expect((await inbox()).map(({ from, body }) => [from, body])).toEqual([
        ['claude.b', 'from the shell of b'],
        ['claude.a', 'I have it'],
      ]);
      expect(
        names
          .all()
          .map(({ name, pid }) => `${name} ${pid}`)
          .toSorted(),
      ).toEqual([`claude.a ${a.terminal.pid}`, `claude.b ${b.terminal.pid}`]);
      expect(await does('owe', '--blocking', '--as', 'me')).toBe('nobody owes you anything\n');
    },
  );

  claude.it('are woken by name and as a group when they are idle, and one answers for the group', async () => {
    const { model, inbox, does, opened } = await aMachine('daemon');
    const [a, b] = [await opened('a'), await opened('b')];
    model.script(say('This is b.'));
    // Its first line comes twice: once for the window.
    await does('send', '@claude.b', 'Who is there?\nCANARY b', '--as', 'me');
    expect((await model.saw('CANARY b')).count('CANARY b')).toBe(1);
    await within(DEADLINE, async () => (await inbox()).some(({ body }) => body === 'This is b.'));
    for (const one of [a, b]) await one.until('idle');
    model.script(say('One of us.'));
    await does('send', '@claude', 'Anybody?', '--as', 'me');
    await model.saw('Anybody?');
    await within(DEADLINE, async () => (await inbox()).some(({ body }) => body === 'One of us.'));
    const answers = await inbox();
    expect(answers.map(({ body }) => body)).toEqual(['This is b.', 'One of us.']);
    expect(answers[0]?.from).toBe('claude.b');
    expect(answers[1]?.from).toMatch(/^claude\.[ab]$/);
    expect(await does('owe', '--blocking', '--as', 'me')).toBe('nobody owes you anything\n');
    await does('down');
  });
});

describe(`a session of OpenCode after \`parley install\`${opencode.why}`, () => {
  opencode.it('has a name before it was asked anything, and is woken for its client', async () => {
    const model = opens(aModel([say('hello back')]));
    const place = await aPlace();
    const program = new Program(place.home, { PARLEY_NO_DAEMON: '' });
    const does = async (...args: string[]): Promise<string> => {
      const { out, err, code } = await program.withoutTerminal(args, { cwd: place.project });
      if (code !== 0) throw new Error(`parley ${args.join(' ')} ended with ${code}: ${err}`);
      return out;
    };
    const code = anOpenCode({ place, model });
    await does('install', 'opencode');
    await does('init', 'me');
    const live = opens(new OpenCodeLive(code.env));
    await code.terminal();
    await within(DEADLINE, async () => (await live.list()).length === 1);
    await does('send', '@opencode', 'Anybody?', '--as', 'me');
    expect((await model.saw('Anybody?')).count('Anybody?')).toBe(1);
    await within(DEADLINE, async () => (await does('inbox', '--as', 'me')).includes('opencode.project → @me'));
    expect(await does('agents')).toContain('@opencode  mail for any session of opencode: @opencode.project');
    await does('down');
  });
});

describe(`windows of Codex after \`parley install\`${codex.why}`, () => {
  codex.it('have a name each before their first prompt, and are woken by it, also two in one folder', async () => {
    const { model, code, does, inbox, opened, names } = await aCodexMachine();
    const windows = [await opened(), await opened()];
    model.script(say('This is two.'));
    await within(DEADLINE, async () => (await does('agents')).includes('@codex.project.2'));
    const placed = names.all().map(({ name, pid }) => `${name} ${windows.findIndex((one) => one.pid === pid)}`);
    expect(placed.toSorted()).toEqual(['codex.project 0', 'codex.project.2 1']);
    await does('send', '@codex.project.2', 'Who is there?', '--as', 'me');
    expect((await model.saw('Who is there?')).count('Who is there?')).toBe(1);
    await windows[1]?.shows('This is two.');
    await within(DEADLINE, async () => (await inbox()).some(({ body }) => body === 'This is two.'));
    // Its hook runs with the first prompt, and finds the same name.
    model.script(call('exec_command', { cmd: `${PARLEY} send @me "by shell"` }), say('done'));
    if (windows[1]) await code.turn(windows[1], 'go');
    await within(DEADLINE, async () => (await inbox()).some(({ body }) => body === 'by shell'));
    expect((await inbox()).map(({ from }) => from)).toEqual(['codex.project.2', 'codex.project.2']);
    expect(names.all()).toHaveLength(2);
    await does('down');
  });

  codex.it('keep their name over /new and /resume, and mail goes to what the window shows', async () => {
    const { model, code, does, opened, names } = await aCodexMachine();
    const window = await opened();
    model.script(say('one'), say('two'), say('three'), say('four'));
    await code.turn(window, 'the first conversation');
    const first = names.all()[0]?.session;
    await window.type('/new');
    await window.shows(/\/new +start/);
    await window.keys('Enter');
    await within(DEADLINE, async () => names.all()[0]?.session !== first);
    await does('send', '@codex.project', 'CANARY new', '--as', 'me');
    expect((await model.saw('CANARY new')).has('the first conversation')).toBe(false);
    await window.shows('two');
    const second = names.all()[0]?.session;
    await code.ready(window);
    await window.type('/resume');
    await window.shows(/\/resume +/);
    await window.keys('Enter');
    await window.drawn('Resume a previous session');
    await window.type('first');
    await window.shows(/› .*the first conversation/);
    await window.keys('Enter');
    await within(DEADLINE, async () => names.all()[0]?.session === first);
    await does('send', '@codex.project', 'CANARY back', '--as', 'me');
    expect((await model.saw('CANARY back')).has('the first conversation')).toBe(true);
    await window.shows('three');
    expect(names.all()).toMatchObject([{ name: 'codex.project', session: first, earlier: [second] }]);
    await does('down');
  });

  codex.it('have the name of the one before at once, if that was ended', async () => {
    const { model, code, does, opened, names } = await aCodexMachine();
    model.script(say('one'), say('two'));
    const first = await opened();
    await code.turn(first, 'hello');
    await first.leave('C-c');
    const second = await opened();
    await within(DEADLINE, async () => names.all()[0]?.pid === second.pid);
    await does('send', '@codex.project', 'CANARY again', '--as', 'me');
    expect((await model.saw('CANARY again')).has('hello')).toBe(false);
    await second.shows('two');
    expect(names.all().map(({ name }) => name)).toEqual([AgentName.parse('codex.project')]);
    await does('down');
  });
});

describe(`a window of Codex without its daemon, after \`parley install\`${codex.why}`, () => {
  codex.it('has a name at once, and after its first prompt mail comes by its queue, with proof', async () => {
    const { model, code, does, inbox, opened, names } = await aCodexMachine();
    const window = await opened(['--no-daemon']);
    await within(DEADLINE, async () => names.all()[0]?.pid === window.pid);
    await within(DEADLINE, async () => (await does('agents')).includes('idle; mail comes with its first prompt'));
    model.script(say('one'), say('This is the window.'));
    await does('send', '@codex', 'CANARY early', '--fyi', '--as', 'me');
    await code.turn(window, 'hello');
    // Its hook brought that.
    expect((await model.request(1)).count('CANARY early')).toBe(1);
    expect(await does('agents')).toContain(
      'idle; mail wakes it (queue, because its window runs without the daemon of Codex)',
    );
    const { id } = JSON.parse(await does('send', '@codex.project', 'Who is there?', '--as', 'me', '--json')) as {
      id: string;
    };
    expect((await model.saw('Who is there?')).count('Who is there?')).toBe(1);
    await window.shows('This is the window.');
    await within(DEADLINE, async () => (await inbox()).some(({ body }) => body === 'This is the window.'));
    const trace = await does('trace', id);
    expect(trace).toContain('shown');
    expect(trace).toContain('queue');
    expect(names.all().map(({ name }) => name)).toEqual([AgentName.parse('codex.project')]);
    await does('down');
  });
});

async function aCodexMachine() {
  const model = opens(aModel([]));
  const place = await aPlace();
  const program = new Program(place.home, { PARLEY_NO_DAEMON: '' });
  const does = async (...args: string[]): Promise<string> => {
    const { out, err, code } = await program.withoutTerminal(args, { cwd: place.project });
    if (code !== 0) throw new Error(`parley ${args.join(' ')} ended with ${code}: ${err}`);
    return out;
  };
  const code = aCodex({ place, model });
  await does('install', 'codex');
  await does('init', 'me');
  await does('up', '--ends-when-idle', '--detach');
  let isTrusted = false;
  return {
    model,
    code,
    does,
    names: new SessionNames(`${place.home}/.parley`),
    inbox: async () => JSON.parse(await does('inbox', '--as', 'me', '--json')) as { from: string; body: string }[],
    /** A window that its user opened, at its prompt. */
    opened: async (args: string[] = []): Promise<Terminal> => {
      const terminal = await code.terminal(args);
      if (!isTrusted) await code.trustHooks(terminal);
      isTrusted = true;
      await code.ready(terminal);
      return terminal;
    },
  };
}

async function aMachine(daemon: string) {
  const model = opens(aModel([]));
  const place = await aPlace();
  const program = new Program(place.home);
  const does = async (...args: string[]): Promise<string> => {
    const { out, err, code } = await program.withoutTerminal(args, { cwd: place.project });
    if (code !== 0) throw new Error(`parley ${args.join(' ')} ended with ${code}: ${err}`);
    return out;
  };
  const code = aClaude({ place, model });
  const folders = ['a', 'b'].map((name) => `${place.project}/${name}`);
  for (const folder of folders) mkdirSync(folder);
  const state = JSON.parse(readFileSync(`${place.home}/.claude.json`, 'utf8')) as object;
  const projects = Object.fromEntries(folders.map((folder) => [folder, { hasTrustDialogAccepted: true }]));
  writeFileSync(`${place.home}/.claude.json`, JSON.stringify({ ...state, projects }));
  await does('install', 'claude');
  await does('init', 'me');
  const path = [PARLEY, claude.program].map((one) => one.slice(0, one.lastIndexOf('/')));
  const env = { ...code.env, PATH: `${code.env['PATH']}:${path.join(':')}`, PARLEY_NO_DAEMON: daemon ? '' : '1' };
  // In bypass mode Claude Code asks its user about each message that another program brings.
  const words = [code.program, ...(daemon ? ['--permission-mode', 'default'] : ['--dangerously-skip-permissions'])];
  return {
    model,
    does,
    names: new SessionNames(`${place.home}/.parley`),
    inbox: async () => JSON.parse(await does('inbox', '--as', 'me', '--json')) as { from: string; body: string }[],
    opened: async (name: string): Promise<ClaudeSession> => {
      const cwd = `${place.project}/${name}`;
      const session = new ClaudeSession(code, await aTerminal(place, words, { env, cwd }));
      await session.until('idle');
      return session;
    },
  };
}
