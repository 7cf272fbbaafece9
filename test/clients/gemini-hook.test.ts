// What `parley install gemini` installs, in the real Gemini CLI: mail is in a request to the model, once, and its record proves it.
import { afterEach, describe, expect } from 'bun:test';
import { Program } from '../support/program.ts';
import { within } from '../support/within.ts';
import { aModel } from './model/model.ts';
import { call, gate, say, type Step } from './model/steps.ts';
import { aGemini, geminiShell } from './support/gemini.ts';
import { closeAll, opens } from './support/opened.ts';
import { aPlace } from './support/place.ts';
import { aTerminal } from './support/terminal.ts';
import { client } from './support/where.ts';

const real = client('gemini');
const DEADLINE = 200_000;
afterEach(closeAll);

const ANSWER = { to: '@claude', text: 'CANARY it is green' };

describe(`what \`parley install gemini\` installs, in Gemini CLI${real.why}`, () => {
  real.it('shows mail with the prompt of its user, and its record proves it', async () => {
    const { model, code, send, proofs } = await aMachine([say('one')]);
    const id = await send('CANARY is a < b?');
    await code.headless('hello');
    // Gemini CLI writes these signs as entities.
    expect((await model.request(1)).count('CANARY is a &lt; b?')).toBe(1);
    expect(await proofs(id)).toEqual(['BeforeAgent']);
  });

  real.it('shows mail after the running tool, and its record proves it', async () => {
    const sent = gate();
    const { model, code, send, proofs } = await aMachine([geminiShell('true', sent.opened), say('one')]);
    const run = code.headless('work');
    await model.request(1);
    const id = await send('CANARY it is red');
    sent.open();
    await run;
    expect((await model.request(2)).where('CANARY it is red').map(({ kind }) => kind)).toEqual(['tool result']);
    expect(await proofs(id)).toEqual(['AfterTool']);
  });

  real.it('makes the model go on at the end of its turn, for mail that came while it spoke', async () => {
    const sent = gate();
    const { model, code, send, proofs } = await aMachine([say('I am done', sent.opened), say('now I am')]);
    const run = code.headless('work');
    await model.request(1);
    const id = await send('CANARY one more thing');
    sent.open();
    expect((await run).out).toContain('now I am');
    expect((await model.request(2)).count('CANARY one more thing')).toBe(1);
    expect(model.main).toHaveLength(2);
    expect(await proofs(id)).toEqual(['AfterAgent']);
  });

  real.it('gives mail to no subagent', async () => {
    const sent = gate();
    const { model, code, send, proofs } = await aMachine([
      call('invoke_agent', { agent_name: 'generalist', prompt: 'look' }),
      geminiShell('true', sent.opened),
      call('complete_task', { result: { response: 'seen' } }),
      say('thanks'),
    ]);
    const run = code.headless('work');
    await model.request(2);
    const id = await send('CANARY it is red');
    sent.open();
    await run;
    const asked = model.main.map((request) => request.count('CANARY'));
    expect([asked.slice(0, 3), asked.at(-1)]).toEqual([[0, 0, 0], 1]);
    expect(await proofs(id)).toEqual(['AfterTool']);
  });

  real.it('gives mail again whose request was cancelled', async () => {
    const never = gate();
    const { model, place, code, send, proofs } = await aMachine([say('never', never.opened), say('two')]);
    const terminal = await aTerminal(place, ['gemini'], { env: code.env });
    await code.ready(terminal);
    const id = await send('CANARY it is red');
    await code.submit(terminal, 'hello');
    await model.saw('CANARY it is red');
    await terminal.keys('Escape');
    await terminal.shows('Request cancelled');
    await code.ready(terminal);
    expect(await proofs(id)).toEqual([]);
    await code.submit(terminal, 'again');
    expect((await model.saw('again')).count('CANARY it is red')).toBe(1);
    await within(DEADLINE, async () => (await proofs(id)).length === 1);
  });

  real.it('answers by its tools', async () => {
    const { parley, code } = await aMachine([call('mcp_parley_send', ANSWER), say('sent')]);
    await code.headless('hello');
    expect((await parley.run(['inbox'], { as: 'claude' })).out).toContain('CANARY it is green');
  });
});

interface Trace {
  copies: { receipts: { step: string; evidence: { event?: string; record?: string } }[] }[];
}

/** A machine with Gemini CLI, as the guide installs Parley in it. */
async function aMachine(steps: Step[]) {
  const model = opens(aModel(steps));
  const place = await aPlace();
  const code = aGemini({ place, model });
  const parley = await new Program(place.home).init('claude', 'reader');
  const { code: ended, err } = await parley.run(['install', 'gemini', '--as', 'reader']);
  if (ended !== 0) throw new Error(`parley install ended with ${ended}: ${err}`);
  const send = async (text: string): Promise<string> =>
    (JSON.parse((await parley.run(['send', '@reader', text, '--json'], { as: 'claude' })).out) as { id: string }).id;
  /** The events of the hooks whose mail the record shows. */
  const proofs = async (id: string): Promise<string[]> => {
    const { copies } = JSON.parse((await parley.run(['trace', id, '--json'])).out) as Trace;
    const shown = copies.flatMap(({ receipts }) => receipts.filter(({ step }) => step === 'shown'));
    return shown.map(({ evidence }) => (evidence.record?.endsWith('.jsonl') ? (evidence.event ?? '') : 'no record'));
  };
  return { parley, model, place, code, send, proofs };
}
