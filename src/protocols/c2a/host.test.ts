import { describe, expect, it } from 'bun:test';
import { aHost, FakeWire, TestHost } from '../../../test/support/host.ts';
import { EVERYTHING } from '../../../test/support/host-server.ts';
import { inChannel } from '../../../test/support/workspace.ts';
import { Bind } from './shapes.ts';
import { AgentName } from '../../core/names.ts';
import { edit, remove } from './edit.ts';

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

  it('can be continued only with the token that it was bound with', async () => {
    const host = await aHost('lead');
    const { token } = await host.bind(new FakeWire(), 'lead');
    const again = host.bind(new FakeWire(), 'lead', { token: 'a guess, of thirty-two characters or more' });
    await expect(again).rejects.toMatchObject({ code: 'not_yours' });
    await expect(host.bind(new FakeWire(), 'lead')).rejects.toMatchObject({ code: 'not_yours' });
    expect(await host.bind(new FakeWire(), 'lead', { token })).toMatchObject({ sessionId: 'lead', token });
  });

  it('can have a token that its harness chose: then a lost answer does not lock the harness out', async () => {
    const host = await aHost('lead');
    const token = 'made up by the harness, and long enough';
    expect(await host.bind(new FakeWire(), 'lead', { token })).toMatchObject({ token });
    expect(await host.bind(new FakeWire(), 'lead', { token })).toMatchObject({ token });
  });

  it('can be used only on its own connection', async () => {
    const host = await aHost('lead', 'dev');
    const [mine, other] = [new FakeWire(), new FakeWire()];
    await host.bind(mine, 'lead');
    await host.bind(other, 'dev');
    await expect(host.call(other, 'chat.list_events', {}, 'lead')).rejects.toMatchObject({ code: 'not_found' });
  });

  it('that is bound to no mailbox is told so, and nothing is meant for it [C2A-54]', async () => {
    const host = await aHost('lead', 'bob');
    await inChannel(host.workspace, '#c', 'lead', 'bob');
    const wire = new FakeWire();
    const { warnings } = await host.bind(wire, ['ghost'], { deliver: 'all' });
    expect(warnings.join('\n')).toContain('no agent is called ghost');
    expect(warnings.join('\n')).toContain('bound to no mailbox');
    await host.send('bob', '#c', '@ghost @lead look');
    await host.pass(60_000);
    expect(wire.delivered).toEqual([]);
    const call = host.call(wire, 'chat.react', { inReplyTo: 'x', signal: 'seen' });
    await expect(call).rejects.toMatchObject({ code: 'no_identity' });
  });

  it('owns the channels that it names, and what is said there is for its role from then on [C2A-53]', async () => {
    const host = await aHost('lead', 'bob');
    await inChannel(host.workspace, '#c', 'lead', 'bob');
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

  it('can be continued at another host of the same home, which knows what the first one did', async () => {
    const one = await aHost('lead', 'bob');
    const other = new TestHost(one.workspace);
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

  it('is deleted after a week without a connection, and then owns nothing', async () => {
    const host = await aHost('lead');
    await host.host.start();
    const wire = new FakeWire();
    const { token } = await host.bind(wire, 'lead', { streams: ['#c'] });
    host.host.gone(wire);
    host.workspace.pass(6 * 24 * 3_600_000);
    await host.pass(10_000);
    await host.bind(wire, 'lead', { token, streams: ['#c'] });
    host.host.gone(wire);
    host.workspace.pass(8 * 24 * 3_600_000);
    await host.pass(10_000);
    expect(await host.workspace.own.journal.session('lead')).toBeNull();
    expect((await host.workspace.own.directory.get(AgentName.parse('lead')))?.parley?.owns ?? []).toEqual([]);
  });

  it('that is bound to another mailbox gets no more mail of the first, and holds none of it', async () => {
    const host = await aHost('lead', 'bob', 'carol');
    const wire = new FakeWire();
    wire.accepts = false;
    const { token } = await host.bind(wire, 'bob', { sessionId: 'one', roles: ['backend'], streams: ['#c'] });
    const first = await host.send('carol', '@bob', 'see src/a.ts:1');
    await host.pass(1000);
    const second = await host.send('carol', '@bob', 'see src/b.ts:2');
    expect(wire.ids).toEqual([first.message.id]);
    const moved = new FakeWire();
    const fields = { sessionId: 'one', token, roles: ['backend'], streams: ['#c'] };
    expect((await host.bind(moved, 'lead', fields)).warnings).toEqual([]);
    await host.pass(60_000);
    expect(moved.ids).toEqual([]);
    const record = async (name: string) => (await host.workspace.own.directory.get(AgentName.parse(name)))?.parley;
    expect(await record('bob')).toMatchObject({ roles: [] });
    expect(await record('lead')).toMatchObject({ roles: ['backend'], owns: ['#c'] });
    const other = new FakeWire();
    await host.bind(other, 'bob', { sessionId: 'two' });
    await host.pass(1000);
    expect(other.ids).toEqual([first.message.id, second.message.id]);
  });

  it('cannot be bound to a person’s mailbox: no model may answer for a person', async () => {
    const host = await aHost('lead');
    const { message } = await host.send('lead', '@will', 'may I deploy?', { intent: 'approval' });
    const wire = new FakeWire();
    await expect(host.bind(wire, ['lead', 'will'])).rejects.toMatchObject({ code: 'not_yours' });
    const call = host.call(wire, 'chat.react', { inReplyTo: message.id, signal: 'agree' });
    await expect(call).rejects.toMatchObject({ code: 'not_found' });
    expect(await host.workspace.own.journal.session('lead')).toBeNull();
  });

  it('accepts only valid channel names', () => {
    expect(Bind.safeParse({ sessionId: 'one', identities: [], streams: ['no channel'] })).toMatchObject({
      success: false,
      path: 'streams.0',
    });
  });

  it('hears of no cancellation if it cannot use it [C2A-29]', async () => {
    const host = await aHost('lead', 'bob');
    const wire = new FakeWire();
    await host.bind(wire, 'lead', {}, { ...EVERYTHING, utilities: { cancellation: false } });
    await host.host.start();
    const { message } = await host.send('bob', '@lead', 'hello');
    await host.pass(1000);
    expect(wire.ids).toEqual([message.id]);
    await edit(host.workspace, AgentName.parse('bob'), host.workspace.own, message.id, { body: 'hello again' });
    await host.pass(10_000);
    expect(await host.ended('lead', message.id)).toBe('superseded');
    expect(wire.cancelled).toEqual([]);
  });

  it('is told when an event that it may answer was deleted or edited', async () => {
    const host = await aHost('lead', 'bob');
    const wire = new FakeWire();
    await host.bind(wire, 'lead');
    await host.host.start();
    const one = await host.send('bob', '@lead', 'the build is green', { intent: 'fyi' });
    const two = await host.send('bob', '@lead', 'the cache is warm', { intent: 'fyi' });
    await host.pass(1000);
    const kept = await host.send('bob', '@lead', 'the tests are slow', { intent: 'fyi' });
    await host.pass(1000);
    const bob = AgentName.parse('bob');
    await remove(host.workspace, bob, host.workspace.own, two.message.id);
    await host.workspace.own.directory.amend(AgentName.parse('lead'), () => ({ quiet: { on: true } }));
    await edit(host.workspace, bob, host.workspace.own, kept.message.id, { body: 'the tests are slower' });
    await host.pass(6000);
    expect(wire.cancelled.map(({ eventId }) => eventId).sort()).toEqual([kept.message.id, two.message.id].sort());
    expect(await host.ended('lead', kept.message.id)).toBe('superseded');
    expect(wire.ids).toContain(two.message.id);
    expect(wire.delivered.find(({ merged }) => merged)?.merged ?? [one.message.id]).toContain(one.message.id);
  });

  it('with several mailboxes gets a channel message once, in the mailbox with the most demanding policy', async () => {
    const host = await aHost('lead', 'dev', 'bob');
    const wire = new FakeWire();
    await host.bind(wire, ['lead', 'dev']);
    await inChannel(host.workspace, '#c', 'lead', 'dev', 'bob');
    const { message } = await host.send('bob', '#c', '@dev and @lead: the build is red');
    await host.pass(40_000);
    expect(wire.delivered).toMatchObject([
      { eventId: message.id, target: { recipient: 'agent:dev' }, attention: { policy: 'must_respond' } },
    ]);
    expect(await host.ended('lead', message.id)).toBe('superseded');
    const root = await host.send('bob', '#c', 'how long does the build take?');
    for (const from of ['lead', 'dev']) await host.send(from, '#c', `so long: ${from}`, { thread: root.message.id });
    await host.pass(10_000);
    const before = wire.ids.length;
    const reply = await host.send('bob', '#c', 'too long', { thread: root.message.id });
    await host.pass(40_000);
    expect(wire.ids.slice(before)).toEqual([reply.message.id]);
  });

  it('keeps its place when its host stops cleanly, and releases nothing twice', async () => {
    const host = await aHost('lead', 'bob');
    const wire = new FakeWire();
    await host.bind(wire, 'lead');
    const { message } = await host.send('bob', '@lead', 'hello');
    await host.pass(1000);
    await host.host.close();
    await host.host.close();
    const copy = await host.workspace.own.journal.copy(AgentName.parse('lead'), message.id);
    expect(copy).toMatchObject({ state: 'held', owner: 'bearer.session-lead' });
    await host.send('bob', '@lead', 'after the end');
    await host.pass(60_000);
    expect(wire.delivered).toHaveLength(1);
  });
});
