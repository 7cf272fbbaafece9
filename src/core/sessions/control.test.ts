// What control promises of prompts, with a scripted client and the real store.
import { afterEach, beforeEach, describe, expect, it } from 'bun:test';
import { quickFolder } from '../../../test/support/quick-home.ts';
import { aRequest, ControlRig } from '../../../test/support/scripted-session.ts';
import { within } from '../../../test/support/within.ts';
import type { PromptEnd } from './control.ts';

let rig: ControlRig;
beforeEach(() => {
  rig = new ControlRig(`${quickFolder()}/ledger.db`);
});
afterEach(() => rig.close());

const echo = (text: string): string => `re: ${text}`;
async function submitted(): Promise<void> {
  await within(10_000, async () => (await rig.store.open())[0]?.state === 'submitted');
}

describe('an ask', () => {
  it('gets the answer to its own prompt, which is stored with the prompt', async () => {
    rig.client().reply = echo;
    const end = await rig.control.ask(aRequest('hello'));
    expect(end).toMatchObject({ outcome: 'answered', reply: { from: 'claude', text: 're: hello' } });
    const [question, answer] = await rig.store.history({ session: 'web', after: 0, limit: 9 });
    expect(question).toMatchObject({ from: 'api', agent: 'ci', text: 'hello' });
    expect(answer).toMatchObject({ from: 'claude', text: 're: hello', reply_to: question?.id ?? 0 });
    expect(end).toMatchObject({ reply: answer ?? {} });
  });

  it('at the same time as another ask is a separate prompt with its own answer [CCC-49, CCC-157]', async () => {
    const ends = ['one', 'two', 'three'].map((text) => rig.control.ask(aRequest(text)));
    for (let n = 1; n <= 3; n += 1) {
      const text = (await rig.typed(n)).at(-1) ?? '';
      await submitted();
      expect(rig.client().typed).toHaveLength(n);
      rig.client().answer(echo(text));
    }
    const texts = (await Promise.all(ends)).map((end) => (end.outcome === 'answered' ? end.reply.text : end.outcome));
    expect(texts).toEqual(['re: one', 're: two', 're: three']);
  });

  it('to each of many sessions gets the answer of that session', async () => {
    for (let n = 0; n < 10; n += 1) rig.add(`s${n}`).reply = (text) => `s${n}: ${text}`;
    const asks = Array.from({ length: 100 }, (_, n) => rig.control.ask(aRequest(`q${n}`, { session: `s${n % 10}` })));
    const texts = (await Promise.all(asks)).map((end) => (end.outcome === 'answered' ? end.reply.text : end.outcome));
    expect(texts).toEqual(Array.from({ length: 100 }, (_, n) => `s${n % 10}: q${n}`));
  });

  it('marks an answer as shared, also in the history, if it also answers a text of a person', async () => {
    const asked = rig.control.ask(aRequest('mine'));
    await rig.typed();
    rig.client().answerBoth('both');
    const shared = { text: 'both', shared: true as const };
    expect(await asked).toMatchObject({ outcome: 'answered', reply: shared });
    rig.client().person('theirs');
    rig.client().answerBoth('both again');
    await within(10_000, async () => (await rig.history()).length === 4);
    const lines = await rig.store.history({ session: 'web', after: 0, limit: 9 });
    expect(lines.map((line) => line.shared ?? false)).toEqual([false, true, false, true]);
  });

  it('whose caller went away still gets its answer into the history [CCC-50]', async () => {
    void rig.control.ask(aRequest());
    await rig.typed();
    rig.client().answer('later');
    await within(10_000, async () => (await rig.history()).length === 2);
    expect(await rig.history()).toEqual(['api: hello', 'claude: later']);
  });

  it('whose turn ends without text has an empty answer, which is stored [CCC-51]', async () => {
    rig.client().reply = () => '';
    expect(await rig.control.ask(aRequest())).toMatchObject({ outcome: 'answered', reply: { text: '' } });
    expect(await rig.history()).toEqual(['api: hello', 'claude: ']);
  });

  it('that was not typed before its deadline is withdrawn and never typed [CCC-172]', async () => {
    rig.client().person('a long turn');
    const end = await rig.control.ask(aRequest('late', { deadline: Date.now() + 20 }));
    expect(end).toEqual({ outcome: 'withdrawn' });
    expect(await rig.history()).toContain('api: late (withdrawn)');
    rig.client().answer('done');
    rig.client().reply = echo;
    await rig.control.ask(aRequest('next'));
    expect(rig.client().typed).toEqual(['next']);
  });

  it('that was typed before its deadline times out for its caller, and its answer is stored when it comes [CCC-45, CCC-172]', async () => {
    // On a busy machine the first may not be typed in time.
    for (const ms of [100, 1000, 10_000]) {
      if ((await rig.control.ask(aRequest('slow', { deadline: Date.now() + ms }))).outcome === 'timeout') break;
    }
    expect(rig.client().typed).toEqual(['slow']);
    rig.client().answer('at last');
    await within(10_000, async () => (await rig.history()).at(-1) === 'claude: at last');
    expect(await rig.store.open()).toEqual([]);
  });

  it('is not held up by history files that cannot be written', async () => {
    rig.client().reply = echo;
    rig.publish = () => Promise.reject(new Error('disk full'));
    expect(await rig.control.ask(aRequest())).toMatchObject({ outcome: 'answered' });
    expect(rig.logged.join()).toContain('disk full');
  });

  it('returns only after its answer was written to the history files [CCC-187]', async () => {
    const seen: string[][] = [];
    rig.publish = async () => void seen.push(await rig.history());
    rig.client().reply = echo;
    await rig.control.ask(aRequest());
    expect(seen.at(-1)).toEqual(['api: hello', 'claude: re: hello']);
  });

  it('to a session that is not configured is refused', () => {
    expect(rig.control.ask(aRequest('x', { session: 'nobody' }))).rejects.toMatchObject({ code: 'not_found' });
  });

  it('keeps the extra fields of its history line', async () => {
    rig.client().reply = echo;
    await rig.control.ask(
      aRequest('x', { from: 'human', agent: '', username: 'me', fields: { type: 'voice', path: '/v' } }),
    );
    expect(await rig.store.history({ session: 'web', after: 0, limit: 1 })).toMatchObject([
      { from: 'human', username: 'me', type: 'voice', path: '/v' },
    ]);
  });
});

describe('a send', () => {
  it('returns when the client has the prompt, with the id of its history line [CCC-53, CCC-59]', async () => {
    const sent = await rig.control.send(aRequest('go'));
    expect(sent).toMatchObject({ outcome: 'sent', status: 'submitted' });
    expect(await rig.store.message('id' in sent ? sent.id : 0)).toMatchObject({ text: 'go', from: 'api' });
  });

  it('to a busy session is queued and typed later, in order [CCC-60]', async () => {
    rig.client().person('a long turn');
    const texts = ['1', '2', '3', '4', '5'];
    for (const text of texts) {
      const sent = await rig.control.send(aRequest(text));
      expect(sent).toMatchObject({ outcome: 'sent', status: 'queued', because: 'the session is busy' });
    }
    expect(rig.client().typed).toEqual([]);
    rig.client().reply = echo;
    rig.client().answer('done');
    expect(await rig.typed(5)).toEqual(texts);
  });

  it('leaves the draft of a person alone, and is typed when the draft is gone [CCC-158]', async () => {
    rig.client().draft = 'half a sent';
    expect(await rig.control.send(aRequest('api'))).toMatchObject({ status: 'queued', because: 'somebody types' });
    expect(await rig.control.queue('web')).toMatchObject([{ text: 'api', state: 'queued', because: 'somebody types' }]);
    expect(rig.client().typed).toEqual([]);
    rig.client().set({ draft: '' });
    expect(await rig.typed()).toEqual(['api']);
  });

  it('waits behind a dialog, and the queue shows the reason [CCC-159]', async () => {
    rig.client().dialog = 'permission prompt';
    const because = 'the session waits for its user: permission prompt';
    expect(await rig.control.send(aRequest())).toMatchObject({ status: 'queued', because });
    expect(await rig.control.queue()).toMatchObject([{ because }]);
    rig.client().set({ dialog: null });
    expect(await rig.typed()).toEqual(['hello']);
  });

  it('to a session whose state cannot be read still returns', async () => {
    rig.limits.closeMs = 10;
    rig.client().stateGate = new Promise(() => {});
    expect(await rig.control.send(aRequest())).toMatchObject({ outcome: 'sent', status: 'queued' });
  });

  it('that the client refuses fails, and the history says so [CCC-189]', async () => {
    rig.client().attempts.push({ outcome: 'refused', because: 'too long' });
    expect(await rig.control.send(aRequest())).toEqual({ outcome: 'failed', because: 'too long' });
    expect(await rig.history()).toEqual(['api: hello (failed)']);
  });

  it('whose text the driver cannot prepare fails and is never typed', async () => {
    expect(await rig.control.send(aRequest('/status'))).toEqual({ outcome: 'failed', because: 'this is a command' });
    expect(rig.client().typed).toEqual([]);
  });

  it('of a raw command that begins no turn says so [CCC-173]', async () => {
    rig.client().attempts.push({ outcome: 'ignored' });
    expect(await rig.control.ask(aRequest('/compact', { raw: true }))).toEqual({
      outcome: 'failed',
      because: 'no turn',
    });
    expect(rig.client().typed).toEqual(['/compact']);
  });

  it('that begins no turn is taken out of the queue of its client before it fails', async () => {
    rig.client().attempts.push({ outcome: 'ignored' });
    expect(await rig.control.ask(aRequest('deploy'))).toEqual({ outcome: 'failed', because: 'no turn' });
    expect(rig.client().takenBack).toEqual(['deploy']);
  });

  it('that the client records only after it failed keeps its answer, and is not recorded as a person’s', async () => {
    rig.client().attempts.push({ outcome: 'unrecorded' });
    expect(await rig.control.ask(aRequest('deploy'))).toEqual({ outcome: 'failed', because: 'no turn' });
    rig.client().recordLate();
    rig.client().answer('deployed');
    await within(10_000, async () => (await rig.history()).length === 2);
    expect(await rig.history()).toEqual(['api: deploy (failed)', 'claude: deployed']);
    const [prompt, reply] = await rig.store.history({ session: 'web', after: 0, limit: 9 });
    expect(reply?.reply_to).toBe(prompt?.id ?? 0);
  });

  it('has its answer in the history, also if a person types meanwhile [CCC-171]', async () => {
    const sent = await rig.control.send(aRequest('question'));
    rig.client().answer('to the question');
    rig.client().person('mine');
    rig.client().answer('to the person');
    await within(10_000, async () => (await rig.history()).length === 4);
    expect(await rig.store.replyTo('id' in sent ? sent.id : 0)).toMatchObject({ text: 'to the question' });
  });
});

describe('a prompt that may have been typed', () => {
  it.each(['unknown', 'throws'] as const)('and was typed is answered and not typed again (%s)', async (outcome) => {
    rig.client().attempts.push({ outcome, wentIn: true });
    const end = rig.control.ask(aRequest());
    await rig.typed();
    await submitted();
    rig.client().answer('once');
    expect(await end).toMatchObject({ outcome: 'answered', reply: { text: 'once' } });
    expect(rig.client().typed).toEqual(['hello']);
  });

  it('and was not typed is typed again when the record stays silent', async () => {
    rig.client().attempts.push({ outcome: 'unknown', wentIn: false });
    rig.client().reply = echo;
    expect(await rig.control.ask(aRequest())).toMatchObject({ outcome: 'answered' });
    expect(rig.client().typed).toEqual(['hello']);
  });

  it('is not typed again while the session is busy, but after that', async () => {
    const meanwhile = (): void => rig.client().person('something else');
    rig.client().attempts.push({ outcome: 'unknown', wentIn: false, meanwhile });
    const end = rig.control.ask(aRequest());
    await within(10_000, async () => rig.client().record.length === 1);
    await Bun.sleep(rig.limits.silenceMs * 3);
    expect(await rig.store.open()).toMatchObject([{ state: 'submitting' }]);
    rig.client().reply = echo;
    rig.client().answer('done');
    expect(await end).toMatchObject({ outcome: 'answered', reply: { text: 're: hello' } });
    expect(rig.client().typed).toEqual(['hello']);
  });

  it('and left the composer is not typed again, however late it is recorded', async () => {
    rig.client().attempts.push({ outcome: 'taken' });
    const asked = rig.control.ask(aRequest('deploy'));
    expect(await asked).toMatchObject({ outcome: 'failed', because: 'the client took it and did not record it' });
    rig.client().recordLate();
    rig.client().answer('deployed');
    await within(10_000, async () => (await rig.history()).length === 2);
    expect(await rig.history()).toEqual(['api: deploy (failed)', 'claude: deployed']);
    expect(rig.client().typed).toEqual(['deploy']);
  });

  it('and stayed in the composer gets the missing Enter', async () => {
    rig.client().attempts.push({ outcome: 'stranded' });
    rig.client().reply = echo;
    expect(await rig.control.ask(aRequest())).toMatchObject({ outcome: 'answered' });
    expect(rig.client().typed).toEqual(['hello']);
  });

  it('and may be in the composer at its deadline fails and is not withdrawn', async () => {
    rig.client().attempts.push({ outcome: 'stranded' });
    const sent = rig.control.send(aRequest('hello', { deadline: Date.now() + 600_000 }));
    await within(10_000, async () => rig.client().draft === 'hello');
    rig.client().set({ draft: 'hello, and more' });
    await sent;
    rig.aheadMs = 600_000;
    rig.client().changed();
    await within(10_000, async () => (await rig.store.open()).length === 0);
    const [line] = await rig.store.history({ session: 'web', after: 0, limit: 9 });
    expect(line).toMatchObject({ status: 'failed', error: expect.stringContaining('may still be in the composer') });
    expect(rig.client()).toMatchObject({ typed: [], draft: 'hello, and more' });
  });

  it('fails if the client never records it', async () => {
    for (let n = 0; n < 5; n += 1) rig.client().attempts.push({ outcome: 'unknown', wentIn: false });
    expect(await rig.control.ask(aRequest())).toMatchObject({ outcome: 'failed' });
    expect(await rig.history()).toEqual(['api: hello (failed)']);
  });
});

describe('a turn', () => {
  async function cut(how: () => unknown): Promise<PromptEnd> {
    const end = rig.control.ask(aRequest());
    await rig.typed();
    await submitted();
    await how();
    return end;
  }

  it('that was interrupted ends the ask, and the history says so [CCC-180]', async () => {
    expect(await cut(() => rig.client().interrupt())).toEqual({ outcome: 'interrupted' });
    expect(await rig.history()).toEqual(['api: hello (interrupted)']);
  });

  it('that failed in the client ends the ask with the words of the client', async () => {
    expect(await cut(() => rig.client().failTurn('no credit'))).toEqual({ outcome: 'failed', because: 'no credit' });
  });

  it('ends when the client ends, and the history says so [CCC-180]', async () => {
    expect(await cut(() => rig.client().die())).toEqual({ outcome: 'stopped' });
    const [line] = await rig.store.history({ session: 'web', after: 0, limit: 9 });
    expect(line).toMatchObject({ text: 'hello', status: 'failed', error: 'session stopped' });
  });

  it('ends as stopped when the client ends, also if the record says that the turn was interrupted', async () => {
    const end = await cut(() => {
      rig.client().record.push({ kind: 'end', turn: 'web turn 1', how: 'interrupted', text: '', at: 0 });
      rig.client().die();
    });
    expect(end).toEqual({ outcome: 'stopped' });
  });

  it('ends when the session is started again [CCC-180]', async () => {
    expect(await cut(() => rig.control.restart('web'))).toEqual({ outcome: 'stopped' });
    expect(rig.client().state().status).toBe('idle');
  });

  it('ends if another process of the client has replaced the one that had the prompt', async () => {
    const end = await cut(() => {
      rig.client().pid += 1;
      rig.client().set({ turn: null });
    });
    expect(end).toEqual({ outcome: 'stopped' });
  });

  it('without a recorded end is over when the session was quiet for long; a late answer is still stored', async () => {
    const { turn, end } = { turn: 'web turn 1', end: cut(() => rig.client().set({ turn: null })) };
    expect(await end).toEqual({ outcome: 'interrupted' });
    rig.client().set({ turn });
    rig.client().answer('late');
    await within(10_000, async () => (await rig.history()).length === 2);
    expect(await rig.history()).toEqual(['api: hello (interrupted)', 'claude: late']);
  });

  it('that ended just before its client is answered', async () => {
    const end = await cut(() => {
      rig.client().record.push({ kind: 'end', turn: 'web turn 1', how: 'done', text: 'just so', at: 0 });
      rig.client().die();
    });
    expect(end).toMatchObject({ outcome: 'answered', reply: { text: 'just so' } });
  });
});

describe('a store that fails for a moment', () => {
  it.each(['begin', 'submitted', 'answer', 'open'] as const)(
    'in %s only delays a prompt, which is still typed once and answered',
    async (name) => {
      rig.client().reply = echo;
      await rig.control.ask(aRequest('before'));
      rig.failing.add(name);
      expect(await rig.control.ask(aRequest('after'))).toMatchObject({
        outcome: 'answered',
        reply: { text: 're: after' },
      });
      expect(rig.client().typed).toEqual(['before', 'after']);
      expect(rig.failing.size).toBe(0);
      expect(await rig.history()).toHaveLength(4);
    },
  );
});

describe('the queue', () => {
  it('lists its prompts, and a prompt can be withdrawn before it is typed', async () => {
    rig.client().person('busy');
    const end = rig.control.ask(aRequest('mine'));
    await within(10_000, async () => (await rig.control.queue('web')).length === 1);
    const [prompt] = await rig.control.queue();
    expect(await rig.control.cancel(prompt?.id ?? 0)).toBe(true);
    expect(await end).toEqual({ outcome: 'withdrawn' });
    expect(await rig.control.cancel(prompt?.id ?? 0)).toBe(false);
    expect(await rig.control.queue()).toEqual([]);
  });

  it('does not withdraw a prompt that was typed', async () => {
    const sent = await rig.control.send(aRequest());
    expect(await rig.control.cancel('id' in sent ? sent.id : 0)).toBe(false);
  });

  it('withdraws a prompt whose deadline has passed, also if no caller waits for it', async () => {
    rig.client().person('busy');
    await rig.control.send(aRequest('x', { deadline: Date.now() + 200 }));
    await within(10_000, async () => (await rig.history()).includes('api: x (withdrawn)'));
    expect(await rig.store.open()).toEqual([]);
  });

  it('keeps no prompt whose session was removed while the prompt was being stored', async () => {
    const { store, targets } = rig;
    const enqueue = store.enqueue.bind(store);
    store.enqueue = async (...args) => {
      rig.targets = [];
      await rig.control.sessions();
      return enqueue(...args);
    };
    expect(await rig.control.ask(aRequest('old'))).toEqual({ outcome: 'stopped' });
    store.enqueue = enqueue;
    rig.targets = targets;
    rig.client().reply = echo;
    await rig.control.ask(aRequest('new'));
    expect(rig.client().typed).toEqual(['new']);
  });

  it('of a removed session is not typed into a later session of the same name', async () => {
    rig.client().person('busy');
    const end = rig.control.ask(aRequest('old'));
    await within(10_000, async () => (await rig.control.queue()).length === 1);
    const { targets } = rig;
    rig.targets = [];
    expect(await end).toEqual({ outcome: 'stopped' });
    rig.targets = targets;
    rig.client().answer('done');
    rig.client().reply = echo;
    await rig.control.ask(aRequest('new'));
    expect(rig.client().typed).toEqual(['new']);
    expect(await rig.history()).toContain('api: old (withdrawn)');
  });
});
