import { describe, expect, it } from 'bun:test';
import { aHost, EVERYTHING, FakeWire, TestHost } from '../../../test/support/host.ts';
import { inChannel } from '../../../test/support/memory-desk.ts';
import { AgentName } from '../../protocol/names.ts';
import { edit } from '../edit.ts';

describe('a session', () => {
  it('is taken up only with the token that it was bound with', async () => {
    const host = await aHost('lead');
    const { token } = await host.bind(new FakeWire(), 'lead');
    const again = host.bind(new FakeWire(), 'lead', { token: 'a guess, of thirty-two characters or more' });
    await expect(again).rejects.toMatchObject({ code: 'not_yours' });
    await expect(host.bind(new FakeWire(), 'lead')).rejects.toMatchObject({ code: 'not_yours' });
    expect(await host.bind(new FakeWire(), 'lead', { token })).toMatchObject({ sessionId: 'lead', token });
  });

  it('can have a token of its harness’s own making: then no lost answer locks it out', async () => {
    const host = await aHost('lead');
    const token = 'made up by the harness, and long enough';
    expect(await host.bind(new FakeWire(), 'lead', { token })).toMatchObject({ token });
    expect(await host.bind(new FakeWire(), 'lead', { token })).toMatchObject({ token });
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

  it('can be taken up at another host of the same home, which knows what the first one did', async () => {
    const one = await aHost('lead', 'bob');
    const other = new TestHost(one.desk);
    await one.host.start();
    const wire = new FakeWire();
    const { token } = await one.bind(wire, 'lead');
    await other.host.start();
    const first = await one.send('bob', '@lead', 'see src/a.ts:1');
    await one.pass(1000);
    wire.accepts = false;
    const second = await one.send('bob', '@lead', 'see src/b.ts:2');
    await one.pass(1000);
    expect(wire.ids).toEqual([first.message.id, second.message.id]);
    one.host.gone(wire);
    const there = new FakeWire();
    await other.bind(there, 'lead', { token });
    await other.pass(1000);
    expect(there.ids).toEqual([second.message.id]);
    await other.call(there, 'chat.react', { inReplyTo: first.message.id, signal: 'done' });
    other.host.gone(there);
    const back = new FakeWire();
    await one.bind(back, 'lead', { token });
    await one.pass(30_000);
    expect(back.ids).toEqual([]);
    expect(await one.ended('lead', first.message.id)).toBe('responded');
  });

  it('is forgotten after a week in which nobody took it up, and owns nothing any more', async () => {
    const host = await aHost('lead');
    await host.host.start();
    const wire = new FakeWire();
    const { token } = await host.bind(wire, 'lead', { streams: ['#c'] });
    host.host.gone(wire);
    host.desk.pass(6 * 24 * 3_600_000);
    await host.pass(10_000);
    await host.bind(wire, 'lead', { token, streams: ['#c'] });
    host.host.gone(wire);
    host.desk.pass(8 * 24 * 3_600_000);
    await host.pass(10_000);
    expect(await host.desk.own.ledger.session('lead')).toBeNull();
    expect((await host.desk.own.directory.get(AgentName.parse('lead')))?.parley?.owns ?? []).toEqual([]);
  });

  it('hears of no cancellation if it cannot use it [C2A-29]', async () => {
    const host = await aHost('lead', 'bob');
    const wire = new FakeWire();
    await host.bind(wire, 'lead', {}, { ...EVERYTHING, utilities: { cancellation: false } });
    await host.host.start();
    const { message } = await host.send('bob', '@lead', 'hello');
    await host.pass(1000);
    expect(wire.ids).toEqual([message.id]);
    await edit(host.desk, AgentName.parse('bob'), host.desk.own, message.id, 'hello again');
    await host.pass(10_000);
    expect(await host.ended('lead', message.id)).toBe('superseded');
    expect(wire.cancelled).toEqual([]);
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
