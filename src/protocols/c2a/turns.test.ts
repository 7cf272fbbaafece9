import { describe, expect, it } from 'bun:test';
import { aHost, FakeWire } from '../../../test/support/host.ts';
import { EVERYTHING } from '../../../test/support/host-server.ts';
import type { TestHost } from '../../../test/support/host.ts';
import { inChannel, withRole } from '../../../test/support/workspace.ts';
import { Turn } from './shapes.ts';
import { AgentName } from '../../core/names.ts';
import { react } from '../../core/obligations/react.ts';

async function turn(host: TestHost, wire: FakeWire, state: string, fields: object = {}): Promise<void> {
  await host.host.turn(wire, Turn.parse({ sessionId: 'lead', state, ...fields }));
  await host.calm();
}

async function aBusyLead(capabilities: object = EVERYTHING) {
  const host = await aHost('lead', 'bob', 'boss');
  await withRole(host.workspace, 'lead-of-all', 'bob');
  const wire = new FakeWire();
  await host.bind(wire, 'lead', {}, capabilities);
  await turn(host, wire, 'started');
  return { host, wire };
}

describe('while a model is at work', () => {
  it('nothing normal reaches it before a boundary, and something urgent of a person interrupts, in order [C2A-62b]', async () => {
    const { host, wire } = await aBusyLead();
    const normal = await host.send('will', '@lead', 'may I merge?', { intent: 'approval' });
    await host.pass(25_000);
    expect(wire.delivered).toEqual([]);
    const urgent = await host.send('will', '@lead', 'stop', { priority: 'urgent' });
    await host.calm();
    expect(wire.delivered.map(({ eventId, injection }) => [eventId, injection.interrupt ?? false])).toEqual([
      [normal.message.id, false],
      [urgent.message.id, true],
    ]);
  });

  it('what waits goes at the next boundary, and at the end of the turn [C2A-62b]', async () => {
    const { host, wire } = await aBusyLead();
    const first = await host.send('bob', '@lead', 'one');
    await host.pass(3000);
    await turn(host, wire, 'boundary');
    expect(wire.ids).toEqual([first.message.id]);
    const second = await host.send('bob', '@lead', 'two');
    await host.pass(3000);
    expect(wire.ids).toEqual([first.message.id]);
    await turn(host, wire, 'ended');
    expect(wire.ids).toEqual([first.message.id, second.message.id]);
  });

  it('something urgent of an agent interrupts only if no boundary comes for thirty seconds', async () => {
    const { host, wire } = await aBusyLead();
    await host.send('bob', '@lead', 'the disk is full', { priority: 'urgent' });
    await host.pass(29_000);
    expect(wire.delivered).toEqual([]);
    await host.pass(1001);
    expect(wire.delivered).toMatchObject([{ injection: { interrupt: true } }]);
  });

  it('nothing ever interrupts a harness without the interrupt capability', async () => {
    const { host, wire } = await aBusyLead({ ...EVERYTHING, injection: { ...EVERYTHING.injection, interrupt: false } });
    await host.send('will', '@lead', 'stop', { priority: 'urgent' });
    await host.pass(120_000);
    expect(wire.delivered).toEqual([]);
    await turn(host, wire, 'boundary');
    expect(wire.delivered).toHaveLength(1);
    expect(wire.delivered[0]?.injection.interrupt).toBeUndefined();
  });

  it.each([
    ['an approval', '@lead', 'may I deploy?', { intent: 'approval' }],
    ['an urgent mention', '#c', '@lead the disk is full', { priority: 'urgent' }],
    ['an urgent DM', '@lead', 'stop the deploy', { priority: 'urgent' }],
    ['a blocker', '@lead', 'a key has leaked', { intent: 'blocker' }],
  ])('%s is there at once when nothing runs [C2A-62a] [C2A-17]', async (_what, to, body, fields) => {
    const host = await aHost('lead');
    await inChannel(host.workspace, '#c', 'lead');
    const wire = new FakeWire();
    await host.bind(wire, 'lead');
    await host.send('will', to, body, fields);
    expect(wire.delivered).toMatchObject([{ injection: { mode: 'immediate' } }]);
    expect(wire.prompts[0]).toContain(body);
  });
});

it('a session that works keeps what it has claimed, and loses it when nothing is heard for ten minutes [C2A-D4]', async () => {
  const { host, wire } = await aBusyLead();
  const { message } = await host.send('bob', '@lead', 'look at the parser');
  await turn(host, wire, 'boundary');
  await host.call(wire, 'chat.claim', { eventId: message.id });
  const isClaimed = async (): Promise<boolean> =>
    (await host.workspace.own.journal.eventClaim(message.id, host.workspace.now())) !== null;
  await host.pass(9 * 60_000);
  await turn(host, wire, 'boundary');
  await host.pass(9 * 60_000);
  expect(await isClaimed()).toBe(true);
  await turn(host, wire, 'ended');
  await host.pass(9 * 60_000);
  expect(await isClaimed()).toBe(true);
  await host.pass(60_001);
  expect(await isClaimed()).toBe(false);
});

describe('a reply', () => {
  async function aTurnOn(...bodies: string[]) {
    const host = await aHost('lead', 'bob', 'carol');
    const wire = new FakeWire();
    await host.bind(wire, 'lead');
    const events: string[] = [];
    for (const [n, body] of bodies.entries()) {
      events.push((await host.send(n % 2 ? 'carol' : 'bob', '@lead', body)).message.id);
    }
    await host.pass(1000);
    await turn(host, wire, 'started', { eventIds: events });
    const answers = async () => {
      const { journal } = host.workspace.own;
      const rows = await journal.history({ agent: AgentName.parse('lead'), limit: 50 });
      return rows.filter(({ message }) => message.from === 'lead').map(({ message }) => message);
    };
    return { host, wire, events, answers };
  }

  it('that is owed is the last text of the turn that had the event, if no tool sent one', async () => {
    const { host, wire, events, answers } = await aTurnOn('is the deploy blocked?');
    await turn(host, wire, 'ended', { eventIds: events, finalText: 'No, it went through.' });
    expect(await answers()).toMatchObject([{ to: '@bob', thread: events[0], body: 'No, it went through.' }]);
    expect(await host.ended('lead', events[0] ?? '')).toBe('responded');
  });

  it('that a tool sent is not said a second time in other words [C2A-143]', async () => {
    const { host, wire, events, answers } = await aTurnOn('is the deploy blocked?');
    await host.call(wire, 'chat.send_message', {
      target: '@bob',
      text: 'It is not.',
      inReplyTo: events[0],
      idempotencyKey: 'k1',
      visibility: 'dm',
      directedness: 'to_me',
    });
    await turn(host, wire, 'ended', { eventIds: events, finalText: 'I told bob that it is not.' });
    await turn(host, wire, 'started', { eventIds: events });
    await turn(host, wire, 'ended', { eventIds: events, finalText: 'As I said.' });
    expect((await answers()).map(({ body }) => body)).toEqual(['It is not.']);
    // The event does not return either, so that nobody answers it twice.
    await turn(host, wire, 'started', { eventIds: events });
    await turn(host, wire, 'failed', { eventIds: events });
    await host.pass(60_000);
    expect(wire.ids).toEqual(events);
  });

  it('is not sent if a turn had owed events of several conversations: all of them stay owed', async () => {
    const { host, wire, events, answers } = await aTurnOn('is the deploy blocked?', 'and my secret project?');
    await turn(host, wire, 'ended', { eventIds: events, finalText: 'Yes, and it goes well.' });
    expect(await answers()).toEqual([]);
    expect(await Promise.all(events.map((id) => host.ended('lead', id)))).toEqual([null, null]);
  });

  it('is taken from no turn that failed: the event comes again with a higher attempt [C2A-142]', async () => {
    const { host, wire, events, answers } = await aTurnOn('is the deploy blocked?');
    await turn(host, wire, 'failed', { eventIds: events, finalText: 'half a' });
    await host.pass(6000);
    expect(wire.delivered.map(({ eventId, reliability }) => `${eventId} ${reliability.attempt}`)).toEqual(
      [1, 2].map((attempt) => `${events[0]} ${attempt}`),
    );
    expect(await answers()).toEqual([]);
  });
});

it('to an event that blocks others’ work is not sent twice, and the event stays open until its author ends it', async () => {
  const host = await aHost('lead', 'bob');
  await host.host.start();
  const wire = new FakeWire();
  await host.bind(wire, 'lead');
  const obligation = { blocks: 'halted' };
  const { message } = await host.send('bob', '@lead', 'which port shall I use?', { intent: 'question', obligation });
  await host.pass(1000);
  await host.call(wire, 'chat.send_message', {
    target: '@bob',
    text: 'Use 8080.',
    inReplyTo: message.id,
    idempotencyKey: 'k',
    visibility: 'dm',
    directedness: 'to_me',
  });
  await turn(host, wire, 'ended', { eventIds: [message.id], finalText: 'I told bob to use 8080.' });
  const said = (await host.workspace.own.journal.history({ limit: 10 })).filter((row) => row.message.from === 'lead');
  expect(said).toHaveLength(1);
  expect(await host.ended('lead', message.id)).toBeNull();
  await react(host.workspace, host.workspace.who('bob'), message.id, {
    signal: 'done',
    recipient: AgentName.parse('lead'),
  });
  await host.pass(10_000);
  expect(await host.ended('lead', message.id)).toBe('responded');
});

it('to one author answers all events of that author in the turn', async () => {
  const host = await aHost('lead', 'bob');
  const wire = new FakeWire();
  await host.bind(wire, 'lead');
  const events: string[] = [];
  for (const body of ['is src/a.ts done?', 'and src/b.ts?']) {
    events.push((await host.send('bob', '@lead', body)).message.id);
    await host.pass(1000);
  }
  await turn(host, wire, 'started', { eventIds: events });
  await turn(host, wire, 'ended', { eventIds: events, finalText: 'Both are.' });
  expect(await Promise.all(events.map((id) => host.ended('lead', id)))).toEqual(['responded', 'responded']);
  const said = (await host.workspace.own.journal.history({ limit: 10 })).filter((row) => row.message.from === 'lead');
  expect(said).toHaveLength(1);
});
