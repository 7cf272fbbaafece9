import { afterEach, describe, expect } from 'bun:test';
import { Program } from '../support/program.ts';
import { aModel } from './model/model.ts';
import { call, gate, say, type Step } from './model/steps.ts';
import { aKimi } from './support/kimi.ts';
import { closeAll, opens } from './support/opened.ts';
import { aPlace } from './support/place.ts';
import { client } from './support/where.ts';

const kimi = client('kimi');
afterEach(closeAll);

const ANSWER = { to: '@claude', text: 'CANARY it is green' };

describe(`what \`parley install kimi\` installs, in Kimi${kimi.why}`, () => {
  kimi.it('makes the model go on at the end of its turn, for mail that came while it spoke', async () => {
    const sent = gate();
    const { parley, model, code } = await aMachine([say('I am done', sent.opened), say('now I am')]);
    const run = code.headless('work');
    await model.request(1);
    await parley.run(['send', '@kimi', 'CANARY one more thing'], { as: 'claude' });
    sent.open();
    expect((await run).out).toContain('now I am');
    expect((await model.request(2)).count('CANARY one more thing')).toBe(1);
  });

  kimi.it('answers by its tools', async () => {
    const { parley, code } = await aMachine([call('mcp__parley__send', ANSWER), say('sent')]);
    await code.headless('hello');
    expect((await parley.run(['inbox'], { as: 'claude' })).out).toContain('CANARY it is green');
  });
});

/** A machine with Kimi, as the guide installs Parley in it. */
async function aMachine(steps: Step[]) {
  const model = opens(aModel(steps));
  const place = await aPlace();
  const code = aKimi({ place, model });
  const parley = await new Program(place.home).init('claude', 'kimi');
  const { code: ended, err } = await parley.run(['install', 'kimi']);
  if (ended !== 0) throw new Error(`parley install ended with ${ended}: ${err}`);
  return { parley, model, code };
}
