import { describe, expect, it } from 'bun:test';
import { chmodSync, writeFileSync } from 'node:fs';
import { ScriptedCodex } from '../../../test/support/codex-daemon.ts';
import { within } from '../../../test/support/within.ts';
import { aParcel, NEVER, wayContract } from '../../delivery/way.contract.ts';
import { takeBack, WindowQueueWay } from './window-queue.ts';

const SERVER = new URL('../../../test/support/codex-app-server.child.ts', import.meta.url).pathname;
const DEADLINE = 20_000;

wayContract('by the queue of a Codex without its daemon', async () => {
  const { codex, way, leaves } = aWindow();
  return {
    way,
    seen: async () => codex.shown.join('\n'),
    typed: async () => '',
    leave: async () => leaves(true),
    comeBack: async () => leaves(false),
    close: () => codex.close(),
  };
});

describe('mail in the queue of a Codex without its daemon', () => {
  it("waits for the user's first prompt, because Codex has no queue before it", async () => {
    const { codex, way } = aWindow('');
    expect(await way.attempt([aParcel()], NEVER)).toMatchObject({ outcome: 'left', retry: true });
    expect(codex.called).not.toContain('thread/queue/add');
    await codex.close();
  });

  it('is never queued twice, and is taken back when the window ends before its turn begins', async () => {
    const { codex, thread, way, leaves } = aWindow();
    const parcel = aParcel();
    thread.isPaused = true;
    const attempt = way.attempt([parcel], NEVER);
    await within(DEADLINE, async () => thread.queue.length === 1);
    const again = way.attempt([parcel], NEVER);
    await within(DEADLINE, async () => codex.called.filter((method) => method === 'thread/queue/list').length === 2);
    leaves(true);
    // The attempt that took the message back knows that. For the other one the message may be in a turn.
    expect([await attempt, await again].map(({ outcome }) => outcome).toSorted()).toEqual(['left', 'offered']);
    expect([thread.queue, codex.called.filter((method) => method === 'thread/queue/add').length]).toEqual([[], 1]);
    expect(await takeBack(way.place, thread.id, [parcel.id])).toEqual([]);
    await codex.close();
  });

  it('may be in a turn if it has left the queue and the record does not show it yet', async () => {
    const { codex, thread, way, leaves } = aWindow();
    thread.isPaused = true;
    const attempt = way.attempt([aParcel()], NEVER);
    await within(DEADLINE, async () => thread.queue.length === 1);
    thread.queue.pop();
    leaves(true);
    expect(await attempt).toMatchObject({ outcome: 'offered' });
    await codex.close();
  });

  it('is left to the hook if the user removed it from the queue', async () => {
    const { codex, thread, way } = aWindow();
    const quick = new WindowQueueWay(way.place, way.home, thread.id, () => true, 50);
    thread.isPaused = true;
    const attempt = quick.attempt([aParcel()], NEVER);
    await within(DEADLINE, async () => thread.queue.length === 1);
    thread.queue.pop();
    expect(await attempt).toMatchObject({ outcome: 'left', retry: false });
    await codex.close();
  });

  it('is certainly in no queue if Codex does not have the conversation any more', async () => {
    const { codex, thread, way } = aWindow();
    codex.threads.delete(thread.id);
    expect(await takeBack(way.place, thread.id, [aParcel().id])).toEqual([]);
    await codex.close();
  });

  it('stays in the mailbox if there is no Codex or Codex refuses it', async () => {
    const { codex, thread, way } = aWindow();
    const missing = new WindowQueueWay({ ...way.place, program: '/no/codex' }, way.home, thread.id, () => true);
    expect(await missing.attempt([aParcel()], NEVER)).toMatchObject({ outcome: 'left', retry: true });
    codex.refuses.set('thread/queue/add', 'it broke');
    thread.isPaused = true;
    const parcel = aParcel();
    expect(await way.attempt([parcel], NEVER)).toMatchObject({ outcome: 'left' });
    await codex.close();
  });
});

/** A conversation in a window without the daemon, after its first prompt. */
function aWindow(prompt = 'hello') {
  const codex = new ScriptedCodex();
  const program = `${codex.home}/codex`;
  writeFileSync(program, `#!/bin/sh\nexec '${process.execPath}' '${SERVER}' '${codex.socket}'\n`);
  chmodSync(program, 0o700);
  const thread = codex.begin();
  if (prompt !== '') codex.typed(thread, prompt);
  let isGone = false;
  const place = { program, cwd: codex.home, env: codex.env };
  const way = new WindowQueueWay(place, codex.codexHome, thread.id, () => !isGone);
  return { codex, thread, way, leaves: (gone: boolean) => void (isGone = gone) };
}
