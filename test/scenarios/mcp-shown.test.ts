import { afterAll, beforeAll, describe, expect, it } from 'bun:test';
import { ExampleHouse } from '../support/example-harness.ts';
import type { HostClient } from '../support/host-client.ts';
import { McpClient } from '../support/mcp.ts';

const house = new ExampleHouse();
let surface: HostClient;
let bob: McpClient;
let count = 0;

beforeAll(async () => {
  await house.open('bob', 'carol');
  for (const name of ['bob', 'carol']) await house.program.run(['sub', '#dev'], { as: name });
  surface = await house.surface();
  bob = new McpClient(house.program, ['--as', 'bob', '--face', 'c2a']);
  await bob.initialize();
});
afterAll(async () => {
  await bob.end();
  await house.close();
});

/** Will asks bob something at the chat; its id. */
async function asked(text: string): Promise<string> {
  count += 1;
  const { eventId } = await surface.done<{ eventId: string }>('surface/post', {
    messageId: `m${count}`,
    conversation: { id: 'D1', kind: 'dm' },
    author: { id: 'will', kind: 'human' },
    recipient: 'bob',
    content: [{ type: 'text', text }],
  });
  return eventId;
}

const answering = (eventId: string, text: string): object => ({
  target: '@slack.will',
  inReplyTo: eventId,
  text,
  idempotencyKey: `answer-${eventId}`,
  visibility: 'dm',
  directedness: 'to_me',
});

const nextShow = () => surface.next(({ method }) => method === 'surface/show');

interface Trace {
  copies: { mailbox: string; disposition: string | null }[];
}

async function endOf(eventId: string): Promise<string | null | undefined> {
  const { copies } = await house.program.json<Trace>(['trace', eventId], { as: 'bob' });
  return copies.find(({ mailbox }) => mailbox === 'bob')?.disposition;
}

describe('an answer to somebody at a chat, by a tool of MCP', () => {
  it('is an error with the reason where the chat refuses it for good, and the event has failed by it [C2A-147]', async () => {
    const eventId = await asked('is the lock free?');
    const answer = answering(eventId, 'it is');
    const sending = bob.call('chat_send_message', answer);
    const { id } = await nextShow();
    surface.send({ id, error: { code: 403, message: 'the channel is archived' } });
    const refused = { isError: true, text: expect.stringContaining('the channel is archived') };
    expect(await sending).toEqual(refused);
    expect(await endOf(eventId)).toBe('failed');
    // Under its key it is the same no, and the chat is not asked again.
    expect(await bob.call('chat_send_message', answer)).toEqual(refused);
    expect(surface.all.filter(({ method }) => method === 'surface/show')).toHaveLength(1);
  });

  it('says that it was shown when it was', async () => {
    const eventId = await asked('and the parser?');
    const sending = bob.call('chat_send_message', answering(eventId, 'free as well'));
    surface.ack(await nextShow());
    expect((await sending).text).toEndWith('for @slack.will, and shown there');
    expect(await endOf(eventId)).toBe('responded');
  });

  it('tells of a refusal beside what others have: carol reads it all the same', async () => {
    await surface.done('surface/post', {
      messageId: 'hello',
      conversation: { id: 'dev', kind: 'channel' },
      author: { id: 'will', kind: 'human' },
      content: [{ type: 'text', text: 'good morning' }],
    });
    const said = { target: '#dev', text: 'the deploy is done', visibility: 'channel', directedness: 'ambient' };
    const sending = bob.call('chat_send_message', { ...said, idempotencyKey: 'to all' });
    const { id } = await nextShow();
    surface.send({ id, error: { code: 403, message: 'the channel is archived' } });
    const { text, isError } = await sending;
    expect(isError).toBe(false);
    expect(text).toMatch(/^stored as \w{8} for .*@carol.*; refused at @slack\._surface: .*the channel is archived/);
    expect(text).not.toContain('shown there');
  });

  it('is shown too when the mail tool sent it, which needs only the id and the text', async () => {
    const eventId = await asked('and the docs?');
    const mail = new McpClient(house.program, ['--as', 'bob']);
    await mail.initialize();
    const sending = mail.call('reply', { id: eventId, text: 'written' });
    surface.ack(await nextShow());
    expect((await sending).text).toEndWith('for @slack.will, and shown there');
    expect(await endOf(eventId)).toBe('responded');
    await mail.end();
  });

  it('says that it is not shown yet where the chat is slow or away, ends nothing, and is told later', async () => {
    const eventId = await asked('and the tests?');
    const answer = answering(eventId, 'they pass');
    const sending = bob.call('chat_send_message', answer);
    const show = await nextShow();
    expect((await sending).text).toEndWith('not shown there yet: ask again with the same key');
    expect(await endOf(eventId)).toBeNull();
    surface.ack(show);
    expect((await bob.call('chat_send_message', answer)).text).toEndWith(', and shown there');
    expect(await endOf(eventId)).toBe('responded');
    surface.close();
    const away = bob.call('chat_send_message', { ...answer, inReplyTo: undefined, idempotencyKey: 'k2', text: 'bye' });
    expect((await away).text).toEndWith('not shown there yet: ask again with the same key');
  });
});
