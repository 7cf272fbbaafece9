import { describe, expect, it } from 'bun:test';
import { aHost, FakeWire } from '../../../test/support/host.ts';
import { inChannel } from '../../../test/support/memory-desk.ts';
import { AgentName } from '../../protocol/names.ts';

describe('a session', () => {
  it('is taken up only with the token that it was bound with', async () => {
    const host = await aHost('lead');
    const { token } = await host.bind(new FakeWire(), 'lead');
    const again = host.bind(new FakeWire(), 'lead', { token: 'a guess' });
    await expect(again).rejects.toMatchObject({ code: 'not_yours' });
    await expect(host.bind(new FakeWire(), 'lead')).rejects.toMatchObject({ code: 'not_yours' });
    expect(await host.bind(new FakeWire(), 'lead', { token })).toMatchObject({ sessionId: 'lead', token });
  });

  it('is heard only on its own connection', async () => {
    const host = await aHost('lead', 'dev');
    const [mine, other] = [new FakeWire(), new FakeWire()];
    await host.bind(mine, 'lead');
    await host.bind(other, 'dev');
    await expect(host.call(other, 'chat.list_events', {}, 'lead')).rejects.toMatchObject({ code: 'not_found' });
  });

  it('that is bound to no mailbox is told so, and nothing is meant for it [C2A-54]', async () => {
    const host = await aHost('lead', 'bob');
    await inChannel(host.desk, '#c', 'lead', 'bob');
    const wire = new FakeWire();
    const { warnings } = await host.bind(wire, ['ghost'], { deliver: 'all' });
    expect(warnings.join('\n')).toContain('no agent is called ghost');
    await host.send('bob', '#c', '@ghost @lead look');
    await host.pass(60_000);
    expect(wire.delivered).toEqual([]);
    const call = host.call(wire, 'chat.react', { inReplyTo: 'x', signal: 'seen' });
    await expect(call).rejects.toMatchObject({ code: 'no_identity' });
  });

  it('owns the channels that it names, and what is said there is for its role from then on [C2A-53]', async () => {
    const host = await aHost('lead', 'bob');
    await inChannel(host.desk, '#c', 'lead', 'bob');
    const wire = new FakeWire();
    const { token } = await host.bind(wire, 'lead');
    const before = await host.send('bob', '#c', 'the pipeline changed');
    await host.bind(wire, 'lead', { token, streams: ['#c'] });
    const after = await host.send('bob', '#c', 'the pipeline changed again');
    await host.bind(wire, 'lead', { token });
    const released = await host.send('bob', '#c', 'and once more');
    const directed = [before, after, released].map(({ copies }) => copies[0]?.attention.directedness);
    expect(directed).toEqual(['ambient', 'to_my_role', 'ambient']);
  });

  it('keeps its place when its host ends in order, and gives nothing back twice', async () => {
    const host = await aHost('lead', 'bob');
    const wire = new FakeWire();
    await host.bind(wire, 'lead');
    const { message } = await host.send('bob', '@lead', 'hello');
    await host.pass(1000);
    await host.host.close();
    await host.host.close();
    const copy = await host.desk.own.ledger.copy(AgentName.parse('lead'), message.id);
    expect(copy).toMatchObject({ state: 'held', owner: 'bearer.session-lead' });
    await host.send('bob', '@lead', 'after the end');
    await host.pass(60_000);
    expect(wire.delivered).toHaveLength(1);
  });
});
