// The control socket as a user runs it, with the real Claude Code and the real Codex.
import { afterEach, describe, expect } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { TmuxServer } from '../../src/sessions/tmux.ts';
import { ControlCaller } from '../support/control-caller.ts';
import type { Line } from '../support/control-caller.ts';
import { PARLEY } from '../support/program.ts';
import { aModel } from './model/model.ts';
import { gate, say, type Step } from './model/steps.ts';
import { aClaude } from './support/claude.ts';
import { aCodex } from './support/codex.ts';
import { closeAll, opens } from './support/opened.ts';
import { aPlace } from './support/place.ts';
import { client } from './support/where.ts';

const claude = client('claude');
const codex = client('codex');

afterEach(closeAll);

/** `ccc listen` in a home with one session of the real client. */
async function aServer(name: 'claude' | 'codex', steps: Step[]) {
  const model = opens(aModel(steps));
  const place = await aPlace();
  const { env } = name === 'claude' ? aClaude({ place, model }) : aCodex({ place, model });
  const tmux = new TmuxServer({ env });
  opens({ close: async () => void (await tmux.run(['kill-server']).catch(() => 'it ended before')) });
  const settings = {
    sessions: { app: { path: place.project, client: name } },
    command: { [name]: client(name).program },
    flags: { claude: ['--dangerously-skip-permissions'] },
    start_timeout_seconds: 200,
  };
  writeFileSync(`${place.home}/.ccc.json`, JSON.stringify(settings), { mode: 0o600 });
  const server = Bun.spawn([PARLEY, 'listen'], {
    argv0: 'ccc',
    cwd: place.home,
    env,
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'ignore',
  });
  opens({
    close: async () => {
      server.kill();
      await server.exited;
    },
  });
  await server.stdout.getReader().read();
  const request = async (fields: Record<string, unknown>): Promise<Line> => {
    const caller = await ControlCaller.open(`${place.home}/.ccc.sock`);
    try {
      return await caller.ask(fields);
    } finally {
      caller.close();
    }
  };
  const ask = (text: string): Promise<Line> => request({ cmd: 'ask', session: 'app', text });
  return { model, request, ask };
}

describe(`the control socket with the real Claude Code${claude.why}`, () => {
  claude.it('starts it, and gives each prompt its own answer, also two at once [CCC-43, CCC-49, CCC-176]', async () => {
    const { model, ask, request } = await aServer('claude', [say('first')]);
    expect(await ask('one')).toMatchObject({ ok: true, response: 'first', started: 'fresh' });
    const held = gate();
    model.script(say('second', held.opened), say('third'));
    const both = [ask('two'), ask('three')];
    await model.saw('two');
    expect((await request({ cmd: 'ping' })).ok).toBe(true);
    held.open();
    const [second, third] = await Promise.all(both);
    expect([second?.['response'], third?.['response']]).toEqual(['second', 'third']);
    const { messages } = await request({ cmd: 'history', session: 'app' });
    expect((messages as { text: string }[]).map(({ text }) => text)).toEqual([
      'one',
      'first',
      'two',
      'three',
      'second',
      'third',
    ]);
    model.script(say('fourth'));
    expect(await request({ cmd: 'continue', session: 'app' })).toEqual({ ok: true });
    expect((await ask('four'))['response']).toBe('fourth');
    expect(model.last.has('three')).toBe(true);
    const shown = await request({ cmd: 'screenshot', session: 'app' });
    expect(String(shown['response'])).toContain('fourth');
  });
});

describe(`the control socket with the real Codex${codex.why}`, () => {
  codex.it('starts it, and gives each prompt its own answer, also two at once [CCC-49, CCC-205]', async () => {
    const { model, ask, request } = await aServer('codex', [say('first')]);
    expect(await ask('one')).toMatchObject({ ok: true, response: 'first', started: 'fresh' });
    model.script(say('second'), say('third'));
    const [second, third] = await Promise.all([ask('two'), ask('three')]);
    expect([second['response'], third['response']]).toEqual(['second', 'third']);
    expect((await request({ cmd: 'sessions' }))['sessions']).toMatchObject([{ name: 'app', client: 'codex' }]);
  });
});
