import { afterEach, describe, expect, it } from 'bun:test';
import { readFileSync } from 'node:fs';
import { ScriptedCodex } from '../../../test/support/codex-daemon.ts';
import { within } from '../../../test/support/within.ts';
import { aParcel, NEVER, wayContract } from '../../delivery/way.contract.ts';
import { CodexDaemon } from './rpc.ts';
import { TurnWay } from './turn-way.ts';

const DEADLINE = 20_000;
const SILENT_MS = 200;
const opened: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of opened.splice(0).toReversed()) await close();
});

wayContract('rpc, to the daemon of Codex', async () => {
  const { codex, thread, daemon, way } = await aThread();
  return {
    way,
    seen: async () => codex.shown.join('\n'),
    typed: async () => '',
    async leave() {
      await codex.kill();
      await within(DEADLINE, async () => !daemon.isConnected);
    },
    async comeBack() {
      codex.start();
      codex.load(thread);
    },
    async close() {},
  };
});

describe('the way rpc to a thread of Codex', () => {
  it('proves what the model was given, with the record, the offset and the turn', async () => {
    const { thread, way } = await aThread();
    const parcel = aParcel();
    expect(await way.attempt([parcel], NEVER)).toMatchObject({
      outcome: 'taken',
      step: 'shown',
      evidence: {
        way: 'rpc',
        client: 'codex',
        session: thread.id,
        record: thread.path,
        id: parcel.id,
        offset: expect.any(Number),
      },
    });
  });

  it('joins a running turn, and is proven only when the model continues', async () => {
    const { codex, thread, way } = await aThread();
    codex.answers = () => null;
    codex.typed(thread, 'work');
    const parcels = Array.from({ length: 15 }, () => aParcel());
    const attempt = way.attempt(parcels, NEVER);
    await within(DEADLINE, async () => thread.pending.length === 15);
    expect(codex.shown).toEqual(['work']);
    codex.step(thread);
    expect(await attempt).toMatchObject({ outcome: 'taken', step: 'shown' });
    expect(codex.shown).toEqual(['work', ...parcels.map(({ text }) => text)]);
  });

  it.each(['waitingOnApproval', 'waitingOnUserInput'])('waits while a dialog is open (%s)', async (flag) => {
    const { codex, thread, daemon, way } = await aThread();
    codex.answers = () => null;
    codex.typed(thread, 'work');
    codex.status(thread, { type: 'active', activeFlags: [flag] });
    await within(DEADLINE, async () => daemon.threads.get(thread.id)?.status === flag);
    const stop = new AbortController();
    const stopped = way.attempt([aParcel()], stop.signal);
    const attempt = way.attempt([aParcel()], NEVER);
    await Bun.sleep(50);
    expect(codex.called).not.toContain('turn/start');
    stop.abort();
    expect(await stopped).toMatchObject({ outcome: 'left', retry: true });
    codex.status(thread, { type: 'active', activeFlags: [] });
    await within(DEADLINE, async () => thread.pending.length === 1);
    codex.finish(thread, 'done');
    expect(await attempt).toMatchObject({ outcome: 'taken', step: 'shown' });
    expect(codex.replies).toEqual([]);
  });

  it('waits until a compaction is over', async () => {
    const { codex, thread, way } = await aThread();
    codex.refuses.set('turn/start', 'failed to submit turn input: ActiveTurnNotSteerable { turn_kind: Compact }');
    const attempt = way.attempt([aParcel()], NEVER);
    await within(DEADLINE, async () => codex.called.includes('turn/start'));
    codex.refuses.clear();
    codex.status(thread, { type: 'idle' });
    expect(await attempt).toMatchObject({ outcome: 'taken', step: 'shown' });
    expect(codex.shown).toHaveLength(1);
  });

  it('reports `left` for a message that Codex refuses', async () => {
    const { codex, way } = await aThread();
    codex.refuses.set('turn/start', 'Input exceeds the maximum length');
    expect(await way.attempt([aParcel()], NEVER)).toMatchObject({
      outcome: 'left',
      because: 'Input exceeds the maximum length',
    });
  });

  it('reports `left` if the user interrupts the turn first', async () => {
    const { codex, thread, way } = await aThread();
    codex.answers = () => null;
    codex.typed(thread, 'work');
    const attempt = way.attempt([aParcel()], NEVER);
    await within(DEADLINE, async () => thread.pending.length === 1);
    codex.interrupt(thread);
    expect(await attempt).toMatchObject({ outcome: 'left', retry: true });
  });

  it('claims no proof if the request failed or never came', async () => {
    const { codex, thread, way } = await aThread();
    codex.answers = () => null;
    const failing = way.attempt([aParcel()], NEVER);
    await within(DEADLINE, async () => codex.shown.length === 1);
    codex.fail(thread);
    expect(await failing).toMatchObject({ outcome: 'offered' });
    codex.diesBeforeRequest = true;
    const dying = way.attempt([aParcel()], NEVER);
    await within(DEADLINE, async () => thread.turn !== null);
    await codex.kill();
    expect(await dying).toMatchObject({ outcome: 'offered' });
  });

  it('does not hand over a message again that the record has, and waits for its proof', async () => {
    const { codex, thread, way } = await aThread();
    const parcel = aParcel();
    codex.answers = () => null;
    const stop = new AbortController();
    const first = way.attempt([parcel], stop.signal);
    await within(DEADLINE, async () => codex.shown.length === 1);
    stop.abort();
    expect(await first).toMatchObject({ outcome: 'offered' });
    const second = way.attempt([parcel], NEVER);
    codex.finish(thread, 'done');
    expect(await second).toMatchObject({ outcome: 'taken', step: 'shown' });
    expect(codex.called.filter((method) => method === 'turn/start')).toHaveLength(1);
  });

  it('finds the message of an unanswered call in the record', async () => {
    const { codex, way } = await aThread();
    codex.silent.add('turn/start');
    const parcel = aParcel();
    expect((await way.attempt([parcel], NEVER)).outcome).not.toBe('left');
    expect(codex.shown).toEqual([parcel.text]);
  });

  it('gives a message a turn of its own if it needs one, and later messages do not join that turn', async () => {
    const { codex, thread, way } = await aThread();
    codex.answers = (text) => (text.includes('slow') ? null : `re: ${text}`);
    const parcels = [aParcel('slow'), { ...aParcel('why?'), ownTurn: true }, aParcel('and this')];
    const texts = parcels.map(({ text }) => text);
    const attempt = way.attempt(parcels, NEVER);
    await within(DEADLINE, async () => thread.queue.length === 2);
    expect(codex.shown).toEqual(texts.slice(0, 1));
    codex.finish(thread, 'done');
    expect(await attempt).toMatchObject({ outcome: 'taken', step: 'shown' });
    expect(codex.shown).toEqual(texts);
    expect(readFileSync(thread.path, 'utf8').split('"task_started"')).toHaveLength(1 + 3);
  });

  it('takes a queued message back when stopped, and begins it when Codex does not begin its queue', async () => {
    const { codex, thread, way } = await aThread();
    codex.answers = (text) => (text === 'work' ? null : `re: ${text}`);
    codex.typed(thread, 'work');
    const question = { ...aParcel('why?'), ownTurn: true };
    const stop = new AbortController();
    const stopped = way.attempt([question], stop.signal);
    await within(DEADLINE, async () => thread.queue.length === 1);
    stop.abort();
    expect(await stopped).toMatchObject({ outcome: 'left', retry: true });
    expect(thread.queue).toEqual([]);
    const attempt = way.attempt([question], NEVER);
    await within(DEADLINE, async () => thread.queue.length === 1);
    codex.interrupt(thread);
    expect(await attempt).toMatchObject({ outcome: 'taken', step: 'shown' });
    expect(codex.shown).toEqual(['work', question.text]);
  });

  it('sends nothing to a thread that no window shows', async () => {
    const { codex, thread, daemon } = await aThread();
    const way = new TurnWay(daemon, thread.id, () => false, SILENT_MS);
    expect(await way.attempt([aParcel()], NEVER)).toMatchObject({ outcome: 'left', retry: true });
    expect(codex.called).not.toContain('turn/start');
  });
});

async function aThread() {
  const codex = new ScriptedCodex();
  opened.push(() => codex.close());
  const thread = codex.begin();
  const daemon = CodexDaemon.at(codex.codexHome);
  opened.push(() => daemon.release());
  await daemon.connect();
  return { codex, thread, daemon, way: new TurnWay(daemon, thread.id, () => true, SILENT_MS) };
}
