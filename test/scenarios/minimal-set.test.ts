import { afterAll, describe, expect, it } from 'bun:test';
import { ChatDeliver } from '../../src/protocols/c2a/shapes.ts';
import { until } from '../support/bch.ts';
import { ExampleHouse } from '../support/example-harness.ts';
import type { HostClient } from '../support/host-client.ts';
import type { Told } from '../support/host-server.ts';

const house = new ExampleHouse();
afterAll(() => house.close());

interface Listed {
  eventId: string;
  text: string;
  directedness: string;
  policy: string;
  injection: string;
  disposition: string | null;
}

describe('the smallest host that is of use', () => {
  it('works as a whole: envelope, defaults, policies, knocks, buffering, signals, safe sends, claims, retries and dedup [C2A-172]', async () => {
    // Bob is run by the harness of the examples; dev and ops share a role; will writes at a chat.
    await house.open('bob', 'alice', 'dev', 'ops');
    for (const name of ['dev', 'ops']) await house.program.run(['role', 'add', `@${name}`, 'backend']);
    for (const name of ['bob', 'alice', 'dev', 'ops']) await house.program.run(['sub', '#c'], { as: name });
    const surface = await house.surface();
    const shown: Told[] = [];
    const showing = async (): Promise<void> => {
      for (;;) {
        const show = await surface.next(({ method }) => method === 'surface/show');
        shown.push(show);
        surface.ack(show);
      }
    };
    showing().catch(() => {});
    const members = [await house.session('dev'), await house.session('ops')];
    let count = 0;
    const post = async (text: string, fields: object = {}): Promise<string> => {
      count += 1;
      const { eventId } = await surface.done<{ eventId: string }>('surface/post', {
        messageId: `m${count}`,
        conversation: { id: 'c', kind: 'channel' },
        author: { id: 'will', kind: 'human' },
        content: [{ type: 'text', text }],
        ...fields,
      });
      return eventId;
    };
    const dm = { conversation: { id: 'D1', kind: 'dm' }, recipient: 'bob' };

    // Buffering, retry and dedup: two fragments are one event; its answer is lost, it comes again, and is shown once.
    let isLost = false;
    house.tap.passes = (from, frame) => {
      if (isLost || from !== 'harness' || !frame.result) return true;
      isLost = true;
      house.tap.cut();
      return false;
    };
    house.thinks('echo It is not.');
    await house.start('bob');
    await post('is the deploy', dm);
    const asked = await post('blocked?', dm);
    await until('the reply', () => shown.length > 0);
    expect(shown[0]?.params).toMatchObject({ text: 'It is not.', visibility: 'dm', recipient: 'will' });
    const frames = house.tap.said('host', 'chat/deliver').map(({ params }) => ChatDeliver.parse(params));
    expect(frames.map(({ eventId, reliability }) => `${eventId} ${reliability.attempt}`)).toEqual([
      `${asked} 1`,
      `${asked} 2`,
    ]);
    expect(frames[0]).toMatchObject({
      source: { platform: 'slack', workspaceId: 'T1' },
      author: { kind: 'human' },
      target: { directedness: 'to_me' },
      attention: { policy: 'must_respond', reason: 'direct_message' },
      injection: { mode: 'buffered', role: 'user' },
    });
    expect(house.prompts).toHaveLength(1);
    expect(house.prompts[0]).toContain('MESSAGE\nis the deploy\nblocked?\nEND OF MESSAGE');

    // Defaults: a role is knocked for, and one of it only; what is for others or for nobody waits for tools.
    const offered = await post('@backend the zanzibar rollback is stuck');
    const elsewhere = await post('@alice yours, I think');
    const ambient = await post('lunch');
    const knocked = await Promise.race(members.map(async (one) => ({ one, event: await one.event() })));
    knocked.one.ack(knocked.event);
    expect(knocked.event.params).toMatchObject({ eventId: offered, knock: { directedness: 'to_my_role' } });
    expect(JSON.stringify(knocked.event)).not.toContain('zanzibar');
    const listed = async (client: HostClient) =>
      (await client.done<{ events: Listed[] }>('chat.list_events', {})).events;
    const seenBy = async (client: HostClient, id: string) =>
      (await listed(client)).find(({ eventId }) => eventId === id);
    const [other] = members.filter((one) => one !== knocked.one);
    if (!other) throw new Error('a role of two');
    const quiet = { policy: 'must_not_respond', injection: 'tool_mailbox' };
    expect(await seenBy(other, elsewhere)).toMatchObject({ directedness: 'to_other', ...quiet });
    expect(await seenBy(other, ambient)).toMatchObject({ directedness: 'ambient', ...quiet });

    // Claims and policies: one has it, the other is refused; nobody answers chatter.
    await knocked.one.done('chat.claim', { eventId: offered });
    expect((await other.ask('chat.claim', { eventId: offered })).error?.message).toContain('@');
    const whole = await knocked.one.event();
    knocked.one.ack(whole);
    expect(JSON.stringify(whole.params['content'])).toContain('zanzibar');
    const reply = { target: '#c', visibility: 'thread', directedness: 'to_me' };
    const say = (client: HostClient, key: string, fields: object) =>
      client.ask('chat.send_message', { ...reply, idempotencyKey: key, ...fields });
    expect((await say(other, 'a', { text: 'me too', inReplyTo: offered })).error?.code).toBeLessThan(-32000);
    expect((await say(other, 'b', { text: 'pizza?', inReplyTo: ambient })).error?.message).toContain(
      'must_not_respond',
    );

    // A safe send: nothing without target, key, visibility and directedness; the same key is the same message.
    const right = { text: 'it is unstuck', inReplyTo: offered };
    for (const field of ['target', 'idempotencyKey', 'visibility', 'directedness'])
      expect((await say(knocked.one, 'c', { ...right, [field]: undefined })).error).toMatchObject({ data: { field } });
    const sends = await Promise.all(Array.from({ length: 5 }, () => say(knocked.one, 'd', right)));
    expect(new Set(sends.map(({ result }) => result?.['eventId'])).size).toBe(1);
    expect(shown.filter(({ params }) => params?.['text'] === 'it is unstuck')).toHaveLength(1);

    // Three signals.
    for (const [signal, disposition] of [
      ['seen', null],
      ['queued', 'deferred'],
      ['done', 'responded'],
    ] as const) {
      const { id } = await house.program.json<{ id: string }>(['send', '@dev', `look at src/${signal}.ts`], {
        as: 'alice',
      });
      await members[0]?.done('chat.react', { inReplyTo: id, signal });
      if (members[0]) expect(await seenBy(members[0], id)).toMatchObject({ disposition });
    }
    // Bob's model had one turn: nothing of all this was its business.
    expect(house.prompts).toHaveLength(1);
  });
});
