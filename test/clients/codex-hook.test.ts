import { afterEach, describe, expect } from 'bun:test';
import { Program } from '../support/program.ts';
import { aModel } from './model/model.ts';
import { call, gate, say, type Step } from './model/steps.ts';
import { aCodex } from './support/codex.ts';
import { closeAll, opens } from './support/opened.ts';
import { aPlace } from './support/place.ts';
import { client } from './support/where.ts';

const codex = client('codex');
afterEach(closeAll);

const ANSWER = { to: '@claude', text: 'CANARY it is green' };

describe(`what \`parley install codex --hooks\` installs, in Codex${codex.why}`, () => {
  codex.it('puts waiting mail before the model with the prompt of its user, once', async () => {
    const { parley, model, code, terminal } = await aSession([say('one'), say('two')]);
    await parley.run(['send', '@codex', 'CANARY the build is red'], { as: 'claude' });
    await code.turn(terminal, 'hello');
    expect((await model.request(1)).count('CANARY the build is red')).toBe(1);
    await code.turn(terminal, 'and now?');
    expect(model.last.count('CANARY')).toBe(1);
  });

  codex.it('makes the model go on at the end of its turn, for mail that came while it spoke', async () => {
    const sent = gate();
    const { parley, model, code, terminal } = await aSession([say('I am done', sent.opened), say('now I am')]);
    await code.ready(terminal);
    await terminal.submit('work');
    await model.request(1);
    await parley.run(['send', '@codex', 'CANARY one more thing'], { as: 'claude' });
    sent.open();
    expect((await model.request(2)).count('CANARY one more thing')).toBe(1);
  });

  codex.it('is proven by the rollout: what came with a prompt, and at the end of a turn', async () => {
    const sent = gate();
    const { parley, model, code, terminal } = await aSession([say('almost', sent.opened), say('read it'), say('two')]);
    const send = async (body: string): Promise<string> => {
      const { out } = await parley.run(['send', '@codex', body, '--json'], { as: 'claude' });
      return (JSON.parse(out) as { id: string }).id;
    };
    const ids = [await send('CANARY with the prompt')];
    await code.ready(terminal);
    await terminal.submit('work');
    await model.request(1);
    ids.push(await send('CANARY at the end'));
    sent.open();
    await model.request(2);
    await code.turn(terminal, 'and now?');
    for (const id of ids) {
      const { out } = await parley.run(['trace', id, '--json']);
      const { copies } = JSON.parse(out) as { copies: { mailbox: string; receipts: object[] }[] };
      // The session took it from the mailbox of all sessions of Codex.
      const copy = copies.find(({ mailbox }) => mailbox === 'codex.project');
      const evidence = { record: expect.stringMatching(/rollout-.*\.jsonl$/), offset: expect.any(Number), id };
      expect(copy?.receipts).toMatchObject([{ step: 'stored' }, { step: 'offered' }, { step: 'shown', evidence }]);
    }
  });

  codex.it('answers by its tools', async () => {
    const { parley, model, code, terminal } = await aSession([]);
    model.script(call('mcp__parley__send', ANSWER), say('sent'));
    await code.turn(terminal, 'hello');
    expect((await parley.run(['inbox'], { as: 'claude' })).out).toContain('CANARY it is green');
  });
});

/** Codex at its prompt, as the guide installs Parley in it: the user has trusted the hooks. */
async function aSession(steps: Step[]) {
  const model = opens(aModel(steps));
  const place = await aPlace();
  const code = aCodex({ place, model });
  const parley = await new Program(place.home).init('claude', 'codex');
  const { code: ended, err } = await parley.run(['install', 'codex', '--hooks']);
  if (ended !== 0) throw new Error(`parley install ended with ${ended}: ${err}`);
  const terminal = await code.terminal();
  await code.trustHooks(terminal);
  return { parley, model, code, terminal };
}
