import { describe, expect, it } from 'bun:test';
import { aHost, FakeWire, TestHost } from '../../../test/support/host.ts';
import { TestSurface } from '../../../test/support/surface.ts';

/** The next host on the same home, after the first was killed. */
async function restarted({ workspace }: TestHost): Promise<TestHost> {
  const host = new TestHost(workspace);
  await host.host.start();
  await host.calm();
  return host;
}

describe('after the host was killed', () => {
  it('an answer that was being shown in a chat is shown as soon as the chat connects again', async () => {
    const host = await aHost('lead');
    const wire = new FakeWire();
    await host.bind(wire, 'lead');
    const surface = await new TestSurface(host).bind();
    const asked = Promise.withResolvers<void>();
    surface.wire.showing = () => {
      asked.resolve();
      return new Promise(() => {});
    };
    const { eventId } = await surface.dm('U1', 'lead', 'is it done?');
    await host.pass(5000);
    const answer = { target: '@slack.U1', text: 'yes', inReplyTo: eventId, idempotencyKey: 'k' };
    const saying = { ...answer, visibility: 'dm', directedness: 'to_me' };
    void host.call(wire, 'chat.send_message', saying);
    await asked.promise;
    await host.pass(1000);
    expect(surface.wire.shown).toHaveLength(1);

    const next = await restarted(host);
    const again = await new TestSurface(next).bind();
    await next.pass(0);
    expect(again.wire.shown).toEqual(surface.wire.shown);
    expect(await next.ended('slack.U1', surface.wire.shown[0]?.id ?? '')).not.toBeNull();
    expect(await next.ended('lead', eventId)).toBe('responded');
  });

  it('the events of a failed turn are offered again, with their text', async () => {
    const host = await aHost('lead', 'bob');
    const wire = new FakeWire();
    const { token } = await host.bind(wire, 'lead');
    const { message } = await host.send('bob', '@lead', 'is it done?');
    await host.pass(1000);
    await host.host.turn(wire, { sessionId: 'lead', state: 'started', eventIds: [message.id] });
    await host.host.turn(wire, { sessionId: 'lead', state: 'failed', eventIds: [message.id] });

    const next = await restarted(host);
    const fresh = new FakeWire();
    await next.bind(fresh, 'lead', { token });
    await next.pass(10_000);
    expect(fresh.ids).toEqual([message.id]);
    expect(fresh.texts).toEqual(['is it done?']);
  });

  it('a return that was counted and not offered is offered, once', async () => {
    const host = await aHost('lead', 'bob');
    await host.host.start();
    const wire = new FakeWire();
    const { token } = await host.bind(wire, 'lead');
    const { message } = await host.send('bob', '@lead', 'is it done?');
    await host.pass(1000);
    // The model works without a pause, so what comes back has to wait.
    await host.host.turn(wire, { sessionId: 'lead', state: 'started', eventIds: [message.id] });
    await host.pass(110_000);
    expect(wire.delivered).toHaveLength(1);

    const next = await restarted(host);
    const fresh = new FakeWire();
    await next.bind(fresh, 'lead', { token });
    await next.pass(10_000);
    expect(fresh.delivered.map(({ eventId, knock }) => [eventId, knock !== undefined])).toEqual([[message.id, true]]);
    const last = await restarted(next);
    const third = new FakeWire();
    await last.bind(third, 'lead', { token });
    await last.pass(10_000);
    expect(third.delivered).toEqual([]);
  });
});
