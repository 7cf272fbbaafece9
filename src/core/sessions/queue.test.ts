import { expect, it } from 'bun:test';
import { temporaryHome } from '../../../test/support/home.ts';
import { openHome } from '../../store/home.ts';
import { PromptQueue } from './queue.ts';

it('a long queue is read without its texts, and its prompts are withdrawn at their deadlines [CCC-204]', async () => {
  const store = openHome('parley', temporaryHome(), 'normal', true).journal.sessionStore();
  for (const deadline of [null, 50, 200]) {
    const line = { session: 'web', ts: 1, from: 'api', text: `until ${deadline}` } as const;
    await store.enqueue(line, { key: `${deadline}`, raw: false, at: 1, deadline });
  }
  const texts: string[] = [];
  const counting = Object.assign(Object.create(store) as typeof store, {
    open: async (...page: [string?, number?]) => {
      const open = await store.open(...page);
      texts.push(...open.map(({ text }) => text));
      return open;
    },
  });
  const looks: number[] = [];
  const deps = { store: counting, publish: async () => {}, now: () => 100, tell: () => {} };
  const ended: number[] = [];
  const queue = new PromptQueue(
    'web',
    deps,
    (id) => ended.push(id),
    (ms) => looks.push(ms),
  );
  expect(await queue.open()).toMatchObject([{ text: 'until null', state: 'queued' }]);
  expect(await queue.queued()).toHaveLength(2);
  expect(texts.join('')).toBe('');
  expect([ended.length, looks[0]]).toEqual([1, 100]);
});
