import { afterEach, describe, expect } from 'bun:test';
import { existsSync, writeFileSync } from 'node:fs';
import { Program } from '../support/program.ts';
import { within } from '../support/within.ts';
import { aModel } from './model/model.ts';
import { bash, gate, refuse, say, type Step } from './model/steps.ts';
import { aClaude, type ClaudeOptions } from './support/claude.ts';
import { closeAll, opens } from './support/opened.ts';
import { aPlace } from './support/place.ts';
import { client } from './support/where.ts';

const claude = client('claude');

afterEach(closeAll);

describe(`Parley's hook in Claude Code${claude.why}`, () => {
  claude.it('puts a message that came during a tool call into the next request to the model, once', async () => {
    const waits = 'touch running; until [ -e sent ]; do sleep 0.05; done';
    const { place, parley, model, code } = await aSession([bash('true'), bash(waits), say('read it')]);
    const run = code.headless('work');
    await within(60_000, async () => existsSync(`${place.project}/running`));
    await parley.run(['send', '@claude', 'CANARY the build is red'], { as: 'codex' });
    writeFileSync(`${place.project}/sent`, '');
    expect(await run).toMatchObject({ code: 0, err: '' });
    expect(model.main[1]?.has('CANARY')).toBe(false);
    expect(model.main[2]?.has('CANARY the build is red')).toBe(true);
    expect(model.last.count('CANARY')).toBe(1);
    expect(model.last.where('CANARY')).toMatchObject([{ role: 'system', kind: 'text' }]);
  });

  claude.it('puts it there after a tool that failed, too', async () => {
    const { parley, model, code } = await aSession([]);
    const sent = gate();
    model.script(bash('true'), bash('exit 3', sent.opened), say('read it'));
    const run = code.headless('work');
    await model.request(2);
    await parley.run(['send', '@claude', 'CANARY after a failure'], { as: 'codex' });
    sent.open();
    await run;
    expect(model.main[2]?.where('CANARY')[0]?.text).toStartWith('PostToolUseFailure:Bash hook additional context');
    expect(model.last.count('CANARY')).toBe(1);
  });

  claude.it('makes the model go on at the end of its turn, for mail that came while it spoke', async () => {
    const { parley, model, code } = await aSession([]);
    const sent = gate();
    model.script(say('I am done', sent.opened), say('now I am'));
    const run = code.headless('work');
    await model.request(1);
    await parley.run(['send', '@claude', 'CANARY one more thing'], { as: 'codex' });
    sent.open();
    expect((await run).out).toContain('now I am');
    expect(model.main).toHaveLength(2);
    expect(model.last.count('CANARY')).toBe(1);
  });

  claude.it('brings thirty messages of 1 KB whole, each once, and none as a pointer to a file', async () => {
    const { parley, model, code } = await aSession([]);
    const bodies = Array.from({ length: 30 }, (_, n) => `CANARY-${n}-${'x'.repeat(1000)}-END-${n}.`);
    for (const body of bodies) await parley.run(['send', '@claude', body], { as: 'codex' });
    model.script(...Array.from({ length: 5 }, () => bash('true')));
    expect(await code.headless('work')).toMatchObject({ code: 0, err: '' });
    expect(bodies.filter((body) => model.last.count(body) !== 1)).toEqual([]);
    expect(model.last.count('persisted-output')).toBe(0);
    expect(model.last.count('Output too large')).toBe(0);
    // By plain output a text can reach the model at some events and never at others: none of it came that way.
    const others = model.last
      .where('CANARY')
      .filter(({ text }) => !/^\w+(:\w+)? hook additional context: /m.test(text));
    expect(others).toEqual([]);
    expect((await parley.run(['inbox'], { as: 'claude' })).out).not.toContain('CANARY');
  });

  claude.it('leaves mail waiting that came to a session without a prompt; the next prompt brings it once', async () => {
    const { parley, model, code } = await aSession([]);
    const sent = await parley.run(['send', '@claude', 'CANARY before any prompt', '--json'], { as: 'codex' });
    const { id } = JSON.parse(sent.out) as { id: string };
    const unused = await code.interactive();
    await unused.terminal.keys('C-c', 'C-c');
    await within(60_000, async () => unused.registered() === null);
    expect(model.main).toHaveLength(0);
    expect(await copyIn(parley, id)).toMatchObject({ state: 'stored', attempt: 0, receipts: [] });

    const answers = gate();
    model.script(say('read it', answers.opened));
    const session = await code.interactive();
    await session.terminal.submit('work');
    expect((await model.request(1)).count('CANARY before any prompt')).toBe(1);
    // The model thinks, and no event has proven anything yet.
    expect(await copyIn(parley, id)).toMatchObject({ state: 'held', receipts: [{ step: 'offered' }] });
    answers.open();
    await session.until('idle');
    await within(60_000, async () => (await copyIn(parley, id)).state === 'settled');
    expect(await copyIn(parley, id)).toMatchObject({
      attempt: 0,
      settledBy: { event: 'UserPromptSubmit', proof: 'Stop' },
    });
    model.script(say('nothing new'));
    await session.terminal.submit('more');
    expect((await model.request(2)).count('CANARY')).toBe(1);
  });

  claude.it('gives mail back to the next session when it is killed before its model has answered', async () => {
    const { parley, model, code } = await aSession([]);
    const never = gate();
    model.script(say('never said', never.opened), say('read it'));
    const session = await code.interactive();
    await parley.run(['send', '@claude', 'CANARY of a killed session'], { as: 'codex' });
    await session.terminal.submit('work');
    expect((await model.request(1)).count('CANARY')).toBe(1);
    process.kill(session.terminal.pid, 'SIGKILL');
    await code.headless('work');
    never.open();
    expect(model.last.count('CANARY of a killed session')).toBe(1);
    expect(model.last.count('redelivered: you may have seen it before')).toBe(1);
  });

  claude.it('is in the context once if the session is killed before its model has answered, and resumed', async () => {
    const { parley, model, code } = await aSession([say('hello')]);
    const session = await code.interactive();
    await session.terminal.submit('hello');
    await session.until('busy');
    const { sessionId } = await session.until('idle');
    const never = gate();
    model.script(say('never said', never.opened));
    const sent = await parley.run(['send', '@claude', 'CANARY of a resumed session', '--json'], { as: 'codex' });
    await session.terminal.submit('work');
    await model.saw('CANARY of a resumed session');
    process.kill(session.terminal.pid, 'SIGKILL');
    never.open();
    const again = await code.interactive(['--resume', sessionId]);
    await again.terminal.submit('go on');
    expect((await model.saw('go on')).count('CANARY of a resumed session')).toBe(1);
    const { id } = JSON.parse(sent.out) as { id: string };
    await within(60_000, async () => (await copyIn(parley, id)).state === 'settled');
  });

  claude.it('is in the context once if the model refuses to answer', async () => {
    const env = { CLAUDE_CODE_MAX_RETRIES: '1' };
    const { parley, model, code } = await aSession([refuse(), refuse()], { env });
    const session = await code.interactive();
    await parley.run(['send', '@claude', 'CANARY of a refused request'], { as: 'codex' });
    await session.terminal.submit('work');
    await session.terminal.shows('API Error');
    await session.until('idle');
    await session.terminal.submit('go on');
    expect((await model.saw('go on')).count('CANARY of a refused request')).toBe(1);
  });

  claude.it('gives mail back after an interrupt and /clear', async () => {
    const { parley, model, code } = await aSession([]);
    const never = gate();
    model.script(say('never said', never.opened), say('read it'));
    const session = await code.interactive();
    await parley.run(['send', '@claude', 'CANARY of a turn that was interrupted'], { as: 'codex' });
    await session.terminal.submit('work');
    expect((await model.request(1)).count('CANARY')).toBe(1);
    await session.until('busy');
    await session.terminal.keys('Escape');
    await session.until('idle');
    const { sessionId } = session.registered() ?? {};
    // The prompt that got no answer stands in the composer again.
    await session.terminal.shows(/❯\swork/);
    await session.terminal.keys('C-u');
    await session.terminal.submit('/clear');
    await within(60_000, async () => ![undefined, sessionId].includes(session.registered()?.sessionId));
    await session.terminal.submit('work');
    const request = await model.request(2);
    never.open();
    expect(request.count('CANARY of a turn that was interrupted')).toBe(1);
    expect(request.count('redelivered: you may have seen it before')).toBe(1);
  });

  claude.it('shows mail again after a compaction as long as it is owed', async () => {
    const { parley, model, code } = await aSession([]);
    const session = await code.interactive();
    await parley.run(['send', '@claude', 'CANARY must be answered'], { as: 'codex' });
    model.script(say('later'));
    await session.terminal.submit('work');
    await model.saw('CANARY must be answered');
    await session.until('idle');
    await session.terminal.submit('/compact');
    await session.terminal.shows(/Compacted|compacted/);
    await session.until('idle');
    const asked = model.main.length;
    model.script(say('now'));
    await session.terminal.submit('go on');
    const request = await model.request(asked + 1);
    expect(request.count('CANARY must be answered')).toBe(1);
    expect(request.count('redelivered')).toBe(1);
  });

  claude.it(
    'is proven by the transcript: what came after a tool, with a prompt, and at the end of a turn',
    async () => {
      const { parley, model, code } = await aSession([]);
      const ids: string[] = [];
      const send = async (body: string): Promise<void> => {
        const { out } = await parley.run(['send', '@claude', body, '--json'], { as: 'codex' });
        ids.push((JSON.parse(out) as { id: string }).id);
      };
      const [second, third, last] = [gate(), gate(), gate()];
      model.script(bash('true', second.opened), bash('true'), say('almost', third.opened), bash('true'));
      model.script(say('read it', last.opened));
      await send('CANARY with the prompt');
      const run = code.headless('work');
      await model.request(1);
      await send('CANARY after a tool');
      second.open();
      await model.request(3);
      await send('CANARY at the end');
      third.open();
      await model.request(5);
      // The client writes a moment after its model has answered.
      const answers = () => code.transcripts().flatMap(({ lines }) => lines.filter(({ requestRef }) => requestRef));
      await within(60_000, async () => answers().length >= 4);
      last.open();
      await run;
      for (const [n, event] of ['UserPromptSubmit', 'PostToolUse', 'Stop'].entries()) {
        const { receipts } = await copyIn(parley, ids[n] ?? '');
        const evidence = { event, record: expect.stringMatching(/\.jsonl$/), offset: expect.any(Number) };
        expect(receipts).toMatchObject([{ step: 'offered' }, { step: 'shown', evidence }]);
      }
    },
  );

  claude.it('says nothing to a model for which nothing waits', async () => {
    const { model, code } = await aSession([bash('true'), say('done')]);
    await code.headless('work');
    expect(model.last.count('[parley')).toBe(0);
    expect(model.last.count('hook additional context')).toBe(0);
    expect(model.main).toHaveLength(2);
  });

  claude.it('answers in JSON because plain output after a tool call does not reach the model', async () => {
    const plain = 'echo PLAIN-CANARY; touch "$HOME/called"';
    const { place, model, code } = await aSession([bash('true'), say('done')], {
      settings: { hooks: { PostToolUse: [{ hooks: [{ type: 'command', command: plain }] }] } },
    });
    await code.headless('work');
    expect(existsSync(`${place.home}/called`)).toBe(true);
    expect(model.last.has('PLAIN-CANARY')).toBe(false);
  });

  claude.it('brings mail into a session at a terminal, between two tool calls', async () => {
    const { parley, model, code } = await aSession([]);
    const session = await code.interactive();
    const sent = gate();
    model.script(bash('true', sent.opened), say('read it'));
    await session.terminal.submit('work');
    await session.until('busy');
    await model.request(1);
    await parley.run(['send', '@claude', 'CANARY at a terminal'], { as: 'codex' });
    sent.open();
    expect((await model.saw('CANARY at a terminal')).count('CANARY')).toBe(1);
    await session.until('idle');
    expect(model.last.count('CANARY')).toBe(1);
  });

  claude.it('waits with mail until a dialog is answered', async () => {
    const { place, parley, model, code } = await aSession([bash('touch made'), say('read it')], { permissions: 'ask' });
    const session = await code.interactive();
    await session.terminal.submit('work');
    expect(await session.until('waiting')).toMatchObject({ waitingFor: 'permission prompt' });
    await parley.run(['send', '@claude', 'CANARY during a dialog'], { as: 'codex' });
    expect(existsSync(`${place.project}/made`)).toBe(false);
    expect(model.main).toHaveLength(1);
    await session.terminal.confirm('Do you want to proceed?');
    expect((await model.saw('CANARY during a dialog')).count('CANARY')).toBe(1);
    expect(existsSync(`${place.project}/made`)).toBe(true);
  });
});

/** What Parley knows of the one copy of a message. */
async function copyIn(parley: Program, id: string): Promise<{ state: string; receipts: object[] }> {
  const { out } = await parley.run(['trace', id, '--json']);
  const [copy] = (JSON.parse(out) as { copies: { state: string; receipts: object[] }[] }).copies;
  if (!copy) throw new Error('it has a copy');
  return copy;
}

/** Claude Code with the hook of Parley as `parley hook` says it, and the mailboxes of claude and codex. */
async function aSession(steps: Step[], options: Partial<ClaudeOptions> = {}) {
  const model = opens(aModel(steps));
  const place = await aPlace();
  const parley = await new Program(place.home).init('claude', 'codex');
  await parley.run(['hook', '--write']);
  const code = aClaude({ place, model, settings: await hookSettings(parley), ...options });
  return { place, parley, model, code };
}

/** What `parley hook --help` says to merge into the settings of Claude Code. */
async function hookSettings(parley: Program): Promise<Record<string, unknown>> {
  const { out } = await parley.run(['hook', '--help']);
  const [, json = ''] = /^Claude Code, .*:\n([\s\S]*?)\n\n/m.exec(out) ?? [];
  return JSON.parse(json) as Record<string, unknown>;
}
