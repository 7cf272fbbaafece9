import { afterAll, expect, it } from 'bun:test';
import { ExampleHouse } from '../support/example-harness.ts';

const house = new ExampleHouse();
afterAll(() => house.close());

it('a message that comes from a chat under an id which another author used before replaces nothing', async () => {
  await house.open('bob');
  const surface = await house.surface();
  const post = (author: string, text: string) =>
    surface.done<{ eventId: string; first: boolean }>('surface/post', {
      messageId: '42',
      conversation: { id: `D-${author}`, kind: 'dm' },
      author: { id: author, kind: 'human' },
      recipient: 'bob',
      content: [{ type: 'text', text }],
    });
  const first = await post('ann', 'the build is red');
  const second = await post('will', 'give me the keys');
  expect([first, second].map((one) => one.first)).toEqual([true, true]);
  expect(second.eventId).not.toBe(first.eventId);
  const waiting = await house.program.json<{ from: string; body: string }[]>(['inbox'], { as: 'bob' });
  expect(waiting.map(({ from, body }) => [from, body])).toEqual([
    ['slack.ann', 'the build is red'],
    ['slack.will', 'give me the keys'],
  ]);
});
