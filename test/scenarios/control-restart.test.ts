import { afterEach, describe, expect, it } from 'bun:test';
import { isProcessAlive } from '../../src/platform/process.ts';
import { ControlRig } from '../support/control-rig.ts';
import { within } from '../support/within.ts';

const rigs: ControlRig[] = [];
async function serve(...args: ConstructorParameters<typeof ControlRig>): Promise<ControlRig> {
  const rig = new ControlRig(...args);
  rigs.push(rig);
  return rig.listen();
}
afterEach(async () => {
  for (const rig of rigs.splice(0)) await rig.close();
});

/** The stand-in answers it when it is told to. */
const HELD = '@@{"hold":true}@@';

describe('a server that is stopped while asks wait', () => {
  it.each([
    ['in one session, where four of them are not typed yet', ['api', 'api', 'api', 'api', 'api']],
    ['in two sessions', ['api', 'web', 'api', 'web', 'api']],
  ])(
    'answers each at once with what becomes of it; after the restart all are answered: %s [CCC-200]',
    async (_case, names) => {
      const sessions = [...new Set(names)];
      const rig = await serve(Object.fromEntries(sessions.map((name) => [name, {}])));
      for (const name of sessions) await rig.ask(name, 'hello');
      const clients = rig.claude.running().map(({ pid }) => pid);
      const texts = names.map((_name, at) => (at < sessions.length ? `question ${at} ${HELD}` : `question ${at}`));
      const asks: Promise<{ line: Awaited<ReturnType<ControlRig['ask']>>; at: number }>[] = [];
      for (const [at, name] of names.entries()) {
        asks.push(rig.ask(name, texts[at] ?? '').then((line) => ({ line, at: performance.now() })));
        await within(20_000, async () => (await queued(rig)) === at + 1);
      }
      await rig.claude.prompted(sessions.length * 2);
      const began = performance.now();
      expect(await rig.end('SIGTERM')).toBe(0);
      const ends = await Promise.all(asks);
      for (const { line } of ends)
        expect(line).toEqual({
          ok: false,
          error: 'server stopping: the answer will be in the history',
          message_id: expect.any(Number),
        });
      // Not the slowest: a busy machine delays some of them.
      const ended = ends.map(({ at }) => at - began).toSorted((a, b) => a - b);
      expect(ended[Math.floor(ended.length / 2)]).toBeLessThan(2000);
      expect(clients.every(isProcessAlive)).toBe(true);
      await rig.listen();
      for (const pid of clients) await rig.claude.order({ finish: `late answer of ${pid}` }, pid);
      const answers = async (): Promise<number> =>
        (await Promise.all(sessions.map((name) => rig.history(name, { from_filter: 'claude' })))).flat().length;
      await within(30_000, async () => (await answers()) === names.length + sessions.length);
      for (const name of sessions) {
        const said = await rig.history(name);
        const asked = said.filter(({ from }) => from === 'api');
        expect(asked.slice(1).map(({ text }) => text)).toEqual(texts.filter((_text, at) => names[at] === name));
        // Each caller has the id of its own prompt, by which it finds the answer.
        const told = ends.filter((_end, at) => names[at] === name).map(({ line }) => line['message_id']);
        expect(asked.slice(1).map(({ id }) => id)).toEqual(told as number[]);
        // Each of them has an answer of its own.
        const answered = said.filter(({ from }) => from === 'claude').map(({ reply_to }) => reply_to ?? 0);
        expect(answered.sort((a, b) => a - b)).toEqual(asked.map(({ id }) => id));
        expect(said.some(({ status }) => status !== undefined)).toBe(false);
      }
      const given = rig.claude.prompts().filter((text) => text !== 'hello');
      expect(given.toSorted()).toEqual(texts.toSorted());
      expect(rig.claude.harm()).toEqual([]);
      expect(rig.claude.running().map(({ pid }) => pid)).toEqual(clients);
    },
  );

  it('leaves a client alone that is starting, and the next server goes on with it [CCC-200]', async () => {
    const rig = await serve();
    rig.claude.starts({ isHeld: true });
    const texts = ['one', 'two', 'three'];
    const asks = texts.map((text) => rig.ask('api', text));
    await within(20_000, async () => rig.claude.running().length === 1 && (await queued(rig)) === 3);
    const [client] = rig.claude.running();
    await rig.end('SIGTERM');
    for (const line of await Promise.all(asks)) expect(line.error).toStartWith('server stopping: ');
    await rig.listen();
    rig.claude.starts({});
    await within(30_000, async () => (await rig.history('api', { from_filter: 'claude' })).length === 3);
    expect(rig.claude.prompts().toSorted()).toEqual(texts.toSorted());
    expect(rig.claude.running().map(({ pid }) => pid)).toEqual([client?.pid ?? 0]);
    expect(rig.claude.harm()).toEqual([]);
  });

  it('takes a second stop, or none at all, without a word typed twice [CCC-200]', async () => {
    const rig = await serve();
    const ask = rig.ask('api', `first ${HELD}`);
    await rig.claude.prompted(1);
    await rig.end('SIGTERM');
    expect((await ask).ok).toBe(false);
    await rig.listen();
    await rig.end('SIGKILL');
    await rig.listen();
    await rig.claude.order({ finish: 'at last' });
    await within(20_000, async () => (await rig.history('api')).at(-1)?.text === 'at last');
    expect(rig.claude.prompts()).toHaveLength(1);
  });
});

async function queued(rig: ControlRig): Promise<number> {
  return ((await rig.request({ cmd: 'queue' }))['queue'] as object[]).length;
}
