import { afterEach, beforeEach, describe, expect, it } from 'bun:test';
import { MOST_OPEN } from '../core/ports/session-store.ts';
import type { NewSessionMessage, SessionMessage, SessionStore, StoredPrompt } from '../core/ports/session-store.ts';

const ALL = { session: 'web', after: 0, limit: 1000 };

function aLine(fields: Partial<NewSessionMessage> = {}): NewSessionMessage {
  return { session: 'web', ts: 1000, from: 'human', text: 'hello', ...fields };
}

/** The promises of every session store. Each sentence of core/ports/session-store.ts is a test here. */
export function sessionStoreContract(
  name: string,
  openStore: () => Promise<{ store: SessionStore; close(): Promise<void> }>,
): void {
  describe(`the ${name} session store`, () => {
    let here: Awaited<ReturnType<typeof openStore>>;
    let store: SessionStore;
    beforeEach(async () => {
      here = await openStore();
      ({ store } = here);
    });
    afterEach(() => here.close());

    const ask = (text = 'hello', fields: Partial<NewSessionMessage> = {}): Promise<StoredPrompt> =>
      store.enqueue(aLine({ from: 'api', agent: 'ci', text, ...fields }), {
        key: `key of ${text}`,
        raw: false,
        at: 5,
        deadline: null,
      });
    const reply = (text = 'hi'): NewSessionMessage => aLine({ from: 'claude', text });
    async function begun(text?: string): Promise<StoredPrompt> {
      const prompt = await ask(text);
      await store.begin(prompt.id, 'place');
      return prompt;
    }
    const stateOf = async (id: number): Promise<string | undefined> => (await store.prompt(id))?.state;
    const textsOf = (lines: SessionMessage[]): string[] => lines.map(({ text }) => text);

    it('stores a prompt with its line in the history, as it was sent', async () => {
      const message = aLine({ from: 'api', agent: 'ci', text: 'é漢🙂\n\ttab\\' });
      const prompt = await store.enqueue(message, { key: 'k', raw: true, at: 5, deadline: 9 });
      const { id } = prompt;
      const ends = { place: null, turn: null, because: null };
      expect(prompt).toEqual({
        id,
        session: 'web',
        key: 'k',
        text: message.text,
        raw: true,
        state: 'queued',
        at: 5,
        deadline: 9,
        ...ends,
      });
      expect(await store.prompt(id)).toEqual(prompt);
      expect(await store.message(id)).toEqual({ id, ...message });
    });

    it('stores no line in the history for a prompt that it refuses', async () => {
      const key = null as unknown as string;
      await expect(store.enqueue(aLine(), { key, raw: false, at: 5, deadline: null })).rejects.toThrow();
      expect(await store.history(ALL)).toEqual([]);
    });

    it('keeps every field of a line, unknown ones included', async () => {
      const media = {
        type: 'voice',
        transcription: 'a',
        caption: 'b',
        path: '/c',
        username: 'me',
        document: { x: [1] },
      };
      const line = await store.record(aLine(media as Partial<NewSessionMessage>));
      expect(line).toEqual({ id: line.id, ...aLine(media as Partial<NewSessionMessage>) });
      expect(await store.message(line.id)).toEqual(line);
    });

    it('gives increasing ids across all sessions, prompts and lines [CCC-54]', async () => {
      const ids = [
        (await ask()).id,
        (await store.record(aLine({ session: 'api' }))).id,
        (await ask('x', { session: 'api' })).id,
      ];
      expect(ids).toEqual(ids.toSorted((a, b) => a - b));
      expect(new Set(ids).size).toBe(3);
      expect(ids[0]).toBeGreaterThan(0);
    });

    it('stores one question and one answer per turn, however often they are recorded', async () => {
      const first = await store.record(aLine({ text: 'typed' }), 'turn 1');
      expect(await store.record(aLine({ text: 'typed' }), 'turn 1')).toEqual(first);
      const answer = await store.record(aLine({ from: 'claude', reply_to: first.id }), 'turn 1');
      expect(await store.record(aLine({ session: 'other' }), 'turn 1')).not.toMatchObject({ id: first.id });
      await store.record(aLine({ text: 'more' }), 'turn 2');
      expect((await store.history(ALL)).map(({ id }) => id)).toHaveLength(3);
      expect(await store.replyTo(first.id)).toEqual(answer);
    });

    it('does not record one of our own prompts, or its answer, as typed by a person', async () => {
      const { id } = await begun();
      await store.submitted(id, 'turn 1');
      const answer = await store.answer(id, reply());
      expect(await store.record(aLine(), 'turn 1')).toMatchObject({ id, from: 'api' });
      expect(await store.record(reply(), 'turn 1')).toEqual(answer);
      expect(await store.history(ALL)).toHaveLength(2);
    });

    it('records the same text each time if it has no turn', async () => {
      await store.record(aLine());
      await store.record(aLine());
      expect(await store.history(ALL)).toHaveLength(2);
    });

    it('lists the open prompts, oldest first, of one session or of all', async () => {
      const [a, b, c, d] = [await ask('a'), await ask('b', { session: 'api' }), await begun('c'), await begun('d')];
      await store.submitted(d.id, 'turn');
      const [failed, withdrawn, answered] = [await ask('e'), await ask('f'), await begun('g')];
      await store.end(failed.id, 'failed', 'x');
      await store.end(withdrawn.id, 'withdrawn', 'x');
      await store.answer(answered.id, reply());
      expect((await store.open()).map(({ id }) => id)).toEqual([a.id, b.id, c.id, d.id]);
      expect((await store.open('web')).map(({ state }) => state)).toEqual(['queued', 'submitting', 'submitted']);
      expect(await store.open('nobody')).toEqual([]);
    });

    it('lists open prompts with as much of their texts as is asked for', async () => {
      await ask('a🙂漢');
      await ask('b', { session: 'api' });
      const texts = async (...page: [string?, number?]): Promise<string[]> =>
        (await store.open(...page)).map(({ text }) => text);
      expect(await texts('web', 2)).toEqual(['a🙂']);
      expect(await texts('web', 0)).toEqual(['']);
      expect(await texts(undefined, 9)).toEqual(['a🙂漢', 'b']);
      expect(await texts('web')).toEqual(['a🙂漢']);
    });

    it('refuses a prompt for a session that has very many open ones [CCC-204]', async () => {
      const { id } = await ask('first');
      for (let count = 1; count < MOST_OPEN; count++) await ask('more');
      await expect(ask('one too many')).rejects.toThrow('1000 prompts wait for this session');
      expect(await store.history({ session: 'web', limit: 1 })).toMatchObject([{ text: 'more' }]);
      await ask('to another', { session: 'api' });
      await store.end(id, 'withdrawn', 'x');
      expect(await ask('now')).toMatchObject({ state: 'queued' });
    });

    it('reads no further lines when their texts exceed a number of bytes [CCC-204]', async () => {
      for (const text of ['a', 'bé', 'c', 'd']) await store.record(aLine({ text }));
      const page = async (more: Partial<typeof ALL> & { bytes: number }): Promise<string[]> =>
        textsOf(await store.history({ ...ALL, ...more }));
      expect(await page({ bytes: 3 })).toEqual(['a', 'bé']);
      expect(await page({ bytes: 4 })).toEqual(['a', 'bé', 'c']);
      expect(await page({ bytes: 0, after: 2 })).toEqual(['c']);
      expect(textsOf(await store.history({ session: 'web', limit: 9, bytes: 1 }))).toEqual(['c', 'd']);
      await store.record(aLine({ text: 'e' }));
      expect(await page({ bytes: 99 })).toEqual(['a', 'bé', 'c', 'd', 'e']);
    });

    it('returns null for an unknown id', async () => {
      expect(await store.prompt(99)).toBeNull();
      expect(await store.message(99)).toBeNull();
      expect(await store.replyTo(99)).toBeNull();
      expect(await store.end(99, 'failed', 'x')).toBe(false);
      expect(await store.begin(99, 'place')).toBe(false);
    });

    describe('a prompt', () => {
      it('is begun once, with the position in the client’s record', async () => {
        const { id } = await ask();
        const begins = await Promise.all(Array.from({ length: 20 }, () => store.begin(id, 'place 7')));
        expect(begins.filter(Boolean)).toHaveLength(1);
        expect(await store.prompt(id)).toMatchObject({ state: 'submitting', place: 'place 7' });
      });

      it('that was withdrawn is not begun', async () => {
        const { id } = await ask();
        expect(await store.end(id, 'withdrawn', 'too late')).toBe(true);
        expect(await store.begin(id, 'place')).toBe(false);
      });

      it('is requeued with the reason, and loses the reason when it is begun again', async () => {
        const { id } = await begun();
        await store.requeue(id, 'a dialog is open');
        expect(await store.prompt(id)).toMatchObject({ state: 'queued', place: null, because: 'a dialog is open' });
        await store.begin(id, 'place');
        expect((await store.prompt(id))?.because).toBeNull();
      });

      it('is requeued only while it is submitting', async () => {
        const { id } = await begun();
        await store.submitted(id, 'turn');
        await store.requeue(id, 'x');
        expect(await stateOf(id)).toBe('submitted');
      });

      it('keeps its position when it is submitted, and gets its turn then or later', async () => {
        const { id } = await begun();
        await store.submitted(id, null);
        expect(await store.prompt(id)).toMatchObject({ state: 'submitted', place: 'place', turn: null });
        await store.submitted(id, 'turn 5');
        await store.submitted(id, null);
        expect(await store.prompt(id)).toMatchObject({ state: 'submitted', turn: 'turn 5' });
      });

      it('that has ended is not submitted', async () => {
        const { id } = await begun();
        await store.end(id, 'failed', 'x');
        await store.submitted(id, 'turn');
        expect(await stateOf(id)).toBe('failed');
      });

      it('ends with its answer, which names the prompt [CCC-171]', async () => {
        const { id } = await begun();
        const answer = await store.answer(id, reply('the answer'));
        expect(answer).toEqual({ id: answer.id, ...reply('the answer'), reply_to: id });
        expect(await stateOf(id)).toBe('answered');
        expect(await store.replyTo(id)).toEqual(answer);
        expect(answer.id).toBeGreaterThan(id);
      });

      it('has one answer', async () => {
        const { id } = await begun();
        const first = await store.answer(id, reply('one'));
        expect(await store.answer(id, reply('two'))).toEqual(first);
        expect(textsOf(await store.history(ALL))).toEqual(['hello', 'one']);
      });

      it('has an empty answer, if its answer is empty', async () => {
        const { id } = await begun();
        await store.answer(id, reply(''));
        expect(await store.replyTo(id)).toMatchObject({ text: '' });
      });

      it('that failed is marked in the history, with the reason [CCC-160, CCC-189]', async () => {
        const { id } = await begun();
        expect(await store.end(id, 'failed', 'the client is gone')).toBe(true);
        expect(await store.message(id)).toMatchObject({
          text: 'hello',
          status: 'failed',
          error: 'the client is gone',
          agent: 'ci',
        });
        expect(await store.prompt(id)).toMatchObject({ state: 'failed', because: 'the client is gone' });
      });

      it('that was cut off is marked in the history', async () => {
        const { id } = await begun();
        await store.end(id, 'failed', 'interrupted', 'interrupted');
        expect(await store.message(id)).toMatchObject({ status: 'interrupted', error: 'interrupted' });
      });

      it('is withdrawn only before it may have been typed [CCC-172]', async () => {
        const [queued, typing, typed] = [await ask(), await begun(), await begun()];
        await store.submitted(typed.id, 'turn');
        expect(await store.end(queued.id, 'withdrawn', 'x')).toBe(true);
        expect(await store.end(typing.id, 'withdrawn', 'x')).toBe(false);
        expect(await store.end(typed.id, 'withdrawn', 'x')).toBe(false);
        expect(await store.message(queued.id)).toMatchObject({ status: 'withdrawn' });
        expect((await store.message(typing.id))?.status).toBeUndefined();
      });

      it('ends once', async () => {
        const { id } = await ask();
        expect(await store.end(id, 'withdrawn', 'first')).toBe(true);
        expect(await store.end(id, 'failed', 'second')).toBe(false);
        expect(await store.message(id)).toMatchObject({ status: 'withdrawn', error: 'first' });
      });
    });

    describe('history', () => {
      it('can be paged forward, line by line, oldest first [CCC-74, CCC-86]', async () => {
        for (let n = 0; n < 7; n += 1) await store.record(aLine({ text: `${n}` }));
        const walked: string[] = [];
        let after = 0;
        for (;;) {
          const [line] = await store.history({ session: 'web', after, limit: 1 });
          if (!line) break;
          walked.push(line.text);
          after = line.id;
        }
        expect(walked).toEqual(['0', '1', '2', '3', '4', '5', '6']);
      });

      it('returns the newest lines, oldest first, if no start is given [CCC-74]', async () => {
        for (let n = 0; n < 7; n += 1) await store.record(aLine({ text: `${n}` }));
        expect(textsOf(await store.history({ session: 'web', limit: 3 }))).toEqual(['4', '5', '6']);
        expect(textsOf(await store.history({ session: 'web', after: 0, limit: 3 }))).toEqual(['0', '1', '2']);
      });

      it('returns only ids greater than the one given', async () => {
        const lines = [await store.record(aLine()), await store.record(aLine())];
        const after = lines[0]?.id ?? 0;
        expect(await store.history({ session: 'web', after, limit: 9 })).toEqual(lines.slice(1));
      });

      it('filters by sender before it applies the limit [CCC-76]', async () => {
        for (let n = 0; n < 5; n += 1) {
          await store.record(aLine({ text: `q${n}` }));
          await store.record(reply(`a${n}`));
        }
        expect(textsOf(await store.history({ ...ALL, limit: 2, from: 'claude' }))).toEqual(['a0', 'a1']);
        expect(textsOf(await store.history({ session: 'web', limit: 2, from: 'claude' }))).toEqual(['a3', 'a4']);
        expect(await store.history({ ...ALL, from: 'api' })).toEqual([]);
      });

      it('of one session has no line of another', async () => {
        await store.record(aLine({ session: 'api' }));
        expect(await store.history(ALL)).toEqual([]);
        expect(await store.last('web')).toBeNull();
      });

      it('ends with the last line', async () => {
        await store.record(aLine());
        const newest = await store.record(aLine({ text: 'newest' }));
        await store.record(aLine({ session: 'api' }));
        expect(await store.last('web')).toEqual(newest);
      });

      it('finds the reply to a message, whatever lines are between [CCC-171]', async () => {
        const { id } = await begun();
        const typed = await store.record(aLine({ text: 'a person' }), 't');
        await store.record(aLine({ from: 'claude', text: 'to the person', reply_to: typed.id }), 't');
        const answer = await store.answer(id, reply());
        expect(await store.replyTo(id)).toEqual(answer);
        expect(await store.replyTo(typed.id)).toMatchObject({ text: 'to the person' });
      });
    });

    it('keeps the last binding of a session', async () => {
      expect(await store.binding('web')).toBeNull();
      await store.bind('web', { conversation: null, place: 'a' });
      await store.bind('web', { conversation: 'c', place: 'b' });
      await store.bind('api', { conversation: 'd', place: null });
      expect(await store.binding('web')).toEqual({ conversation: 'c', place: 'b' });
      expect(await store.binding('api')).toEqual({ conversation: 'd', place: null });
    });

    it('keeps the last choices in a dialog until they are cleared', async () => {
      expect(await store.choices('web')).toBeNull();
      await store.keepChoices('web', { call: 'a', choices: [{ options: [1] }, null] });
      await store.keepChoices('web', { call: 'b', choices: [null, { options: [0, 2] }, { text: '"no"' }] });
      await store.keepChoices('api', { call: 'c', choices: [null] });
      expect(await store.choices('web')).toEqual({ call: 'b', choices: [null, { options: [0, 2] }, { text: '"no"' }] });
      await store.keepChoices('web', null);
      expect([await store.choices('web'), (await store.choices('api'))?.call]).toEqual([null, 'c']);
    });

    describe('the lines for the history files', () => {
      it('are all lines that were not exported, in order', async () => {
        const [first, { id }] = [await store.record(aLine()), await begun()];
        const answer = await store.answer(id, reply());
        expect((await store.unexported(9)).map((line) => line.id)).toEqual([first.id, id, answer.id]);
        expect(await store.unexported(1)).toEqual([first]);
        await store.exported([first]);
        expect((await store.unexported(9)).map((line) => line.id)).toEqual([id, answer.id]);
      });

      it('include a line again after it changed', async () => {
        const { id } = await ask();
        await store.exported(await store.unexported(9));
        await store.end(id, 'failed', 'x');
        expect(await store.unexported(9)).toMatchObject([{ id, status: 'failed' }]);
      });

      it('still include a line that changed during the export', async () => {
        const { id } = await ask();
        const read = await store.unexported(9);
        await store.end(id, 'failed', 'x');
        await store.exported(read);
        expect(await store.unexported(9)).toMatchObject([{ id, status: 'failed' }]);
        await store.exported(await store.unexported(9));
        expect(await store.unexported(9)).toEqual([]);
      });
    });

    it('gives ids above those of an earlier ccc, and remembers the last of those', async () => {
      expect(await store.lastEarlierId()).toBeNull();
      await store.raiseIds(500);
      expect((await ask()).id).toBe(501);
      expect((await store.record(aLine())).id).toBe(502);
      await store.raiseIds(100);
      expect(await store.lastEarlierId()).toBe(500);
      expect((await ask()).id).toBe(503);
    });

    it('returns null if there was no earlier ccc', async () => {
      await store.raiseIds(0);
      expect(await store.lastEarlierId()).toBe(0);
      expect((await ask()).id).toBe(1);
    });
  });
}
