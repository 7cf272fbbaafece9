// Starts, stops, watching, turns of people, and what is left after an end of the program.
import { afterEach, beforeEach, describe, expect, it } from 'bun:test';
import { quickFolder } from '../../../test/support/quick-home.ts';
import { aRequest, aTarget, ControlRig } from '../../../test/support/scripted-session.ts';
import { within } from '../../../test/support/within.ts';

let rig: ControlRig;
beforeEach(() => {
  rig = new ControlRig(`${quickFolder()}/ledger.db`);
});
afterEach(() => rig.close());

const echo = (text: string): string => `re: ${text}`;
const becomes = (session: string, wanted: string[]): Promise<void> =>
  within(10_000, async () => JSON.stringify(await rig.history(session)) === JSON.stringify(wanted));
async function reaches(state: string): Promise<void> {
  await within(10_000, async () => (await rig.store.open())[0]?.state === state);
}

describe('a stopped session', () => {
  it.each(['resumed', 'fresh'] as const)(
    'is started for an ask, which says how it was started: %s [CCC-43, CCC-176]',
    async (started) => {
      const client = rig.client();
      Object.assign(client, { isRunning: false, startsAs: started, reply: echo });
      expect(await rig.control.ask(aRequest())).toMatchObject({ outcome: 'answered', started });
      expect(client.starts).toBe(1);
      expect(await rig.control.ask(aRequest('again'))).not.toHaveProperty('started');
    },
  );

  it('is started for a send, which returns when the client has the prompt', async () => {
    rig.client().die();
    expect(await rig.control.send(aRequest())).toMatchObject({ status: 'submitted', started: 'resumed' });
  });

  it('is started once for all waiting prompts, which are typed in order', async () => {
    const gate = Promise.withResolvers<void>();
    Object.assign(rig.client(), { isRunning: false, startGate: gate.promise, reply: echo });
    const ends = ['a', 'b', 'c'].map((text) => rig.control.ask(aRequest(text)));
    await within(10_000, async () => (await rig.store.open()).length === 3);
    gate.resolve();
    expect(await Promise.all(ends)).toMatchObject(['a', 'b', 'c'].map((text) => ({ reply: { text: echo(text) } })));
    expect(rig.client().starts).toBe(1);
    expect(rig.client().typed).toEqual(['a', 'b', 'c']);
  });

  it('that cannot be started ends every waiting prompt with the reason [CCC-177]', async () => {
    const gate = Promise.withResolvers<void>();
    const because = 'No conversation found';
    Object.assign(rig.client(), { isRunning: false, startGate: gate.promise, startFailure: because });
    const [asked, sent] = [rig.control.ask(aRequest('ask')), rig.control.send(aRequest('send'))];
    await within(10_000, async () => (await rig.store.open()).length === 2);
    gate.resolve();
    expect(await asked).toEqual({ outcome: 'not_started', because });
    expect(await sent).toEqual({ outcome: 'not_started', because });
    expect((await rig.history()).toSorted()).toEqual(['api: ask (failed)', 'api: send (failed)']);
    expect(rig.client().typed).toEqual([]);
  });

  it('is not started again and again if its client ends at once each time', async () => {
    const client = rig.client();
    client.die();
    client.start = async () => {
      client.starts += 1;
      return { started: 'fresh' };
    };
    expect(await rig.control.ask(aRequest())).toMatchObject({ outcome: 'not_started' });
    expect(client.starts).toBe(3);
  });

  it('is not started again after a person stopped it: its waiting prompts are withdrawn', async () => {
    rig.client().person('busy');
    const end = rig.control.ask(aRequest());
    await within(10_000, async () => (await rig.store.open()).length === 1);
    await rig.control.stop('web');
    expect(await end).toEqual({ outcome: 'stopped' });
    expect(rig.client()).toMatchObject({ starts: 0, stops: 1, typed: [] });
  });

  it('that is stopped while it starts for a send ends the send as stopped, not as submitted', async () => {
    const gate = Promise.withResolvers<void>();
    Object.assign(rig.client(), { isRunning: false, startGate: gate.promise });
    const sent = rig.control.send(aRequest());
    await within(10_000, async () => rig.client().starts === 1);
    const stopped = rig.control.stop('web');
    await within(10_000, async () => (await rig.history()).includes('api: hello (withdrawn)'));
    gate.resolve();
    await stopped;
    expect(await sent).toEqual({ outcome: 'stopped' });
    expect(rig.client().typed).toEqual([]);
  });

  it.each(['ends the start', 'comes too early to end the start'])(
    'that is stopped while it starts does not run afterwards (the stop %s)',
    async (how) => {
      const gate = Promise.withResolvers<void>();
      const client = rig.client();
      Object.assign(client, { isRunning: false, startGate: gate.promise, stopEndsStart: how === 'ends the start' });
      const restarted = rig.control.restart('web').catch((error: Error) => error.message);
      await within(10_000, async () => client.starts === 1);
      const stopped = rig.control.stop('web');
      if (!client.stopEndsStart) {
        await within(10_000, async () => client.stops === 2);
        gate.resolve();
      }
      await stopped;
      expect(client.state().status).toBe('stopped');
      expect(await restarted).toEqual(client.stopEndsStart ? 'the client ended' : { started: 'resumed' });
    },
  );
});

describe('a restart', () => {
  it('of five callers at once is one start, and all get its result [CCC-181]', async () => {
    const results = await Promise.all(Array.from({ length: 5 }, () => rig.control.restart('web')));
    expect(results).toEqual(Array.from({ length: 5 }, () => ({ started: 'resumed' })));
    expect(rig.client()).toMatchObject({ starts: 1, stops: 1 });
  });

  it('joins a start that a prompt has begun [CCC-181]', async () => {
    const gate = Promise.withResolvers<void>();
    Object.assign(rig.client(), { isRunning: false, startGate: gate.promise, reply: echo });
    const end = rig.control.ask(aRequest());
    await within(10_000, async () => rig.client().starts === 1);
    const again = rig.control.restart('web');
    gate.resolve();
    expect(await again).toEqual({ started: 'resumed' });
    expect(await end).toMatchObject({ outcome: 'answered' });
    expect(rig.client()).toMatchObject({ starts: 1, stops: 0 });
  });

  it('that fails throws the reason', () => {
    rig.client().startFailure = 'exit 1';
    expect(rig.control.restart('web')).rejects.toMatchObject({ message: 'exit 1' });
  });

  it('keeps the queued prompts', async () => {
    rig.client().person('busy');
    const end = rig.control.ask(aRequest());
    await within(10_000, async () => (await rig.store.open()).length === 1);
    rig.client().reply = echo;
    await rig.control.restart('web');
    expect(await end).toMatchObject({ outcome: 'answered' });
  });

  it('gives the driver the conversation that the session had, one for each of two in one folder [CCC-178]', async () => {
    rig.add('api').conversation = 'conversation-2';
    for (const session of ['web', 'api']) {
      await rig.control.send(aRequest('x', { session }));
      await rig.control.restart(session);
    }
    const bound = new Map(rig.drivers.map(({ target }) => [target.name, target.conversation]));
    expect([...bound]).toEqual([
      ['web', 'conversation-1'],
      ['api', 'conversation-2'],
    ]);
    await rig.reopen();
    await rig.control.sessions();
    await within(10_000, async () => rig.drivers.at(-1)?.target.conversation === 'conversation-2');
  });
});

describe('what a person types', () => {
  it('becomes history with its answer [CCC-34, CCC-83]', async () => {
    await rig.control.send(aRequest('first'));
    rig.client().answer('one');
    rig.client().person('mine');
    rig.client().answer('yours');
    await becomes('web', ['api: first', 'claude: one', 'human: mine', 'claude: yours']);
    const [, , typed, answer] = await rig.store.history({ session: 'web', after: 0, limit: 9 });
    expect(typed).toMatchObject({ username: 'terminal' });
    expect(answer).toMatchObject({ reply_to: typed?.id ?? 0 });
  });

  it('does not become history if the settings switch that off', async () => {
    rig.recordsTerminal = false;
    await rig.control.send(aRequest('first'));
    rig.client().answer('one');
    rig.client().person('mine');
    rig.client().answer('yours');
    await becomes('web', ['api: first', 'claude: one']);
    rig.client().reply = echo;
    await rig.control.ask(aRequest('second'));
    expect(await rig.history()).toEqual(['api: first', 'claude: one', 'api: second', 'claude: re: second']);
  });

  it('is recorded once after a restart, also if it was typed while no control ran', async () => {
    await rig.control.sessions();
    await within(10_000, async () => (await rig.store.binding('web')) !== null);
    rig.client().person('one');
    rig.client().answer('1');
    await becomes('web', ['human: one', 'claude: 1']);
    await rig.reopen();
    rig.client().person('two');
    await becomes('web', ['human: one', 'claude: 1', 'human: two']);
    await rig.control.close();
    rig.client().answer('2');
    rig.client().person('three');
    rig.client().answer('3');
    await rig.reopen();
    const all = ['human: one', 'claude: 1', 'human: two', 'claude: 2', 'human: three', 'claude: 3'];
    await becomes('web', all);
    rig.client().reply = echo;
    await rig.control.ask(aRequest('ours'));
    await rig.reopen();
    await rig.control.ask(aRequest('more'));
    expect(await rig.history()).toEqual([...all, 'api: ours', 'claude: re: ours', 'api: more', 'claude: re: more']);
  });

  it('is not recorded if it was typed before control first saw the session', async () => {
    rig.client().person('old');
    rig.client().answer('older');
    rig.client().reply = echo;
    await rig.control.ask(aRequest());
    expect(await rig.history()).toEqual(['api: hello', 'claude: re: hello']);
  });
});

describe('a watcher', () => {
  it('gets the first state at once, and after that only changes [CCC-117, CCC-119]', async () => {
    const seen: string[] = [];
    const stop = rig.control.watch([], (session, state) => seen.push(`${session} ${state?.status}`));
    await within(10_000, async () => seen.length === 1);
    for (let n = 0; n < 5; n += 1) rig.client().changed();
    rig.client().person('x');
    await within(10_000, async () => seen.length === 2);
    rig.client().set({ dialog: 'input needed' });
    await within(10_000, async () => seen.length === 3);
    rig.client().die();
    await within(10_000, async () => seen.length === 4);
    expect(seen).toEqual(['web idle', 'web active', 'web waiting', 'web stopped']);
    stop();
    await rig.control.restart('web');
    expect(seen).toHaveLength(4);
  });

  it('is told of a turn that began and ended between two looks [CCC-119]', async () => {
    const seen: string[] = [];
    rig.control.watch([], (_session, state) => seen.push(`${state?.status}`));
    await within(10_000, async () => seen.length === 1);
    rig.client().person('x');
    rig.client().answer('y');
    await within(10_000, async () => seen.length === 3);
    expect(seen).toEqual(['idle', 'active', 'idle']);
  });

  it('that is added later also gets the first state', async () => {
    await rig.control.send(aRequest());
    const seen: string[] = [];
    rig.control.watch(['web'], (_session, state) => seen.push(`${state?.status}`));
    await within(10_000, async () => seen.length > 0);
    expect(seen[0]).toBe('active');
  });

  it('is told of sessions that are added later and of removed ones [CCC-18, CCC-118]', async () => {
    const seen: string[] = [];
    rig.control.watch(['api'], (session, state) => seen.push(`${session} ${state?.status ?? 'is not there'}`));
    await within(10_000, async () => seen.length === 1);
    rig.add('api');
    await within(10_000, async () => seen.length === 2);
    rig.targets = rig.targets.filter(({ name }) => name !== 'api');
    await within(10_000, async () => seen.length === 3);
    expect(seen).toEqual(['api is not there', 'api idle', 'api is not there']);
  });

  it('that throws does not disturb the others', async () => {
    rig.control.watch([], () => {
      throw new Error('no');
    });
    rig.client().reply = echo;
    expect(await rig.control.ask(aRequest())).toMatchObject({ outcome: 'answered' });
  });
});

describe('the sessions', () => {
  it('are listed as configured, each with its state', async () => {
    rig.add('api').die();
    expect(await rig.control.sessions()).toMatchObject([
      { name: 'web', folder: '/project', state: { status: 'idle' } },
      { name: 'api', state: { status: 'stopped' } },
    ]);
    expect(await rig.control.screen('web', 5)).toBe('5 lines of web');
  });

  it('that do not answer are listed as stopped, and do not delay the others [CCC-35]', async () => {
    rig.limits.closeMs = 10;
    rig.add('far').stateGate = new Promise(() => {});
    expect(await rig.control.sessions()).toMatchObject([
      { state: { status: 'idle' } },
      { state: { status: 'stopped' } },
    ]);
    rig.client().reply = echo;
    expect(await rig.control.ask(aRequest())).toMatchObject({ outcome: 'answered' });
  });

  it('that are idle cost nothing: fifty of them are read only when something happens', async () => {
    for (let n = 0; n < 50; n += 1) rig.add(`s${n}`);
    await rig.control.sessions();
    const looks = (): number => [...rig.clients.values()].reduce((sum, { looks }) => sum + looks, 0);
    await within(10_000, async () => [...rig.clients.values()].every((client) => client.looks >= 2));
    // On a busy machine it may take a while until all of them were read once.
    await within(10_000, async () => {
      const before = looks();
      await Bun.sleep(300);
      return looks() === before;
    });
  });

  it('answer while the worker of a removed session is still closing', async () => {
    rig.limits.closeMs = 600_000;
    const gate = Promise.withResolvers<void>();
    rig.client().submitGate = gate.promise;
    rig.add('api').reply = echo;
    const asked = rig.control.ask(aRequest());
    await reaches('submitting');
    rig.targets = rig.targets.filter(({ name }) => name !== 'web');
    expect(await rig.control.ask(aRequest('other', { session: 'api' }))).toMatchObject({ outcome: 'answered' });
    gate.resolve();
    expect(await asked).toEqual({ outcome: 'stopped' });
  });

  it('get a new driver when their settings have changed', async () => {
    await rig.control.send(aRequest());
    rig.client().answer('x');
    rig.targets = [aTarget('web', { command: ['claude', '--verbose'] })];
    await within(10_000, async () => rig.drivers.at(-1)?.target.command.length === 2);
    await within(10_000, async () => rig.drivers.filter(({ isClosed }) => !isClosed).length === 1);
    expect(rig.client().watchers).toBe(1);
    expect(rig.overlaps).toBe(0);
  });

  it('are still followed while their settings cannot be read', async () => {
    rig.client().person('busy');
    const end = rig.control.ask(aRequest());
    await within(10_000, async () => (await rig.store.open()).length === 1);
    const { targets } = rig;
    Object.defineProperty(rig, 'targets', {
      configurable: true,
      get: () => {
        throw new Error('half written');
      },
    });
    await within(10_000, async () => rig.logged.join().includes('half written'));
    Object.defineProperty(rig, 'targets', { configurable: true, writable: true, value: targets });
    rig.client().reply = echo;
    rig.client().answer('done');
    expect(await end).toMatchObject({ outcome: 'answered' });
  });
});

describe('when control closes', () => {
  it('waiting asks end as closed, and the next control stores their answers [CCC-200]', async () => {
    const end = rig.control.ask(aRequest());
    await reaches('submitted');
    await rig.control.close();
    const [line] = await rig.store.history({ session: 'web', after: 0, limit: 1 });
    expect(await end).toEqual({ outcome: 'closed', id: line?.id ?? 0 });
    rig.client().answer('meanwhile');
    await rig.reopen();
    await becomes('web', ['api: hello', 'claude: meanwhile']);
    expect(rig.client().typed).toEqual(['hello']);
  });

  it('nothing more is typed, and the next control types the queued prompts', async () => {
    rig.client().person('busy');
    const sent = await rig.control.send(aRequest('waits'));
    expect(sent).toMatchObject({ status: 'queued' });
    await rig.control.close();
    rig.client().reply = echo;
    rig.client().answer('done');
    expect(rig.client().typed).toEqual([]);
    await rig.reopen();
    await rig.typed();
    await within(10_000, async () => (await rig.store.open()).length === 0);
    expect(await rig.history()).toContain('claude: re: waits');
  });

  it('it can be closed twice, and takes no more prompts', async () => {
    await rig.control.sessions();
    const { control } = rig;
    await control.close();
    await control.close();
    expect(control.ask(aRequest())).rejects.toMatchObject({ code: 'unreachable' });
    expect(rig.client().watchers).toBe(0);
  });
});

describe('after a crash', () => {
  it('before anything was typed the prompt is typed once', async () => {
    rig.client().person('busy');
    const { control, crash } = rig.openMortal();
    void control.ask(aRequest());
    await reaches('queued');
    crash();
    rig.client().reply = echo;
    rig.client().answer('done');
    await rig.reopen();
    await becomes('web', ['api: hello', 'claude: re: hello']);
    expect(rig.client().typed).toEqual(['hello']);
  });

  it('just before the prompt was typed a silent record decides, and the prompt is typed once', async () => {
    const gate = Promise.withResolvers<void>();
    rig.client().submitGate = gate.promise;
    const { control, crash } = rig.openMortal();
    void control.ask(aRequest());
    await reaches('submitting');
    crash();
    gate.resolve();
    rig.client().reply = echo;
    await rig.reopen();
    await becomes('web', ['api: hello', 'claude: re: hello']);
    expect(rig.client().typed).toEqual(['hello']);
  });

  it.each(['before', 'after'])(
    'after a prompt was typed, and %s it was recorded, the prompt is not typed again',
    async (when) => {
      rig.client().attempts.push({ outcome: when === 'before' ? 'unrecorded' : 'submitted' });
      const { control, crash } = rig.openMortal();
      void control.ask(aRequest());
      await rig.typed();
      crash();
      rig.client().recordLate();
      await rig.reopen();
      await reaches('submitted');
      rig.client().answer('once');
      await becomes('web', ['api: hello', 'claude: once']);
      expect(rig.client().typed).toEqual(['hello']);
    },
  );

  it('during a turn that ended meanwhile the end of the turn is found', async () => {
    const { control, crash } = rig.openMortal();
    void control.ask(aRequest());
    await reaches('submitted');
    crash();
    rig.client().answer('while nobody looked');
    rig.client().person('and on');
    rig.client().answer('they went');
    await rig.reopen();
    await becomes('web', ['api: hello', 'claude: while nobody looked', 'human: and on', 'claude: they went']);
  });

  it('that also ended the client the prompt has failed', async () => {
    const { control, crash } = rig.openMortal();
    void control.ask(aRequest());
    await reaches('submitted');
    crash();
    rig.client().die();
    await rig.reopen();
    await becomes('web', ['api: hello (failed)']);
    expect(rig.client().starts).toBe(0);
  });

  it('a prompt whose deadline has passed is withdrawn', async () => {
    const line = { session: 'web', ts: 1, from: 'api', text: 'late' } as const;
    await rig.store.enqueue(line, { key: 'k', raw: false, at: 1, deadline: Date.now() - 1 });
    await rig.control.sessions();
    await becomes('web', ['api: late (withdrawn)']);
    expect(rig.client().typed).toEqual([]);
  });

  it('a prompt of a session that is not configured any more is withdrawn', async () => {
    rig.client().person('busy');
    const { control, crash } = rig.openMortal();
    void control.send(aRequest());
    await reaches('queued');
    crash();
    rig.targets = [];
    await rig.reopen();
    await becomes('web', ['api: hello (withdrawn)']);
  });
});

describe('a session whose host does not answer', () => {
  const because = 'host unreachable: nobody is there';

  it('refuses a prompt with the reason, types nothing, and notes it in the history [CCC-201]', async () => {
    rig.client().hostTrouble = because;
    expect(await rig.control.ask(aRequest('ask'))).toEqual({ outcome: 'unreachable', because });
    expect(await rig.control.send(aRequest('send'))).toEqual({ outcome: 'unreachable', because });
    expect(await rig.history()).toEqual(['api: ask (failed)', 'api: send (failed)']);
    expect([rig.client().typed, rig.client().starts]).toEqual([[], 0]);
  });

  it('is listed and watched as stopped until its host answers again', async () => {
    const seen: string[] = [];
    rig.control.watch(['web'], (_session, state) => void seen.push(state?.status ?? 'none'));
    await within(10_000, async () => seen.at(-1) === 'idle');
    rig.client().hostTrouble = because;
    rig.client().changed();
    await within(10_000, async () => seen.at(-1) === 'stopped');
    expect(await rig.control.sessions()).toMatchObject([{ state: { status: 'stopped' } }]);
    rig.client().hostTrouble = null;
    await within(10_000, async () => seen.at(-1) === 'idle');
  });

  it('keeps a prompt that the client has, and its answer is found later', async () => {
    const asked = rig.control.ask(aRequest());
    await reaches('submitted');
    rig.client().hostTrouble = because;
    rig.client().answer('re: hello');
    await within(10_000, async () => rig.logged.some((line) => line.includes('session_trouble')));
    rig.client().hostTrouble = null;
    expect(await asked).toMatchObject({ outcome: 'answered', reply: { text: 're: hello' } });
    expect(rig.client().typed).toEqual(['hello']);
  });
});
