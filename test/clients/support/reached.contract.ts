// What Parley promises to the sessions of every client that `parley run` started. A client needs an adapter (reached-claude.ts is one)
// and a line in reached.test.ts.
import { describe, expect, it } from 'bun:test';
import { existsSync } from 'node:fs';
import { within } from '../../support/within.ts';
import { END } from '../model/model.ts';
import { refuse, say } from '../model/steps.ts';
import { aMachine, timesIn } from './reached.ts';
import type { Promised, RunningClient } from './reached.ts';

const DEADLINE = 200_000;

export function itReaches(running: RunningClient): void {
  const promise = (what: Promised, title: string, test: () => Promise<void>): void => {
    const reason = running.cannot?.[what];
    if (reason === undefined) running.client.it(title, test, DEADLINE * 3);
    else it.skip(`${title} (${running.title} cannot: ${reason})`, test);
  };

  describe(`mail for a session of ${running.title} that \`parley run\` started${running.client.why}`, () => {
    promise('idle', 'wakes it when it is idle, and no key is touched', async () => {
      const machine = await aMachine(running);
      const window = await machine.run();
      const draft = async (): Promise<void> => {
        await window.type('half a thought');
        await window.shows(machine.prepared.draft('half a thought'));
      };
      if (!running.isTyped) await draft();
      const id = await machine.send('the build is red');
      const asked = await machine.model.saw('the build is red');
      expect([timesIn(asked, id), asked.has('half a thought')]).toEqual([1, false]);
      const { evidence } = await machine.until(id, 'shown');
      expect(running.ways).toContain(evidence.way ?? '');
      await window.shows(END);
      if (!running.isTyped) await window.shows(machine.prepared.draft('half a thought'));
      expect(machine.model.main).toHaveLength(1);
      if (!running.isTyped) return;
      await machine.prepared.ready(window);
      await draft();
      const later = await machine.send('and green again');
      await machine.daemonRests(window.pid);
      expect([machine.model.main.length, (await machine.copy(later)).state]).toEqual([1, 'stored']);
      await window.shows(machine.prepared.draft('half a thought'));
      await window.keys('Enter');
      await machine.until(later, 'shown');
      expect((await machine.model.request(2)).has('and green again')).toBe(false);
      expect(timesIn(machine.model.last, later)).toBe(1);
    });

    const busy = running.isTyped
      ? 'reaches it while it works at the end of the turn, and nothing is typed before'
      : 'reaches it while it works after the running tool, before the next request';
    promise('busy', busy, async () => {
      const machine = await aMachine(running);
      const tool = machine.tool();
      machine.model.script(tool.step, say('done'));
      const window = await machine.run();
      await window.submit('work');
      await tool.begun();
      const id = await machine.send('look at this');
      await machine.prepared.has({ id, text: 'look at this' }, machine);
      expect(machine.model.main).toHaveLength(1);
      await tool.finish();
      const asked = [await machine.model.request(2), ...(running.isTyped ? [await machine.model.request(3)] : [])];
      expect(asked.map((one) => timesIn(one, id))).toEqual(running.isTyped ? [0, 1] : [1]);
      await machine.until(id, 'shown');
    });

    promise('burst', 'comes once each if fifteen are sent at once', async () => {
      const machine = await aMachine(running);
      await machine.run();
      const texts = Array.from({ length: 15 }, (_, n) => `number ${n}.`);
      const ids = await Promise.all(texts.map((text, n) => machine.send(text, { fyi: n % 3 === 0 })));
      for (const id of ids) await machine.until(id, 'shown');
      expect(ids.map((id) => timesIn(machine.model.last, id))).toEqual(ids.map(() => 1));
    });

    promise('dialog', 'approves nothing while a dialog is open, and arrives after it', async () => {
      const machine = await aMachine(running);
      machine.model.script(machine.prepared.guarded('touch made'), say('done'));
      const window = await machine.run({ asks: true });
      await window.submit('make it');
      await machine.prepared.asking(window);
      const id = await machine.send('say yes');
      // It was handed over, and a client that takes it for an answer does so at once. Into a dialog nothing is typed.
      if (!running.isTyped) await machine.until(id, 'offered');
      await machine.daemonRests();
      expect([machine.model.main.length, existsSync(`${machine.place.project}/made`)]).toEqual([1, false]);
      expect(await machine.has(id, 'shown')).toBe(false);
      await machine.prepared.asking(window);
      await machine.prepared.approve(window);
      await machine.until(id, 'shown');
      expect(existsSync(`${machine.place.project}/made`)).toBe(true);
      expect(timesIn(machine.model.last, id)).toBe(1);
    });

    promise('unused', 'is kept if it is started and left without a prompt', async () => {
      const machine = await aMachine(running, { isFollowed: false });
      const unused = async (): Promise<void> => {
        const window = await machine.run();
        await machine.prepared.quit(window);
      };
      // The first start makes the mailbox.
      await unused();
      const id = await machine.send('it is red');
      await unused();
      await within(DEADLINE, async () => (await machine.copy(id)).state === 'stored');
      expect([await machine.has(id, 'shown'), machine.model.main.length]).toEqual([false, 0]);
      await machine.up();
      await machine.run();
      await machine.until(id, 'shown');
      expect(timesIn(machine.model.last, id)).toBe(1);
    });

    promise('killed', 'is kept if it is killed, and comes to the same name and conversation', async () => {
      const machine = await aMachine(running);
      await machine.run();
      const first = await machine.send('the first');
      await machine.until(first, 'shown');
      const { session } = machine;
      await machine.kill();
      const id = await machine.send('the second');
      await machine.run({ args: machine.prepared.resume(session) });
      await machine.until(id, 'shown');
      expect(machine.session).toBe(session);
      expect([first, id].map((one) => timesIn(machine.model.last, one))).toEqual([1, 1]);
    });

    promise('restarted', 'comes once if it is killed while it has mail that its model was not given', async () => {
      const machine = await aMachine(running);
      const tool = machine.tool();
      machine.model.script(tool.step);
      const window = await machine.run();
      await window.submit('work');
      await tool.begun();
      const id = await machine.send('look at this');
      await machine.prepared.has({ id, text: 'look at this' }, machine);
      const again = await machine.killAndResume();
      await machine.until(id, 'shown');
      await machine.prepared.ready(again);
      await again.submit('go on');
      expect(timesIn(await machine.model.saw('go on'), id)).toBe(1);
    });

    promise('compacted', 'is before its model again after a compaction if it is owed', async () => {
      const machine = await aMachine(running);
      const tool = machine.tool();
      machine.model.script(tool.step, say('done'));
      const window = await machine.run();
      await window.submit('work');
      await tool.begun();
      const id = await machine.send('which port?');
      await machine.prepared.has({ id, text: 'which port?' }, machine);
      await tool.finish();
      await machine.until(id, 'shown');
      await machine.prepared.ready(window);
      await machine.prepared.compact(window, machine.model);
      await window.submit('go on');
      expect(timesIn(await machine.model.saw('go on'), id)).toBe(1);
    });

    promise('answer', 'is answered by what its model says in its window', async () => {
      const machine = await aMachine(running, { steps: [say('It is 8080.')] });
      await machine.run();
      const id = await machine.send('Which port?');
      await within(DEADLINE, async () => (await machine.parley('inbox', '--as', 'me')).includes('It is 8080.'));
      const inbox = await machine.parley('inbox', '--as', 'me', '--json');
      expect([inbox.includes(id), inbox.includes('captured')]).toEqual([true, true]);
    });

    promise('answer', 'is answered, and so is a second one that comes while its model works on the first', async () => {
      const machine = await aMachine(running);
      const tool = machine.tool();
      machine.model.script(tool.step, say('A is fine.'), say('B is fine.'));
      await machine.run();
      await machine.send('A?');
      await tool.begun();
      await machine.send('B meanwhile?');
      await tool.finish();
      const answers = async (): Promise<boolean[]> => {
        const inbox = await machine.parley('inbox', '--as', 'me');
        return ['A is fine.', 'B is fine.'].map((text) => inbox.includes(text));
      };
      await within(DEADLINE, async () => (await answers()).every(Boolean));
    });

    promise('refused', 'is not called shown while the model refuses, and comes once', async () => {
      const machine = await aMachine(running, { steps: Array(3).fill(refuse(running.refusal)) });
      const window = await machine.run();
      const id = await machine.send('it is red');
      await machine.model.saw('it is red');
      await machine.prepared.ready(window);
      expect(await machine.has(id, 'shown')).toBe(false);
      while (machine.model.left > 0) {
        const before = machine.model.main.length;
        await window.submit('go on');
        await machine.model.request(before + 1);
        await machine.prepared.ready(window);
      }
      await window.submit('and now?');
      await machine.until(id, 'shown');
      expect(timesIn(machine.model.last, id)).toBe(1);
    });
  });
}
