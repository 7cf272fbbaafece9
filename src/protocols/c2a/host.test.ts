import { describe, expect, it } from 'bun:test';
import { aHost, FakeWire } from '../../../test/support/host.ts';

describe('a session', () => {
  it('gets a DM, accepts it, and ends it with a reaction', async () => {
    const host = await aHost('lead');
    const wire = new FakeWire();
    await host.bind(wire, 'lead');
    const { message } = await host.send('will', '@lead', 'Can you check whether the deploy is blocked?');
    await host.pass(4000);
    expect(wire.delivered).toMatchObject([
      {
        sessionId: 'lead',
        eventId: message.id,
        author: { id: 'will', kind: 'human' },
        target: { directedness: 'to_me', recipient: 'agent:lead' },
        attention: { policy: 'must_respond', reason: 'direct_message', deadlineMs: 300_000 },
        injection: { mode: 'buffered', role: 'user' },
        reliability: { attempt: 1, idempotencyKey: `${message.id}:lead` },
      },
    ]);
    expect(await host.ended('lead', message.id)).toBeNull();
    const reacted = await host.call(wire, 'chat.react', { inReplyTo: message.id, signal: 'done' });
    expect(reacted).toMatchObject({ disposition: 'responded', final: true });
    expect(await host.ended('lead', message.id)).toBe('responded');
  });
});
