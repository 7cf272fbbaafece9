// c2c in Kimi, as docs/guides/c2c.md says it.
import { afterEach, describe, expect } from 'bun:test';
import { Program } from '../support/program.ts';
import type { Run } from '../support/program.ts';
import { aModel } from './model/model.ts';
import { gate, say, type Step } from './model/steps.ts';
import { aKimi } from './support/kimi.ts';
import { aManaged, SOCKET } from './support/managed.ts';
import { closeAll, opens } from './support/opened.ts';
import { aPlace } from './support/place.ts';
import { client } from './support/where.ts';

const kimi = client('kimi');
afterEach(closeAll);

const SENTENCE = 'Please fetch them now';

describe(`a managed Kimi${kimi.why}`, () => {
  kimi.it('is woken while it is idle, and the mail is in that request to the model [C2C-35b, C2C-39]', async () => {
    const { model, code, terminal, send } = await aSession([say('one')]);
    await code.turn(terminal, 'hello', 'one');
    await send('CANARY the build is red');
    const asked = await model.saw('CANARY the build is red');
    expect([asked.count('CANARY'), asked.count(SENTENCE)]).toEqual([1, 1]);
    expect(asked.where('CANARY')[0]?.text).toContain('<c2c event="message" from="alice" alias="coder" to="coder"');
  });

  kimi.it('is woken before its first prompt, and the mail is in that request to the model', async () => {
    const { model, send } = await aSession([say('one')]);
    await send('CANARY to a fresh one');
    const asked = await model.saw('CANARY to a fresh one');
    expect([asked.count('CANARY'), asked.count(SENTENCE)]).toEqual([1, 1]);
  });

  kimi.it('gets what waits with the prompt of its user', async () => {
    const { model, code, terminal, send } = await aSession([say('one')], '--no-wake');
    await send('CANARY before the first prompt');
    await code.turn(terminal, 'hello', 'one');
    const asked = await model.request(1);
    expect([asked.count('CANARY'), asked.has('hello')]).toEqual([1, true]);
  });

  kimi.it('gets what came during its turn at the end of it', async () => {
    const spoken = gate();
    // Without its wake loop: nothing else may bring it.
    const { model, terminal, send } = await aSession([say('I am done', spoken.opened), say('now')], '--no-wake');
    await terminal.submit('hello');
    await model.request(1);
    await send('CANARY one more thing');
    spoken.open();
    expect((await model.request(2)).count('CANARY one more thing')).toBe(1);
  });
});

/** Kimi as `c2c install kimi` and `c2c start kimi -n coder` leave it, at its prompt. */
async function aSession(steps: Step[], ...how: string[]) {
  const model = opens(aModel(steps));
  const place = await aPlace();
  const code = aKimi({ place, model });
  const program = new Program(place.home, { ...code.env, ...SOCKET });
  const c2c = async (...args: string[]): Promise<Run> => {
    const run = await program.run(args, { name: 'c2c', cwd: place.project });
    if (run.code !== 0) throw new Error(`c2c ${args.join(' ')} ended with ${run.code}: ${run.err}`);
    return run;
  };
  await c2c('install', 'kimi');
  await c2c('register', 'alice', '--session-id', 's-alice');
  const alice = new Program(place.home, { ...code.env, ...SOCKET, C2C_MCP_SESSION_ID: 's-alice' });
  const terminal = await aManaged(place, program, 'kimi', '-n', 'coder', ...how);
  await code.ready(terminal);
  return { model, code, terminal, send: (text: string) => sends(alice, place.project, 'coder', text) };
}

async function sends(from: Program, cwd: string, to: string, text: string): Promise<void> {
  const run = await from.run(['send', to, text], { name: 'c2c', cwd });
  if (run.code !== 0) throw new Error(`c2c send ended with ${run.code}: ${run.err}`);
}
