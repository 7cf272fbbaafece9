// `parley run` with the real clients: they have Parley's tools and a name, and their settings files are as they were.
import { afterEach, describe, expect } from 'bun:test';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { CodexLive } from '../../src/clients/codex/live.ts';
import { CodexDaemon } from '../../src/clients/codex/rpc.ts';
import { SessionNames } from '../../src/delivery/session-names.ts';
import { PARLEY, Program } from '../support/program.ts';
import { within } from '../support/within.ts';
import { aModel } from './model/model.ts';
import type { Model } from './model/model.ts';
import { bash, call, say } from './model/steps.ts';
import { aClaude, ClaudeSession } from './support/claude.ts';
import { aCodex } from './support/codex.ts';
import { anOpenCode } from './support/opencode.ts';
import { closeAll, opens } from './support/opened.ts';
import { aPlace } from './support/place.ts';
import type { Place } from './support/place.ts';
import { runs } from './support/runs.ts';
import { aTerminal } from './support/terminal.ts';
import type { Terminal } from './support/terminal.ts';
import { client } from './support/where.ts';

const [claude, codex, opencode] = [client('claude'), client('codex'), client('opencode')];
const DEADLINE = 200_000;
afterEach(closeAll);

describe(`parley run claude${claude.why}`, () => {
  claude.it('gives Claude Code its tools, its mail and its name, and changes no settings file', async () => {
    const { model, place, does } = await aMachine();
    const code = aClaude({ place, model });
    await does(['init', 'me']);
    const settings = readFileSync(`${code.folder}/settings.json`, 'utf8');
    model.script(bash('parley send @me "from the shell"'), say('done'));
    const session = new ClaudeSession(
      code,
      await started(place, code.env, ['claude', '--dangerously-skip-permissions']),
    );
    const { pid } = await session.until('idle');
    expect(pid).toBe(session.terminal.pid);
    await does(['send', '@claude.project', 'CANARY it is red', '--as', 'me']);
    await session.terminal.submit('go');
    const request = await model.request(1);
    expect(request.count('CANARY it is red')).toBe(1);
    await model.saw('mcp__parley__reply');
    await model.request(2);
    await within(DEADLINE, async () => (await does(['inbox', '--as', 'me'])).includes('claude.project → @me'));
    expect(readFileSync(`${code.folder}/settings.json`, 'utf8')).toBe(settings);
    expect(JSON.parse(readFileSync(`${place.home}/.claude.json`, 'utf8'))).not.toHaveProperty('mcpServers');
    expect(existsSync(`${place.project}/.mcp.json`)).toBe(false);
  });

  claude.it('runs one hook and one server where `parley install` put its own, and they serve the name', async () => {
    const { model, place, does } = await aMachine();
    const code = aClaude({ place, model });
    await does(['install', 'claude']);
    await does(['init', 'me']);
    model.script(say('done'));
    await does(['send', '@claude', 'for the client', '--as', 'me']);
    await does(['init', 'reviewer']);
    await does(['send', '@reviewer', 'CANARY for the session', '--as', 'me']);
    const args = ['run', 'claude', '--as', 'reviewer', '-p', '--dangerously-skip-permissions', 'go'];
    const { code: exit, out } = await runs([PARLEY, ...args], {
      cwd: place.project,
      env: quiet(code.env),
      ms: DEADLINE,
    });
    expect([exit, out.trim()]).toEqual([0, 'done']);
    expect(model.last.count('CANARY for the session')).toBe(1);
    expect(model.last.has('for the client')).toBe(false);
    expect(await does(['agents'])).toContain('@reviewer');
  });

  claude.it("uses the user's own --mcp-config beside ours, and the user's --settings instead of ours", async () => {
    const { model, place } = await aMachine();
    const code = aClaude({ place, model });
    model.script(say('done'));
    const server = { command: PARLEY, args: ['mcp', '--as', 'other'] };
    const args = [
      '-p',
      '--mcp-config',
      JSON.stringify({ mcpServers: { other: server } }),
      '--settings',
      '{}',
      '--',
      'go',
    ];
    const run = await runs([PARLEY, 'run', 'claude', ...args], {
      cwd: place.project,
      env: quiet(code.env),
      ms: DEADLINE,
    });
    expect([run.code, run.out.trim()]).toEqual([0, 'done']);
    expect(run.err).toContain('Claude Code uses one --settings only');
    expect(model.last.has('mcp__parley__reply')).toBe(true);
    expect(model.last.has('mcp__other__reply')).toBe(true);
  });
});

describe(`parley run codex${codex.why}`, () => {
  codex.it(
    'gives each of two windows its tools and its name, through one daemon, and changes no settings file',
    async () => {
      const { model, place, does } = await aMachine();
      const code = aCodex({ place, model });
      await does(['init', 'me']);
      const settings = readFileSync(`${code.folder}/config.toml`, 'utf8');
      const [one, two] = [await started(place, code.env, ['codex']), await started(place, code.env, ['codex'])];
      for (const terminal of [one, two]) await code.ready(terminal);
      await one.shows('codex.project');
      await two.shows('codex.project.2');
      for (const [terminal, name] of [
        [one, 'codex.project'],
        [two, 'codex.project.2'],
      ] as const) {
        model.script(
          call('mcp__parley__send', { to: '@me', text: `by tool of ${name}` }),
          call('exec_command', { cmd: `${PARLEY} send @me "by shell of ${name}"` }),
          say('done'),
        );
        await code.turn(terminal, `go ${name}`);
        const seen = await does(['inbox', '--as', 'me']);
        expect(seen).toContain(`${name} → @me`);
        expect(seen).toContain(`by tool of ${name}`);
        expect(seen).toContain(`by shell of ${name}`);
      }
      const daemon = CodexDaemon.at(code.folder);
      await daemon.connect();
      const loaded = [...daemon.threads.values()].filter(({ isUsers }) => isUsers).map(({ id }) => id);
      daemon.release();
      const bound = new SessionNames(`${place.home}/.parley`).all().map(({ session }) => String(session));
      expect(loaded.toSorted()).toEqual(bound.toSorted());
      // Codex itself notes there that it looked for a screen reader.
      expect(readFileSync(`${code.folder}/config.toml`, 'utf8').replace(/\n\[tui\]\n.*/s, '')).toBe(settings);
    },
  );

  codex.it('lets no mail begin a turn before its user trusts the folder', async () => {
    const { model, place } = await aMachine();
    const code = aCodex({ place, model });
    const folder = `${place.home}/other`;
    // Codex does not ask where these are set.
    const file = `${code.folder}/config.toml`;
    writeFileSync(file, readFileSync(file, 'utf8').replaceAll(/^(approval_policy|sandbox_mode) .*\n/gm, ''));
    expect(await runs(['git', 'init', '-q', folder], { cwd: place.home, env: code.env, ms: DEADLINE })).toMatchObject({
      code: 0,
    });
    const names = new SessionNames(`${place.home}/.parley`);
    const live = opens(new CodexLive(code.env));
    const trusts = async (args: string[]): Promise<Terminal> => {
      const terminal = await started(place, code.env, ['codex', ...args, '-C', folder]);
      await terminal.shows('Trust this folder?');
      await within(DEADLINE, async () => (await live.list()).length > 0);
      // Longer than Parley waits once the window has the conversation.
      await Bun.sleep(3000);
      expect((await live.list()).map((one) => names.nameOf(one))).toEqual([null]);
      await terminal.confirm('Trust this folder?');
      await code.ready(terminal);
      await within(DEADLINE, async () => (await live.list()).some((one) => names.nameOf(one) === 'codex.other'));
      return terminal;
    };
    const first = await trusts(['-a', 'never']);
    expect(model.main).toHaveLength(0);
    model.script(say('done'));
    await code.turn(first, 'go');
    // It began before that, when it could only read.
    expect(model.last.has('`sandbox_mode` is `workspace-write`')).toBe(true);
    expect(model.last.has('Approval policy is currently never')).toBe(true);
    await first.close();
    await code.close();
    // Its user trusts the folder no more.
    writeFileSync(file, readFileSync(file, 'utf8').replaceAll(/\[projects\."[^"]*other"\]\n.*\n/g, ''));
    await trusts(['resume', String(names.all()[0]?.session)]);
    expect(model.main).toHaveLength(1);
  });

  codex.it("keeps the user's options for the conversation, and a first prompt", async () => {
    const { model, place } = await aMachine();
    const code = aCodex({ place, model });
    model.script(say('done'));
    const options = ['-m', 'another', '--sandbox=read-only', '-a', 'on-request'];
    const terminal = await started(place, code.env, ['codex', '--as', 'reviewer', ...options, 'a first prompt']);
    const request = await model.saw('a first prompt');
    expect(request.body).toMatchObject({ model: 'another' });
    expect(request.has('`sandbox_mode` is `read-only`')).toBe(true);
    expect(request.tools.join()).toContain('mcp__parley');
    await terminal.shows('reviewer');
  });

  codex.it('gives a conversation that is continued its name and its tools again', async () => {
    const { model, place } = await aMachine();
    const code = aCodex({ place, model });
    const names = new SessionNames(`${place.home}/.parley`);
    model.script(say('one'), say('two'));
    const one = await started(place, code.env, ['codex', '--as', 'reviewer']);
    await code.turn(one, 'first');
    const [{ session } = { session: null }] = names.all();
    await one.close();
    await code.close();
    const two = await started(place, code.env, ['codex', 'resume', String(session)]);
    await code.turn(two, 'second');
    expect(model.last.has('first')).toBe(true);
    expect(model.last.tools.join()).toContain('mcp__parley');
    expect(names.all()).toMatchObject([{ name: 'reviewer', session }]);
  });

  codex.it('reaches a window without the daemon after its first prompt', async () => {
    const { model, place, does } = await aMachine();
    const code = aCodex({ place, model });
    await does(['init', 'me']);
    model.script(say('one'), say('two'));
    const terminal = await started(place, code.env, ['codex', '--no-daemon']);
    await code.turn(terminal, 'hello');
    const program = new Program(place.home, { PARLEY_NO_DAEMON: '' });
    const sent = await program.withoutTerminal(['send', '@codex.project', 'CANARY', '--as', 'me'], {});
    expect(sent).toMatchObject({ code: 0 });
    expect((await model.saw('CANARY')).count('CANARY')).toBe(1);
    await terminal.shows('two');
    await program.withoutTerminal(['down'], {});
  });

  codex.it('gives `codex exec` its tools, and leaves the exit code alone', async () => {
    const { model, place } = await aMachine();
    const code = aCodex({ place, model });
    model.script(say('done'));
    const command = [PARLEY, 'run', 'codex', 'exec', '--skip-git-repo-check', 'go'];
    const run = await runs(command, { cwd: place.project, env: quiet(code.env), ms: DEADLINE });
    expect(run).toMatchObject({ code: 0, out: 'done\n' });
    expect(model.last.tools.join()).toContain('mcp__parley');
  });
});

describe(`parley run opencode${opencode.why}`, () => {
  opencode.it('gives OpenCode its tools, which sign with the name', async () => {
    const { model, place, does } = await aMachine();
    const code = anOpenCode({ place, model });
    await does(['init', 'me']);
    const settings = JSON.parse(readFileSync(`${code.config}/opencode.json`, 'utf8')) as Record<string, unknown>;
    model.script(call('parley_send', { to: '@me', text: 'CANARY it is red' }), say('done'));
    const command = [PARLEY, 'run', 'opencode', 'run', 'go'];
    expect(await runs(command, { cwd: place.project, env: quiet(code.env), ms: DEADLINE })).toMatchObject({ code: 0 });
    expect(await does(['inbox', '--as', 'me'])).toContain('opencode.project → @me');
    // OpenCode itself adds the address of its schema.
    const after = JSON.parse(readFileSync(`${code.config}/opencode.json`, 'utf8')) as Record<string, unknown>;
    expect({ ...after, $schema: '' }).toEqual({ ...settings, $schema: '' });
  });
});

async function aMachine() {
  const model: Model = opens(aModel([]));
  const place = await aPlace();
  // As of a user who was asked before.
  await Bun.write(`${place.home}/.parley/consents.json`, '{"claude":{"inbound":"ask"}}');
  const program = new Program(place.home);
  const does = async (args: string[], env?: Record<string, string>): Promise<string> => {
    const { out, err, code } = await program.withoutTerminal(args, {
      cwd: place.project,
      ...(env && { env: quiet(env) }),
    });
    if (code !== 0) throw new Error(`parley ${args.join(' ')} ended with ${code}: ${err}`);
    return out;
  };
  return { model, place, does };
}

/** The clients and `parley` on the search path, as after an installation. No daemon of Parley starts. */
function quiet(env: Record<string, string>): Record<string, string> {
  const programs = [PARLEY, claude.program, opencode.program];
  const folders = programs.map((program) => program.slice(0, program.lastIndexOf('/')));
  return { ...env, PATH: `${env['PATH']}:${folders.join(':')}`, PARLEY_NO_DAEMON: '1' };
}

/** `parley run …` in a terminal. */
function started(place: Place, env: Record<string, string>, args: string[]): Promise<Terminal> {
  return aTerminal(place, [PARLEY, 'run', ...args], { env: quiet(env) });
}
