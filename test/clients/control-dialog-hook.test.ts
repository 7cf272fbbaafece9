// The hook that answers dialogs of the real Claude Code, through the control socket, as `ccc setup` adds it.
import { afterEach, describe, expect } from 'bun:test';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { TmuxServer } from '../../src/sessions/tmux.ts';
import { ControlCaller } from '../support/control-caller.ts';
import type { Line } from '../support/control-caller.ts';
import { PARLEY } from '../support/program.ts';
import { within } from '../support/within.ts';
import { aModel } from './model/model.ts';
import { bash, call, say, type Step } from './model/steps.ts';
import { aClaude } from './support/claude.ts';
import { closeAll, opens } from './support/opened.ts';
import { aPlace } from './support/place.ts';
import { client } from './support/where.ts';

const claude = client('claude');
const DEADLINE = 200_000;
const DIALOG = 'Do you want to proceed?';
afterEach(closeAll);

describe(`the hook beside a dialog of the real Claude Code${claude.why}`, () => {
  claude.it('answers questions and permissions without a key, also outside of tmux [CCC-182, CCC-183]', async () => {
    const { asked, answer, model, place, sources, hooks } = await asking([
      call('AskUserQuestion', { questions: [colors(), toppings()] }),
      bash('touch made'),
      bash('touch denied'),
    ]);
    expect((await asked())['questions']).toMatchObject([{ question: 'Which color?' }, { multi_select: true }]);
    expect(await answer({ question_index: 1, option_indexes: [2, 0] })).toMatchObject({ ok: true });
    expect(await answer({ question_index: 0, text: 'a dark `pink`, $(touch x)' })).toMatchObject({ ok: true });
    await model.saw('"Which color?"="a dark `pink`, $(touch x)"');
    await model.saw('"Which toppings?"="Ham, Nut"');
    const permission = await asked('touch made');
    expect(permission).toMatchObject({
      kind: 'permission',
      questions: [{ options: [{ label: 'Yes' }, { label: 'No' }] }],
    });
    expect(existsSync(`${place.project}/made`)).toBe(false);
    expect(await answer({ question_index: 0, option_index: 0 })).toMatchObject({ ok: true });
    await within(DEADLINE, async () => existsSync(`${place.project}/made`));
    await asked('touch denied');
    expect(await answer({ question_index: 0, option_index: 1 })).toMatchObject({ ok: true });
    await within(DEADLINE, async () => (await hooks()) === 0);
    expect(existsSync(`${place.project}/denied`)).toBe(false);
    expect(sources()).toEqual(['hook', 'hook']);
  });

  claude.it('ends when a person closes the dialog, and at once where no server runs [CCC-183]', async () => {
    const { asked, session, hooks, stop, model } = await asking([bash('touch one'), say('done')]);
    await asked('touch one');
    expect(await hooks()).toBe(1);
    await session.terminal.confirm(DIALOG);
    await within(DEADLINE, async () => (await hooks()) === 0);
    await session.until('idle');
    await stop();
    model.script(bash('touch two'), say('done'));
    await session.terminal.submit('again');
    await session.until('waiting');
    await within(DEADLINE, async () => (await hooks()) === 0);
    expect((await session.terminal.screen()).toLowerCase()).not.toContain('hook error');
    await session.terminal.confirm(DIALOG);
    await session.until('idle');
  });
});

function colors() {
  const options = ['Red', 'Blue'].map((label) => ({ label, description: `it is ${label}` }));
  return { question: 'Which color?', header: 'Color', options, multiSelect: false };
}

function toppings() {
  const options = ['Ham', 'Egg', 'Nut'].map((label) => ({ label, description: `with ${label}` }));
  return { question: 'Which toppings?', header: 'Toppings', options, multiSelect: true };
}

/** Claude Code in a terminal that control does not know, with the hook, and `ccc listen`. */
async function asking(steps: Step[]) {
  const model = opens(aModel(steps));
  const place = await aPlace();
  const command = `if [ -x '${PARLEY}' ]; then exec '${PARLEY}' ccc dialog; fi`;
  const hook = { hooks: [{ type: 'command', command, timeout: 330 }] };
  const real = aClaude({ place, model, permissions: 'ask', settings: { hooks: { PermissionRequest: [hook] } } });
  const settings = { sessions: { app: { path: place.project, client: 'claude' } }, control_may_approve: true };
  writeFileSync(`${place.home}/.ccc.json`, JSON.stringify(settings), { mode: 0o600 });
  const how = {
    argv0: 'ccc',
    cwd: place.home,
    env: real.env,
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'ignore',
  } as const;
  const server = Bun.spawn([PARLEY, 'listen'], how);
  const stop = async (): Promise<void> => {
    server.kill();
    await server.exited;
  };
  const tmux = new TmuxServer({ env: real.env });
  opens({ close: stop });
  opens({ close: async () => void (await tmux.run(['kill-server']).catch(() => 'it did not run')) });
  await server.stdout.getReader().read();
  const request = async (fields: Record<string, unknown>): Promise<Line> => {
    const caller = await ControlCaller.open(`${place.home}/.ccc.sock`);
    try {
      return await caller.ask({ session: 'app', ...fields });
    } finally {
      caller.close();
    }
  };
  const session = await real.interactive();
  await session.terminal.submit('go on');
  const asked = async (text = ''): Promise<Record<string, unknown>> => {
    let found: Line = { ok: false };
    await within(DEADLINE, async () => {
      found = await request({ cmd: 'questions' });
      return found['questions'] !== undefined && JSON.stringify(found).includes(text);
    });
    return found['questions'] as Record<string, unknown>;
  };
  const answer = (fields: Record<string, unknown>): Promise<Line> => request({ cmd: 'answer', ...fields });
  const sources = (): unknown[] =>
    real.transcripts().flatMap(({ lines }) =>
      lines.flatMap((line) => {
        const decided = line['permissionDecision'] as { decision: string; source: string } | undefined;
        return decided?.decision === 'accept' ? [decided.source] : [];
      }),
    );
  /** How many hooks run. */
  const hooks = async (): Promise<number> => {
    const { stdout } = Bun.spawn(['ps', '-eo', 'pid,args'], { stdout: 'pipe' });
    const words = (await new Response(stdout).text()).split('\n').filter((line) => line.trim().endsWith('ccc dialog'));
    return words.filter((line) => homeOf(Number(line.trim().split(' ')[0])) === place.home).length;
  };
  return { model, place, request, asked, answer, session, sources, hooks, stop };
}

/** The home that a process has. */
function homeOf(pid: number): string | undefined {
  try {
    return /(?:^|\0)HOME=([^\0]*)/.exec(readFileSync(`/proc/${pid}/environ`, 'utf8'))?.[1];
  } catch {
    // It has ended.
    return undefined;
  }
}
