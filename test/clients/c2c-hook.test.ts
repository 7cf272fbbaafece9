import { afterEach, describe, expect } from 'bun:test';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { Program } from '../support/program.ts';
import type { Run } from '../support/program.ts';
import { within } from '../support/within.ts';
import { aModel } from './model/model.ts';
import { bash, gate, say, type Step } from './model/steps.ts';
import { aClaude } from './support/claude.ts';
import { closeAll, opens } from './support/opened.ts';
import { aPlace } from './support/place.ts';
import { client } from './support/where.ts';

const claude = client('claude');

afterEach(closeAll);

describe(`what \`c2c install claude\` installs, in Claude Code${claude.why}`, () => {
  claude.it(
    'puts a message that came during a tool call into the next request to the model, once [C2C-31]',
    async () => {
      const waits = 'touch running; until [ -e sent ]; do sleep 0.05; done';
      const { place, c2c, model, code } = await aSession([bash('true'), bash(waits), say('read it')]);
      const run = code.headless('work', SESSION);
      await within(60_000, async () => existsSync(`${place.project}/running`));
      await c2c(['send', 'ada', 'CANARY the build is red', '--from', 'bob']);
      writeFileSync(`${place.project}/sent`, '');
      expect(await run).toMatchObject({ code: 0, err: '' });
      expect(model.main[1]?.has('CANARY')).toBe(false);
      expect(model.main[2]?.has('CANARY the build is red')).toBe(true);
      expect(model.last.count('CANARY')).toBe(1);
      const [where] = model.last.where('CANARY');
      expect(where?.text).toStartWith('PostToolUse:Bash hook additional context: ');
      expect(where?.text).toContain('<c2c event="message" from="bob" alias="ada" to="ada"');
    },
  );

  claude.it('puts it there after a tool that failed, too [C2C-31b]', async () => {
    const { c2c, model, code } = await aSession([]);
    const sent = gate();
    model.script(bash('true'), bash('exit 3', sent.opened), say('read it'));
    const run = code.headless('work', SESSION);
    await model.request(2);
    await c2c(['send', 'ada', 'CANARY after a failure', '--from', 'bob']);
    sent.open();
    await run;
    expect(model.main[2]?.where('CANARY')[0]?.text).toStartWith('PostToolUseFailure:Bash hook additional context');
  });

  claude.it('brings thirty messages of 1 KB whole, each once, and none as a pointer to a file [C2C-31b]', async () => {
    const { c2c, model, code } = await aSession([]);
    const bodies = Array.from({ length: 30 }, (_, n) => `CANARY-${n}-${'x'.repeat(1000)}-END-${n}.`);
    for (const body of bodies) await c2c(['send', 'ada', body, '--from', 'bob']);
    model.script(...Array.from({ length: 7 }, () => bash('true')));
    expect(await code.headless('work', SESSION)).toMatchObject({ code: 0, err: '' });
    expect(bodies.filter((body) => model.last.count(body) !== 1)).toEqual([]);
    expect(model.last.count('persisted-output')).toBe(0);
    expect(model.last.count('Output too large')).toBe(0);
    expect((await c2c(['peek-inbox', '--session-id', ID, '--json'])).out.trim()).toBe('[]');
  });

  claude.it('loses no mail to a c2c that hangs, and lets the turn go on [C2C-31b]', async () => {
    const { place, c2c, model, code } = await aSession([bash('true'), say('done')]);
    await c2c(['send', 'ada', 'CANARY must not be lost', '--from', 'bob']);
    const script = `${place.home}/.claude/hooks/c2c-inbox-check.sh`;
    const text = readFileSync(script, 'utf8');
    const hangs = `${place.home}/hangs`;
    writeFileSync(hangs, '#!/bin/sh\nexec sleep 300\n', { mode: 0o755 });
    writeFileSync(script, text.replace(/timeout -k 1 4 '[^']*'/, `timeout -k 1 4 '${hangs}'`));
    expect(await code.headless('work', SESSION)).toMatchObject({ code: 0 });
    expect(model.main).toHaveLength(2);
    expect(model.last.has('CANARY')).toBe(false);
    expect((await c2c(['peek-inbox', '--session-id', ID, '--json'])).out).toContain('CANARY must not be lost');
    // With a c2c that answers again, it comes.
    writeFileSync(script, text);
    model.script(bash('true'), say('done'));
    await code.headless('go on', ['--resume', ID]);
    expect(model.last.count('CANARY must not be lost')).toBe(1);
  });

  claude.it('says nothing to a model for which nothing waits [C2C-31]', async () => {
    const { model, code } = await aSession([bash('true'), say('done')]);
    await code.headless('work', SESSION);
    expect(model.last.count('hook additional context')).toBe(0);
    expect(model.main).toHaveLength(2);
  });
});

const ID = '0b9a3c1e-5d2f-4a6b-8c7d-9e0f1a2b3c4d';
const SESSION = ['--session-id', ID];

/** Claude Code as `c2c install claude` left it, with a session that is registered as ada. */
async function aSession(steps: Step[]) {
  const model = opens(aModel(steps));
  const place = await aPlace();
  const program = new Program(place.home);
  const c2c = (args: string[]): Promise<Run> => program.run(args, { name: 'c2c', cwd: place.project });
  const code = aClaude({ place, model });
  for (const args of [
    ['install', 'claude', '--global'],
    ['register', 'ada', '--session-id', ID],
  ]) {
    const run = await c2c(args);
    if (run.code !== 0) throw new Error(`c2c ${args.join(' ')} ended with ${run.code}: ${run.err}`);
  }
  return { place, c2c, model, code };
}
