import { describe, expect, it } from 'bun:test';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { PARLEY, Program } from '../support/program.ts';

interface Demo {
  home: string;
  kept: boolean;
  steps: { agent: string; command: string[]; result: unknown }[];
  trace: {
    message: { body: string };
    copies: { state: string; disposition: string; settledBy: { reply: string }; steps: { step: string }[] }[];
  };
}

/** A program with a temporary folder of its own, to see what is left there. */
function onStage(): Program & { temporary: string } {
  const parley = new Program();
  const temporary = `${parley.home}/tmp`;
  mkdirSync(temporary);
  parley.extra['TMPDIR'] = temporary;
  return Object.assign(parley, { temporary });
}

describe('parley demo', () => {
  it('runs the main job from send to settled and prints the trace that proves it', async () => {
    const parley = onStage();
    const { code, out } = await parley.run(['demo']);
    expect(code).toBe(0);
    const [, id = 'none'] = /^stored ([0-9a-f]{8}) for @builder \(must respond\)$/m.exec(out) ?? [];
    expect(out).toContain(`already stored under this key: ${id}`);
    expect(out).toContain('Is it safe to run migration 42 twice?');
    expect(out).toContain('nothing waits for you here');
    expect(out).toContain(`builder $ parley reply ${id} `);
    expect(out).toMatch(new RegExp(`planner \\$ parley trace ${id}\\n${id}  planner → @builder`));
    expect(out).toMatch(/^ {4}settled +\S+ {2}responded, reply [0-9a-f]{8}$/m);
    expect(out.slice(out.indexOf('Next:'))).toContain('parley init <name>');
    expect(out).not.toContain('\u001b');
  });

  it('touches nothing but a temporary home, and removes that', async () => {
    const parley = onStage();
    // Settings that would stop every other command are not even read.
    mkdirSync(`${parley.home}/.parley`);
    writeFileSync(`${parley.home}/.parley/config.json`, 'broken');
    expect((await parley.run(['demo'])).code).toBe(0);
    expect(readdirSync(parley.home).sort()).toEqual(['.parley', 'tmp']);
    expect(readdirSync(`${parley.home}/.parley`)).toEqual(['config.json']);
    expect(readdirSync(parley.temporary)).toEqual([]);
  });

  it('gives one JSON value that holds every command with its own result', async () => {
    const demo = await onStage().json<Demo>(['demo']);
    expect(demo.steps.map(({ command }) => command[1])).toEqual([
      'init',
      'init',
      'send',
      'send',
      'take',
      'take',
      'reply',
      'drain',
      'trace',
    ]);
    expect(demo.steps[2]?.result).toMatchObject({ step: 'stored', first: true });
    expect(demo.steps[3]?.result).toMatchObject({ step: 'stored', first: false });
    expect(demo.steps[5]?.result).toBeNull();
    expect(demo.trace.copies).toMatchObject([{ state: 'settled', disposition: 'responded' }]);
    expect(demo.trace.copies[0]?.steps.map(({ step }) => step)).toEqual(['stored', 'settled']);
    expect(demo.kept).toBe(false);
  });

  it('keeps its home when asked to, and says where it is', async () => {
    const parley = onStage();
    const { out } = await parley.run(['demo', '--keep']);
    const [, kept = ''] = /PARLEY_HOME=(\S+) parley agents/.exec(out) ?? [];
    expect(kept).toStartWith(parley.temporary);
    const agents = await new Program(parley.home, { PARLEY_HOME: kept }).json<{ name: string }[]>(['agents']);
    expect(agents.map(({ name }) => name)).toEqual(['builder', 'planner']);
  });

  it('leaves nothing behind when it is interrupted', async () => {
    const parley = onStage();
    const child = Bun.spawn([PARLEY, 'demo'], {
      env: parley.env,
      cwd: parley.home,
      stdout: 'pipe',
      stderr: 'ignore',
    });
    const reader = child.stdout.getReader();
    for (let text = ''; !text.includes('parley init planner');) {
      const { value, done } = await reader.read();
      if (done) throw new Error('the demo ended before it began');
      text += new TextDecoder().decode(value);
    }
    child.kill('SIGINT');
    expect(await child.exited).toBe(130);
    expect(readdirSync(parley.temporary)).toEqual([]);
  });

  it('says what is missing where there is no temporary folder', async () => {
    const parley = new Program();
    parley.extra['TMPDIR'] = `${parley.home}/none`;
    const run = await parley.run(['demo']);
    expect(run.code).not.toBe(0);
    expect(run.err).not.toContain('internal error');
    expect(run.err).toContain(`${parley.home}/none`);
  });
});
