// c2c in Codex, as docs/guides/c2c.md says it.
import { afterEach, describe, expect } from 'bun:test';
import { PARLEY, Program } from '../support/program.ts';
import type { Run } from '../support/program.ts';
import { aModel } from './model/model.ts';
import { call, gate, say } from './model/steps.ts';
import { aCodex } from './support/codex.ts';
import { aManaged, SOCKET } from './support/managed.ts';
import { closeAll, opens } from './support/opened.ts';
import { aPlace } from './support/place.ts';
import type { Terminal } from './support/terminal.ts';
import { client } from './support/where.ts';

const codex = client('codex');
afterEach(closeAll);

const C2C = `${PARLEY} c2c`;
const SENTINEL = '<c2c event="message_pending">poll mcp__c2c__poll_inbox</c2c>';

describe(`a managed Codex with its hooks${codex.why}`, () => {
  codex.it('is woken while it is idle, and the mail is in that request to the model [C2C-35b, C2C-39]', async () => {
    const { model, code, start, send } = await aMachine();
    const coder = await start('coder');
    await code.trustHooks(coder);
    await code.turn(coder, 'hello');
    await send('coder', 'CANARY the build is red');
    const asked = await model.saw('CANARY the build is red');
    expect([asked.count('CANARY'), asked.count(SENTINEL)]).toEqual([1, 1]);
    expect(asked.where('CANARY')[0]?.text).toContain('<c2c event="message" from="alice" alias="coder" to="coder"');
  });

  codex.it('is woken before its first prompt, and the mail is in that request to the model', async () => {
    const { model, code, start, send } = await aMachine();
    const coder = await start('coder');
    await code.trustHooks(coder);
    await code.ready(coder);
    await coder.type('a draft');
    await send('coder', 'CANARY to a fresh one');
    const asked = await model.saw('CANARY to a fresh one');
    expect([asked.count('CANARY'), asked.count(SENTINEL)]).toEqual([1, 1]);
    await coder.shows('a draft');
    expect(asked.has('a draft')).toBe(false);
  });

  codex.it('gets what waits with the prompt of its user', async () => {
    const { model, code, start, send } = await aMachine();
    const coder = await start('coder', '--no-wake');
    await code.trustHooks(coder);
    await send('coder', 'CANARY before the first prompt');
    await code.turn(coder, 'hello');
    expect((await model.saw('CANARY before the first prompt')).count('CANARY')).toBe(1);
  });

  codex.it('gets what came before a tool call after it', async () => {
    const { model, code, start, send } = await aMachine();
    const sent = gate();
    model.script(call('exec_command', { cmd: 'true' }, sent.opened), say('read it'));
    const coder = await start('coder');
    await code.trustHooks(coder);
    await code.ready(coder);
    await coder.submit('work');
    await model.request(1);
    await send('coder', 'CANARY between tools');
    sent.open();
    expect((await model.saw('CANARY between tools')).count('CANARY')).toBe(1);
  });

  codex.it('gets what came during its turn at the end of it', async () => {
    const { model, code, start, send } = await aMachine();
    const spoken = gate();
    model.script(say('I am done', spoken.opened), say('now I am'));
    // Without its wake loop: nothing else may bring it.
    const coder = await start('coder', '--no-wake');
    await code.trustHooks(coder);
    await code.ready(coder);
    await coder.submit('hello');
    await model.request(1);
    await send('coder', 'CANARY one more thing');
    spoken.open();
    expect((await model.request(2)).count('CANARY one more thing')).toBe(1);
  });

  codex.it('gets its own mail and no other, with a second one in the same folder [C2C-39]', async () => {
    const { model, code, start, send } = await aMachine();
    // One through npm's script, one without.
    const one = await start('one');
    await code.trustHooks(one);
    await code.turn(one, 'I am the first');
    const two = await start('two', '--bin', code.program);
    await code.ready(two);
    await code.turn(two, 'I am the second');
    await send('two', 'CANARY for two');
    const second = await model.saw('CANARY for two');
    await send('one', 'CANARY for one');
    const first = await model.saw('CANARY for one');
    expect([second.has('I am the second'), second.has('I am the first')]).toEqual([true, false]);
    expect([first.has('I am the first'), first.has('I am the second')]).toEqual([true, false]);
    expect([first.count('CANARY'), second.count('CANARY')]).toEqual([1, 1]);
  });

  codex.it('is reached under its new name when it goes on with a thread of another session', async () => {
    const { model, code, c2c, start, send } = await aMachine();
    const one = await start('one');
    await code.trustHooks(one);
    await code.turn(one, 'I am the first');
    await c2c('stop', 'one');
    const two = await start('two', '--', 'resume', '--last');
    await two.shows('I am the first');
    await code.turn(two, 'I go on as the second');
    await send('two', 'CANARY for two');
    const asked = await model.saw('CANARY for two');
    expect([asked.has('I am the first'), asked.count(SENTINEL)]).toEqual([true, 1]);
  });
});

describe(`a managed Codex without hooks${codex.why}`, () => {
  codex.it('is woken before its first prompt and after it, and fetches its mail with the tool', async () => {
    const { model, code, start, send } = await aMachine([]);
    model.script(call('mcp__c2c__poll_inbox', {}), say('read it'));
    const coder = await start('coder');
    await code.ready(coder);
    await send('coder', 'CANARY one');
    expect((await model.saw('CANARY one')).count(SENTINEL)).toBe(1);
    model.script(call('mcp__c2c__poll_inbox', {}), say('read it'));
    await send('coder', 'CANARY two');
    expect((await model.saw('CANARY two')).count(SENTINEL)).toBe(2);
  });
});

describe(`a Codex that its user starts${codex.why}`, () => {
  codex.it('is one session for its shell and its tools, beside another window of the same daemon [C2C-6]', async () => {
    const { model, code, send } = await aMachine();
    const register = (alias: string) =>
      call('exec_command', { cmd: `${C2C} register ${alias}`, yield_time_ms: 600_000 });
    const windows = [await code.terminal(), await code.terminal()] as const;
    // Neither trusts the hooks: only the tools bring mail.
    for (const [at, window] of windows.entries()) {
      await code.refuseHooks(window);
      model.script(register(`window-${at}`), say('registered'));
      await code.turn(window, `I am window ${at}`);
    }
    await send('window-1', 'CANARY for one window');
    for (const window of windows) {
      model.script(call('mcp__c2c__poll_inbox', {}), say('polled'));
      await code.turn(window, 'look');
    }
    const asked = await model.saw('CANARY for one window');
    expect([asked.has('I am window 1'), asked.has('I am window 0')]).toEqual([true, false]);
  });
});

/** A machine with Codex, to which `c2c install codex --hooks` was said. */
async function aMachine(installed = ['--hooks']) {
  const model = opens(aModel());
  const place = await aPlace();
  const code = aCodex({ place, model });
  const program = new Program(place.home, { ...code.env, ...SOCKET });
  const c2c = async (...args: string[]): Promise<Run> => {
    const run = await program.run(args, { name: 'c2c', cwd: place.project });
    if (run.code !== 0) throw new Error(`c2c ${args.join(' ')} ended with ${run.code}: ${run.err}`);
    return run;
  };
  await c2c('install', 'codex', ...installed);
  await c2c('register', 'alice', '--session-id', 's-alice');
  const alice = new Program(place.home, { ...code.env, ...SOCKET, C2C_MCP_SESSION_ID: 's-alice' });
  return {
    model,
    code,
    c2c,
    start: (name: string, ...args: string[]): Promise<Terminal> =>
      aManaged(place, program, 'codex', '-n', name, ...args),
    send: (to: string, text: string) => sends(alice, place.project, to, text),
  };
}

async function sends(from: Program, cwd: string, to: string, text: string): Promise<void> {
  const run = await from.run(['send', to, text], { name: 'c2c', cwd });
  if (run.code !== 0) throw new Error(`c2c send ended with ${run.code}: ${run.err}`);
}
