import { describe, expect, it } from 'bun:test';
import { aHost, FakeWire, TestHost } from '../../../test/support/host.ts';
import { aDraft } from '../../../test/support/durable-workspace.ts';
import { inChannel } from '../../../test/support/workspace.ts';
import { TestSurface } from '../../../test/support/surface.ts';
import { AgentName, MessageId } from '../../core/names.ts';
import { answer } from '../../core/mail/send.ts';
import { withdraw } from '../../core/mail/settle.ts';

const lead = AgentName.parse('lead');
const HOUR = 3_600_000;

async function aTown() {
  const host = await aHost('lead', 'bob');
  await host.host.start();
  const wire = new FakeWire();
  const { token } = await host.bind(wire, 'lead');
  const surface = await new TestSurface(host).bind();
  return { host, wire, surface, token };
}

const said = (fields: object = {}): object => ({
  target: '@slack.U1',
  text: 'the lock is free',
  idempotencyKey: 'k',
  visibility: 'dm',
  directedness: 'to_me',
  ...fields,
});

/** A surface that refuses with codes of HTTP: 403 is final, 503 is not. */
function saysNo(surface: TestSurface, ...codes: number[]): void {
  surface.wire.showing = async () => {
    const code = codes.length > 1 ? codes.shift() : codes[0];
    if (code !== undefined && code !== 200) throw Object.assign(new Error(`no (${code})`), { code });
  };
}

/** How an event stands for its reader: its copy's end, the end of what was owed, and what was written down of that. */
async function standing({ workspace }: TestHost, id: MessageId) {
  const copy = (await workspace.own.journal.trace(id))?.copies.find(({ mailbox }) => mailbox === lead);
  const obligation = await workspace.own.journal.obligation(lead, id);
  return {
    copy: copy?.disposition ?? null,
    obligation: obligation?.ended?.as ?? null,
    ends: copy?.receipts.filter(({ step }) => step === 'discharged').length ?? 0,
    by: obligation?.ended?.by,
  };
}

const OPEN = { copy: null, obligation: null, ends: 0 };
const RESPONDED = { copy: 'responded', obligation: 'responded', ends: 1 };
const FAILED = { copy: 'failed', obligation: 'failed', ends: 1 };

describe('an answer that a surface refuses for good', () => {
  it('comes back as a tool’s error with the reason, and the event has failed by it [C2A-147]', async () => {
    const { host, wire, surface } = await aTown();
    const { eventId } = await surface.dm('U1', 'lead', 'is the lock free?');
    await host.pass(5000);
    saysNo(surface, 403);
    const reply = said({ inReplyTo: eventId });
    await expect(host.call(wire, 'chat.send_message', reply)).rejects.toThrow('no (403)');
    expect(await standing(host, eventId)).toMatchObject({
      ...FAILED,
      by: { surface: 'slack', reason: 'no (403)', reply: expect.any(String) },
    });
    const { events } = await host.call(wire, 'chat.list_events', {});
    expect(events).toMatchObject([{ eventId, disposition: 'failed' }]);
    // A repeat under the same key gets the same refusal, and nothing is shown.
    await expect(host.call(wire, 'chat.send_message', reply)).rejects.toThrow('no (403)');
    await host.pass(HOUR);
    expect(surface.wire.shown).toHaveLength(1);
    expect(wire.ids).toEqual([eventId]);
    expect(await standing(host, eventId)).toMatchObject(FAILED);
  });

  it('does so in a channel, and for what only might be answered [C2A-147]', async () => {
    const { host, wire, surface } = await aTown();
    await inChannel(host.workspace, '#C1', 'lead');
    const asked = await surface.post('U1', { id: 'C1', kind: 'channel' }, '@lead is the lock free?');
    const told = await surface.dm('U2', 'lead', 'the lock was free', { intent: 'fyi' });
    await host.pass(5000);
    const policies = wire.delivered.map(({ eventId, attention }) => [eventId, attention.policy]);
    expect(Object.fromEntries(policies)).toEqual({ [asked.eventId]: 'must_respond', [told.eventId]: 'may_respond' });
    saysNo(surface, 403);
    const inThread = said({ target: '#C1', visibility: 'thread', inReplyTo: asked.eventId, idempotencyKey: 'a' });
    await expect(host.call(wire, 'chat.send_message', inThread)).rejects.toThrow('no (403)');
    const back = said({ target: '@slack.U2', inReplyTo: told.eventId, idempotencyKey: 'b' });
    await expect(host.call(wire, 'chat.send_message', back)).rejects.toThrow('no (403)');
    expect(await host.ended('lead', asked.eventId)).toBe('failed');
    expect(await host.ended('lead', told.eventId)).toBe('failed');
  });

  it('can be sent again with the same text to a place that can show it; the event has failed anyway', async () => {
    const { host, wire, surface } = await aTown();
    await inChannel(host.workspace, '#C1', 'lead');
    const { eventId } = await surface.post('U1', { id: 'C1', kind: 'channel' }, '@lead is the lock free?');
    await host.pass(5000);
    saysNo(surface, 403, 200);
    const there = said({ target: '#C1', visibility: 'thread', inReplyTo: eventId });
    await expect(host.call(wire, 'chat.send_message', there)).rejects.toThrow('no (403)');
    const here = said({ inReplyTo: eventId, idempotencyKey: 'as a dm' });
    expect(await host.call(wire, 'chat.send_message', here)).toMatchObject({ shown: true });
    await expect(
      host.call(wire, 'chat.send_message', said({ inReplyTo: eventId, idempotencyKey: 'once more' })),
    ).rejects.toThrow('said this already');
    expect(await standing(host, eventId)).toMatchObject(FAILED);
  });

  it('fails the event even after temporary failures', async () => {
    const { host, wire, surface } = await aTown();
    const { eventId } = await surface.dm('U1', 'lead', 'is the lock free?');
    await host.pass(5000);
    saysNo(surface, 503, 429, 403);
    expect(await host.call(wire, 'chat.send_message', said())).toMatchObject({ shown: false });
    expect(await standing(host, eventId)).toMatchObject(OPEN);
    await host.pass(60_000);
    expect(await standing(host, eventId)).toMatchObject(FAILED);
    await expect(host.call(wire, 'chat.send_message', said())).rejects.toThrow('no (403)');
  });

  it.each([
    { what: 'fails it', isAway: false, ends: FAILED },
    { what: 'waits', isAway: true, ends: OPEN },
  ])('$what where it was the last text of a turn, and what stood beside it stays owed', async ({ isAway, ends }) => {
    const { host, wire, surface } = await aTown();
    const first = await surface.dm('U1', 'lead', 'is the lock free?');
    await host.pass(5000);
    const second = await surface.dm('U1', 'lead', 'and the parser?');
    await host.pass(5000);
    saysNo(surface, 403);
    if (isAway) host.host.gone(surface.wire);
    const turn = { sessionId: 'lead', eventIds: [first.eventId, second.eventId] };
    await host.host.turn(wire, { ...turn, state: 'started' });
    await host.host.turn(wire, { ...turn, state: 'ended', finalText: 'both are free' });
    await host.pass(10_000);
    expect(await standing(host, second.eventId)).toMatchObject(ends);
    expect(await standing(host, first.eventId)).toMatchObject(OPEN);
  });

  it('does not end an obligation: its agent still owes it', async () => {
    const { host, wire, surface } = await aTown();
    const obligation = { blocks: 'halted' };
    const { eventId } = await surface.dm('U1', 'lead', 'free the lock', { obligation });
    await host.pass(5000);
    saysNo(surface, 403);
    const reply = said({ inReplyTo: eventId });
    await expect(host.call(wire, 'chat.send_message', reply)).rejects.toThrow('no (403)');
    expect(await standing(host, eventId)).toMatchObject(OPEN);
  });
});

describe('an answer that a surface has not shown yet', () => {
  it('ends nothing and causes no return; once shown, it has answered once', async () => {
    const { host, wire, surface } = await aTown();
    const { eventId } = await surface.dm('U1', 'lead', 'is the lock free?');
    await host.pass(5000);
    let isDown = true;
    surface.wire.showing = async () => {
      if (isDown) throw Object.assign(new Error('not now'), { code: 503 });
    };
    expect(await host.call(wire, 'chat.send_message', said())).toMatchObject({ shown: false });
    await host.pass(HOUR);
    expect(await standing(host, eventId)).toMatchObject(OPEN);
    expect(wire.ids).toEqual([eventId]);
    // The final text is no second answer.
    const saying = host.call(wire, 'chat.send_message', said({ text: 'lunch?', idempotencyKey: 'more' }));
    await host.pass(6000);
    const more = MessageId.parse((await saying)['eventId']);
    expect((await host.workspace.own.journal.message(more))?.thread).toBeUndefined();
    isDown = false;
    await host.pass(120_000);
    expect(await standing(host, eventId)).toMatchObject(RESPONDED);
    await host.pass(HOUR);
    expect(await standing(host, eventId)).toMatchObject(RESPONDED);
    expect(wire.ids).toEqual([eventId]);
    expect(new Set(surface.wire.shown.map(({ id }) => id)).size).toBe(2);
  });

  it('does not count as silence for an event that may be answered', async () => {
    const { host, wire, surface } = await aTown();
    const { eventId } = await surface.dm('U1', 'lead', 'the lock was free', { intent: 'fyi' });
    await host.pass(5000);
    host.host.gone(surface.wire);
    await host.call(wire, 'chat.send_message', said({ inReplyTo: eventId }));
    await host.pass(HOUR);
    expect(await host.ended('lead', eventId)).toBeNull();
    await new TestSurface(host).bind();
    await host.pass(5000);
    expect(await host.ended('lead', eventId)).toBe('responded');
  });

  it('waits for a surface that went away in the middle, and is an answer when that is back', async () => {
    const { host, wire, surface } = await aTown();
    const { eventId } = await surface.dm('U1', 'lead', 'is the lock free?');
    await host.pass(5000);
    surface.wire.showing = () => new Promise(() => {});
    const sending = host.call(wire, 'chat.send_message', said());
    await host.calm();
    expect(surface.wire.shown).toHaveLength(1);
    host.host.gone(surface.wire);
    expect(await sending).toMatchObject({ shown: false });
    // A turn that fails afterwards must not cause a second answer.
    await host.host.turn(wire, { sessionId: 'lead', state: 'failed', eventIds: [eventId] });
    await host.pass(HOUR);
    expect(await standing(host, eventId)).toMatchObject(OPEN);
    expect(wire.ids).toEqual([eventId]);
    const back = await new TestSurface(host).bind();
    await host.pass(5000);
    expect(back.wire.shown).toEqual(surface.wire.shown);
    expect(await standing(host, eventId)).toMatchObject(RESPONDED);
  });

  it.each([
    { what: 'shows', codes: [200], ends: RESPONDED },
    { what: 'refuses', codes: [403], ends: FAILED },
  ])('outlives its host: the next one $what it, and the event ends once', async ({ codes, ends }) => {
    const { host, wire, surface, token } = await aTown();
    const { eventId } = await surface.dm('U1', 'lead', 'is the lock free?');
    await host.pass(5000);
    const asked = Promise.withResolvers<void>();
    surface.wire.showing = () => {
      asked.resolve();
      return new Promise(() => {});
    };
    void host.call(wire, 'chat.send_message', said());
    await asked.promise;
    await host.calm();
    // Killed while the surface was about to answer: it does nothing more and releases nothing.
    const next = new TestHost(host.workspace);
    await next.host.start();
    const again = new FakeWire();
    await next.bind(again, 'lead', { token });
    const back = new TestSurface(next);
    saysNo(back, ...codes);
    expect(await standing(next, eventId)).toMatchObject(OPEN);
    await back.bind();
    await next.pass(HOUR);
    expect(new Set([...surface.wire.shown, ...back.wire.shown].map(({ id }) => id)).size).toBe(1);
    expect(await standing(next, eventId)).toMatchObject(ends);
    expect(again.ids).toEqual([]);
  });

  it('keeps what it answers out of sight also where no session holds that, and ends it when it is shown', async () => {
    const { host, wire, surface } = await aTown();
    host.host.gone(wire);
    const { eventId } = await surface.dm('U1', 'lead', 'is the lock free?');
    host.host.gone(surface.wire);
    const { workspace } = host;
    await answer(workspace, workspace.who('lead'), workspace.own, eventId, aDraft({ body: 'it is' }));
    expect(await workspace.own.mailboxes.ids(lead)).toEqual([]);
    expect(await standing(host, eventId)).toMatchObject(OPEN);
    const back = await new TestSurface(host).bind();
    await host.pass(5000);
    expect(back.wire.shown.map(({ text }) => text)).toEqual(['it is']);
    expect(await standing(host, eventId)).toMatchObject(RESPONDED);
  });

  it('that its sender withdrew does not count: the event is still owed, and returns', async () => {
    const { host, wire, surface } = await aTown();
    const { eventId } = await surface.dm('U1', 'lead', 'is the lock free?');
    await host.pass(5000);
    host.host.gone(surface.wire);
    const sent = await host.call(wire, 'chat.send_message', said());
    await withdraw(lead, host.workspace.own, MessageId.parse(sent['eventId']));
    await host.pass(120_000);
    expect(await standing(host, eventId)).toMatchObject(OPEN);
    expect(wire.ids).toEqual([eventId, eventId]);
  });
});

it('an answer to an agent whose name only looks like a surface’s has arrived when it is stored', async () => {
  const host = await aHost('lead', 'web.ci');
  const wire = new FakeWire();
  await host.bind(wire, 'lead');
  const { message } = await host.send('web.ci', '@lead', 'is the lock free?');
  await host.pass(1000);
  await host.call(wire, 'chat.send_message', said({ target: '@web.ci', inReplyTo: message.id }));
  expect(await standing(host, message.id)).toMatchObject(RESPONDED);
});

it('a surface is seen as long as it is connected, so that other processes know whether to wait for it', async () => {
  const { host, surface } = await aTown();
  const seenAgo = async () => {
    const record = await host.workspace.own.directory.get(AgentName.parse('slack._surface'));
    return host.workspace.now() - Date.parse(record?.lastSeen ?? '');
  };
  await host.pass(HOUR);
  expect(await seenAgo()).toBeLessThan(62_000);
  host.host.gone(surface.wire);
  await host.pass(HOUR);
  expect(await seenAgo()).toBeGreaterThanOrEqual(HOUR);
  await new TestSurface(host).bind();
  expect(await seenAgo()).toBe(0);
});
