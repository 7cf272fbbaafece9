// Mail for sessions of the real `kimi web`, after `parley install kimi`: it is in a request to the model, once, and Kimi's own record proves it.
import { afterEach, describe, expect } from 'bun:test';
import { existsSync } from 'node:fs';
import { KimiLive } from '../../src/clients/kimi/live.ts';
import type { KimiServer } from '../../src/clients/kimi/web.ts';
import { Program } from '../support/program.ts';
import { within } from '../support/within.ts';
import { aModel } from './model/model.ts';
import { bash, gate, say, type Step } from './model/steps.ts';
import { aKimi } from './support/kimi.ts';
import { closeAll, opens } from './support/opened.ts';
import { aPlace } from './support/place.ts';
import { endAll } from './support/processes.ts';
import { aTerminal } from './support/terminal.ts';
import { client } from './support/where.ts';

const real = client('kimi');
const DEADLINE = 200_000;
const APPENDED = '{"type":"context.append_message"';
afterEach(closeAll);

interface Trace {
  copies: { state: string; receipts: { step: string; evidence: { way?: string; record?: string } }[] }[];
}

describe(`mail for sessions on kimi web${real.why}`, () => {
  real.it('begins a turn of an idle one, is proven, and its answer goes back', async () => {
    const { model, send, shown, inbox } = await aServer(say('hello'), say('It is 8080.'));
    const id = await send('Which port?');
    expect((await model.saw('Which port?')).count('Which port?')).toBe(1);
    expect((await shown(id)).findLast(({ step }) => step === 'shown')?.evidence).toMatchObject({
      way: 'rpc',
      record: expect.stringContaining('wire.jsonl'),
    });
    await within(DEADLINE, async () => (await inbox()).includes('It is 8080.'));
    expect(model.main).toHaveLength(2);
  });

  real.it('joins the turn of a busy one after the running tool, 15 in a burst once each', async () => {
    const open = gate();
    const { code, model, send, shown, prompt } = await aServer(say('hello'), bash('true', open.opened), say('done'));
    await prompt('work', { permission_mode: 'yolo' });
    await model.request(2);
    const ids: string[] = [];
    for (let n = 0; n < 15; n += 1) ids.push(await send(`CANARY-${n}-`));
    // All are in the queue of the turn, or will be in time: none needs a turn of its own.
    await within(DEADLINE, async () => (await steered(code.folder)) >= 15);
    open.open();
    for (const id of ids) await shown(id);
    const request = await model.request(3);
    expect(ids.map((_id, n) => request.count(`CANARY-${n}-`))).toEqual(ids.map(() => 1));
    expect(ids.map((_id, n) => model.last.count(`CANARY-${n}-`))).toEqual(ids.map(() => 1));
  });

  real.it('waits while it asks its user something, and approves nothing', async () => {
    const { model, send, prompt, server, session, place } = await aServer(
      say('hello'),
      bash('touch approved'),
      say('no then'),
      say('thanks'),
    );
    await prompt('touch it');
    await within(DEADLINE, async () => (await server.session(session))?.pending_interaction === 'approval');
    await send('CANARY it is red');
    await Bun.sleep(3000);
    expect([existsSync(`${place.project}/approved`), model.main.length]).toEqual([false, 2]);
    const { items } = (await server.call('GET', `/sessions/${session}/approvals?status=pending`)) as {
      items: { approval_id: string }[];
    };
    await server.call('POST', `/sessions/${session}/approvals/${items[0]?.approval_id}`, { decision: 'rejected' });
    expect((await model.saw('CANARY')).count('CANARY')).toBe(1);
    expect(existsSync(`${place.project}/approved`)).toBe(false);
  });

  real.it('is not given to a session that a TUI of Kimi may have open', async () => {
    const { code, place, session, send, trace } = await aServer(say('hello'), say('thanks'));
    const live = opens(new KimiLive(code.env));
    expect((await live.list()).map(({ id }) => id)).toEqual([session]);
    const terminal = await aTerminal(place, ['kimi', '-S', session], { env: code.env });
    await terminal.shows('context: ');
    const id = await send('CANARY it is red');
    await Bun.sleep(3000);
    // Its hook shows it with the next prompt.
    expect((await trace(id)).every(({ step }) => step === 'stored')).toBe(true);
    await endAll([terminal.pid]);
    await within(DEADLINE, async () => (await trace(id)).some(({ step }) => step === 'shown'));
  });

  real.it('is given again where its user stopped the turn that it was put into', async () => {
    const { code, model, prompt, send, server, session, shown } = await aServer(
      say('hello'),
      say('never', gate().opened),
      say('thanks'),
    );
    await prompt('slow');
    await model.request(2);
    const id = await send('CANARY it is red');
    await within(DEADLINE, async () => (await steered(code.folder)) === 1);
    await server.call('POST', `/sessions/${session}:abort`);
    await shown(id);
    expect(model.last.count('CANARY')).toBe(1);
  });

  real.it('has a name of its own for each session of one server', async () => {
    const { code, model, server, parley, place } = await aServer(say('hello'), say('hello too'), say('It is 8080.'));
    const second = await code.webSession(server, 'SECOND');
    await model.request(2);
    await within(DEADLINE, async () => (await parley('agents')).includes('kimi.project.2'));
    const sent = await parley('send', '@kimi.project.2', 'Which port?', '--as', 'me', '--json');
    expect(sent).toContain('"id"');
    expect((await model.saw('Which port?')).has('SECOND')).toBe(true);
    const names = await Bun.file(`${place.home}/.parley/names/kimi.project.2.json`).json();
    expect(names).toMatchObject({ session: second, pid: 0 });
  });

  real.it('waits for the next server where one was killed', async () => {
    const open = gate();
    const { code, model, prompt, send, server, session, shown } = await aServer(
      say('hello'),
      say('never', open.opened),
      say('back'),
    );
    await prompt('slow');
    await model.request(2);
    const id = await send('CANARY it is red');
    await endAll([server.pid]);
    const next = await code.web();
    await opensThere(next, session);
    await shown(id);
    expect(model.last.count('CANARY')).toBe(1);
  });

  real.it('is not given again to the next server where one was killed that had it', async () => {
    const { code, model, send, server, session, shown, trace } = await aServer(
      say('hello'),
      say('never', gate().opened),
      say('back'),
      say('more'),
    );
    const id = await send('CANARY it is red');
    await model.saw('CANARY');
    // Its conversation has the message; the model did not answer.
    const isKept = (line: string): boolean => line.startsWith(APPENDED) && line.includes('CANARY');
    await within(DEADLINE, async () => code.wires().split('\n').some(isKept));
    await endAll([server.pid]);
    // The daemon sees that its server is gone.
    await within(DEADLINE, async () => (await trace(id)).some(({ step }) => step === 'released'));
    const next = await code.web();
    await opensThere(next, session);
    await within(DEADLINE, async () => (await trace(id)).filter(({ step }) => step === 'offered').length === 2);
    expect(model.main).toHaveLength(2);
    await next.call('POST', `/sessions/${session}/prompts`, { content: [{ type: 'text', text: 'go on' }] });
    await shown(id);
    expect(model.last.count('CANARY')).toBe(1);
  });
});

/** A person opens the session on this server. On a busy machine that takes its time. */
async function opensThere(server: KimiServer, session: string): Promise<void> {
  await server.call('GET', `/sessions/${session}/prompts`, undefined, { ms: DEADLINE });
}

/** How many messages wait for the next step of a turn. */
async function steered(folder: string): Promise<number> {
  const [wire = ''] = await Array.fromAsync(
    new Bun.Glob('sessions/**/wire.jsonl').scan({ cwd: folder, absolute: true }),
  );
  const lines = (await Bun.file(wire).text()).split('\n');
  return lines.filter((line) => line.startsWith('{"type":"prompt.steered"')).length;
}

/** A machine with a `kimi web` that has one session, in which its user said something. */
async function aServer(...steps: Step[]) {
  const model = opens(aModel(steps));
  const place = await aPlace();
  const code = aKimi({ place, model });
  code.trustProject();
  const program = new Program(place.home, { ...code.env, PARLEY_NO_DAEMON: '' });
  const parley = async (...words: string[]): Promise<string> => {
    const { out, err, code: ended } = await program.withoutTerminal(words, { cwd: place.project });
    if (ended !== 0) throw new Error(`parley ${words.join(' ')} ended with ${ended}: ${err}`);
    return out;
  };
  await parley('init', 'me');
  opens({ close: async () => void (await program.run(['down'])) });
  await parley('install', 'kimi');
  const server = await code.web();
  const session = await code.webSession(server, 'hello');
  await model.request(1);
  await within(DEADLINE, async () => (await server.session(session))?.busy === false);
  const send = async (text: string): Promise<string> =>
    (JSON.parse(await parley('send', '@kimi', text, '--as', 'me', '--json')) as { id: string }).id;
  const trace = async (id: string) =>
    (JSON.parse(await parley('trace', id, '--json')) as Trace).copies.flatMap(({ receipts }) => receipts);
  const shown = async (id: string) => {
    await within(DEADLINE, async () => (await trace(id)).some(({ step }) => step === 'shown'));
    return trace(id);
  };
  const prompt = (text: string, more = {}) =>
    server.call('POST', `/sessions/${session}/prompts`, { content: [{ type: 'text', text }], ...more });
  const inbox = (): Promise<string> => parley('inbox', '--as', 'me');
  return { parley, model, place, code, server, session, send, trace, shown, prompt, inbox };
}
