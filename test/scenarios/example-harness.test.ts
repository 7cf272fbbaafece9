import { afterEach, beforeEach, describe, expect, it } from 'bun:test';
import { mkdirSync, rmSync } from 'node:fs';
import { Connection, Unanswered } from '../../examples/harness/connection.ts';
import { until } from '../support/bch.ts';
import { ExampleHouse } from '../support/example-harness.ts';
import { EVERYTHING } from '../support/host-server.ts';

let house = new ExampleHouse();
beforeEach(() => (house = new ExampleHouse()));
afterEach(() => house.close());

const send = (to: string, body: string, ...more: string[]) =>
  house.program.json<{ id: string }>(['send', to, body, ...more], { as: 'alice' });

async function inbox(agent: string): Promise<string[]> {
  const mail = await house.program.json<{ body: string }[]>(['inbox'], { as: agent });
  return mail.map(({ body }) => body);
}

/** The ids of the frames that brought an event and were answered with yes. */
function acknowledged(): unknown[] {
  const yes = new Set(house.tap.said('harness').flatMap(({ id, result }) => (result ? [id] : [])));
  return house.tap.said('host', 'chat/deliver').flatMap(({ id }) => (yes.has(id) ? [id] : []));
}

const turnEnded = () => until('the end of the turn', () => house.turns > 0);

/** A last message that must be answered: when its turn has begun, everything before it had its chance. */
async function afterAll(marker: string): Promise<void> {
  await send('@bob', `Did you see ${marker}?`);
  await house.told(marker, (prompts) => prompts.some((text) => text.includes(marker)));
}

/** What no event may be like. */
const ODD: [string, object][] = [
  ['eventId', { eventId: undefined }],
  ['eventId', { eventId: '' }],
  ['attention.policy', { attention: { reason: 'direct_message', priority: 'normal' } }],
  ['attention.policy', { attention: { policy: 'should_respond' } }],
  ['attention.policy', { attention: undefined }],
  ['target.directedness', { target: { mentions: [], recipient: 'agent:bob', directedness: 'to_all' } }],
  ['injection.mode', { injection: { mode: 'shouted', context: 'none', role: 'user' } }],
  ['conversation.kind', { conversation: { id: 'C1', kind: 'party' } }],
  ['reliability.idempotencyKey', { reliability: { attempt: 1 } }],
  ['content', { content: [{ text: 'without a type' }] }],
];

describe('the harness of the examples', () => {
  it('answers only what it has on disk: killed at its answer, it still has the event, and shows it once [C2A-139]', async () => {
    await house.open('bob', 'alice');
    let storedThen: unknown[] = [];
    house.tap.passes = (from, frame) => {
      if (from === 'harness' && frame.result) {
        storedThen = house.stored;
        house.kill();
      }
      return true;
    };
    await house.start('bob');
    await send('@bob', 'Is the deploy blocked?');
    await until('the acknowledgement', () => acknowledged().length > 0);
    await house.killed();
    house.tap.passes = () => true;
    expect(storedThen).toMatchObject([{ content: [{ type: 'text', text: 'Is the deploy blocked?' }] }]);
    expect(house.stored).toHaveLength(1);
    await house.start('bob');
    await turnEnded();
    expect(house.prompts).toHaveLength(1);
    expect(house.prompts[0]).toContain('Is the deploy blocked?');
  });

  it('accepts nothing that it cannot write down [C2A-139]', async () => {
    await house.open('bob', 'alice');
    await house.start('bob');
    rmSync(house.journal);
    mkdirSync(house.journal);
    await send('@bob', 'Is the deploy blocked?');
    await until('a no', () => house.tap.said('harness').some(({ error }) => error?.code === -32603));
    expect(acknowledged()).toEqual([]);
    expect(house.prompts).toEqual([]);
  });

  it('puts an event that comes twice before its model once, and acknowledges both [C2A-141]', async () => {
    await house.open('bob', 'alice');
    // The first answer is lost with its connection: the host sends the event again.
    house.tap.passes = (from, frame) => {
      if (from !== 'harness' || !frame.result || acknowledged().length > 1) return true;
      house.tap.cut();
      return false;
    };
    await house.start('bob');
    await send('@bob', 'Is the deploy blocked?');
    await until('both answers', () => acknowledged().length === 2);
    await turnEnded();
    const [first, second] = house.tap.said('host', 'chat/deliver').map(({ params }) => params);
    expect(second).toMatchObject({ eventId: first?.['eventId'], reliability: { attempt: 2 } });
    // And once more, long after the model has seen it.
    house.tap.tell({ jsonrpc: '2.0', id: 'again', method: 'chat/deliver', params: second });
    await until('the third answer', () => house.tap.said('harness').some(({ id, result }) => id === 'again' && result));
    await afterAll('the last one');
    expect(house.prompts.filter((text) => text.includes('Is the deploy blocked?'))).toHaveLength(1);
  });

  it('offers an event again whose turn it did not survive, and gives one reply', async () => {
    await house.open('bob', 'alice');
    house.thinks('sleep 60');
    await house.start('bob');
    await send('@bob', 'Is the deploy blocked?');
    await house.told('the event', ({ length }) => length === 1);
    await house.killed();
    house.thinks('echo It is not.');
    await house.start('bob');
    await turnEnded();
    expect(house.prompts).toHaveLength(2);
    expect(await inbox('alice')).toEqual(['It is not.']);
  });

  it('gives its model what a person writes in pieces as one prompt [C2A-18]', async () => {
    await house.open('bob');
    await house.start('bob');
    const surface = await house.surface();
    for (const [n, text] of ['when someone types', 'in', 'pieces'].entries()) {
      await surface.done('surface/post', {
        messageId: `m${n}`,
        conversation: { id: 'D1', kind: 'dm' },
        author: { id: 'U1', kind: 'human' },
        recipient: 'bob',
        content: [{ type: 'text', text }],
      });
    }
    await turnEnded();
    expect(house.prompts).toHaveLength(1);
    expect(house.prompts[0]).toContain('MESSAGE\nwhen someone types\nin\npieces\nEND OF MESSAGE');
  });

  it('announces an event by its metadata alone [C2A-19]', async () => {
    await house.open('bob', 'alice');
    await house.program.run(['role', 'add', '@bob', 'backend']);
    await house.start('bob');
    await send('@backend', 'the zanzibar rollback is stuck');
    await house.told('a knock', ({ length }) => length > 0);
    expect(house.prompts.join('\n')).toContain('C2A KNOCK\nevent_id: ');
    expect(house.prompts.join('\n')).toContain('from: agent:alice\n');
    await afterAll('the last one');
    expect(house.prompts.join('\n')).not.toContain('zanzibar');
  });

  it('keeps out of the prompt what is for tools only, and in silence what is for nobody [C2A-20] [C2A-22] [C2A-74]', async () => {
    await house.open('bob', 'alice');
    for (const name of ['bob', 'alice']) await house.program.run(['sub', '#kitchen'], { as: name });
    await house.start('bob', '--all');
    await send('#kitchen', 'the marmalade is empty');
    await send('@bob', 'thanks!');
    await until('both', () => house.stored.length === 2);
    await afterAll('the last one');
    const modes = house.stored.map(({ injection }) => (injection as { mode: string }).mode);
    expect(modes.slice(0, 2)).toEqual(['tool_mailbox', 'silent']);
    expect(JSON.stringify(house.stored[1])).toContain('thanks!');
    for (const words of ['marmalade', 'thanks!']) expect(house.prompts.join('\n')).not.toContain(words);
    // Nor does its model think about nothing: only the last one was before it.
    expect(house.prompts).toHaveLength(1);
    const tools = await house.session('bob');
    const { events } = await tools.done<{ events: { text: string }[] }>('chat.list_events', {});
    const texts = events.map(({ text }) => text);
    expect(texts).toContain('the marmalade is empty');
    expect(texts).not.toContain('thanks!');
    // Nothing is lost: it stands in the history of the home.
    expect((await house.program.run(['history'], { as: 'bob' })).out).toContain('thanks!');
  });

  it('rejects an event that lacks its id, its policy or another required field, and has nothing of it [C2A-44] [C2A-49]', async () => {
    await house.open('bob', 'alice');
    await house.start('bob');
    await afterAll('the first one');
    const [real] = house.tap.said('host', 'chat/deliver');
    const answerTo = async (id: string, fields: object) => {
      const params = { ...real?.params, eventId: `evt_${id}`, ...fields };
      house.tap.tell({ jsonrpc: '2.0', id, method: 'chat/deliver', params });
      const isAnswer = (told: { id?: unknown }): boolean => told.id === id;
      await until('an answer', () => house.tap.said('harness').some(isAnswer));
      return house.tap.said('harness').find(isAnswer);
    };
    for (const [n, [field, fields]] of ODD.entries()) {
      expect((await answerTo(`odd-${n}`, fields))?.error).toEqual({
        code: -32602,
        message: `${field} is missing or wrong`,
      });
    }
    expect((await answerTo('right', {}))?.result).toEqual({});
    expect(house.stored.map(({ eventId }) => eventId)).toEqual([real?.params?.['eventId'], 'evt_right']);
  });
});

describe('a tool call that nobody answers', () => {
  const message = { target: '@alice', text: 'hello', visibility: 'dm', directedness: 'to_me' };

  /** A harness whose first call of a tool is lost on its way back. */
  async function aConnection() {
    await house.open('bob', 'alice');
    const connection = new Connection(house.tap.path, () => {}, 500);
    await connection.initialize(EVERYTHING);
    await connection.ask('session/bind', { sessionId: 's', identities: ['bob'] });
    const calls = () => house.tap.said('harness', 'tools/call');
    house.tap.passes = (from, { id }) => from === 'harness' || id !== calls()[0]?.id;
    return { connection, calls };
  }

  it('is repeated word for word where it only reads, or has a key: one message is sent [C2A-149] [C2A-128]', async () => {
    const { connection, calls } = await aConnection();
    expect(await connection.call('chat.list_events', {}, 's')).toEqual({ events: [], cursor: null });
    expect(calls()).toHaveLength(2);
    house.tap.seen.length = 0;
    const sent = await connection.call('chat.send_message', { ...message, idempotencyKey: 'k1' }, 's');
    expect(sent).toMatchObject({ first: false });
    expect(calls().map(({ params }) => params)).toEqual(Array.from({ length: 2 }, () => calls()[0]?.params));
    expect(calls()[1]?.params?.['arguments']).toMatchObject({ idempotencyKey: 'k1' });
    expect(await inbox('alice')).toEqual(['hello']);
    const keyless = connection.call('chat.send_message', message, 's');
    await expect(keyless).rejects.toThrow('idempotencyKey');
    connection.close();
  });

  it('is told to anyone who called, and not repeated, where it acts and has no key [C2A-150]', async () => {
    const { connection, calls } = await aConnection();
    await expect(connection.call('chat.send_message', message, 's')).rejects.toBeInstanceOf(Unanswered);
    expect(calls()).toHaveLength(1);
    // Nor is what the host does not call idempotent.
    house.tap.seen.length = 0;
    await expect(connection.call('deploy.start', {}, 's')).rejects.toBeInstanceOf(Unanswered);
    expect(calls()).toHaveLength(1);
    connection.close();
  });
});
