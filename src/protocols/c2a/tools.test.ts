import { describe, expect, it } from 'bun:test';
import { aHost, FakeWire } from '../../../test/support/host.ts';
import { inChannel } from '../../../test/support/workspace.ts';
import { AgentName } from '../../core/names.ts';
import { blocked } from '../../core/obligations/owed.ts';

async function twoSessions() {
  const host = await aHost('lead', 'dev', 'bob');
  const [lead, dev] = [new FakeWire(), new FakeWire()];
  await host.bind(lead, 'lead');
  await host.bind(dev, 'dev');
  return { host, lead, dev };
}

const said = (fields: object): object => ({
  target: '@dev',
  text: 'please rerun the tests',
  idempotencyKey: 'k',
  visibility: 'dm',
  directedness: 'to_me',
  ...fields,
});

describe('the tools', () => {
  it('send once per key, however many ask at the same time, and all get one answer [C2A-9] [C2A-121]', async () => {
    const { host, lead, dev } = await twoSessions();
    const sent = await Promise.all(Array.from({ length: 10 }, () => host.call(lead, 'chat.send_message', said({}))));
    expect(new Set(sent.map(({ eventId }) => eventId)).size).toBe(1);
    await host.pass(1000);
    expect(dev.texts).toEqual(['please rerun the tests']);
    await expect(host.call(lead, 'chat.send_message', said({ text: 'other words' }))).rejects.toMatchObject({
      code: 'key_conflict',
    });
  });

  it('let two sessions talk: what one says to another must be answered there, and the answer ends it [C2A-96a]', async () => {
    const { host, lead, dev } = await twoSessions();
    const { eventId } = await host.call(lead, 'chat.send_message', said({}));
    await host.pass(1000);
    expect(dev.delivered).toMatchObject([
      { eventId, attention: { policy: 'must_respond' }, target: { directedness: 'to_me' } },
    ]);
    const reply = dev.prompts[0]?.match(/^reply_target: (.*)$/m)?.[1] ?? '';
    await host.call(dev, 'chat.send_message', said({ target: reply, text: 'they pass', inReplyTo: eventId }));
    await host.pass(1000);
    expect(lead.texts).toEqual(['they pass']);
    expect(await host.ended('dev', String(eventId))).toBe('responded');
  });

  it('refuse an answer to what must not be answered, and nothing is sent [C2A-3] [C2A-61] [C2A-88]', async () => {
    const { host, lead } = await twoSessions();
    await inChannel(host.workspace, '#c', 'lead', 'bob');
    const { message } = await host.send('bob', '#c', 'lunch?');
    await host.call(lead, 'chat.list_events', {});
    const answer = said({ target: '#c', inReplyTo: message.id, visibility: 'thread', directedness: 'ambient' });
    await expect(host.call(lead, 'chat.send_message', answer)).rejects.toThrow('must_not_respond');
    expect(await host.workspace.own.journal.history({ limit: 10 })).toHaveLength(1);
  });

  it('act for the mailbox that has the event, if a session has several', async () => {
    const host = await aHost('lead', 'ops', 'bob');
    const wire = new FakeWire();
    await host.bind(wire, ['lead', 'ops']);
    const { message } = await host.send('bob', '@ops', 'please look');
    await host.pass(1000);
    await host.call(wire, 'chat.react', { inReplyTo: message.id, signal: 'working' });
    expect(await host.workspace.own.journal.eventClaim(message.id, host.workspace.now())).toMatchObject({
      holder: 'ops',
    });
  });

  it('defer with a reason, and it is owed again at its time; resolving ends it', async () => {
    const { host, lead } = await twoSessions();
    await host.host.start();
    const { message } = await host.send('bob', '@lead', 'please look');
    await host.pass(1000);
    const until = new Date(host.workspace.now() + 3_600_000).toISOString();
    expect(await host.call(lead, 'chat.defer', { eventId: message.id, reason: 'after the deploy', until })).toEqual({
      disposition: 'deferred',
      until,
    });
    await host.pass(3_500_000);
    expect(lead.delivered).toHaveLength(1);
    await host.pass(110_000);
    expect(lead.delivered).toMatchObject([{}, { eventId: message.id, reliability: { attempt: 2 } }]);
    expect(await host.call(lead, 'chat.resolve', { eventId: message.id })).toEqual({ resolved: [message.id] });
    expect(await host.ended('lead', message.id)).toBe('responded');
  });

  it.each([
    { what: 'an answer', fields: {} },
    { what: 'work that others wait for', fields: { obligation: { blocks: 'halted' } } },
  ])('put off $what with a reason only, keep it, and show it to its author [C2A-124]', async ({ fields }) => {
    const { host, lead } = await twoSessions();
    const { message } = await host.send('bob', '@lead', 'please look', fields);
    await host.pass(1000);
    const eventId = message.id;
    await expect(host.call(lead, 'chat.defer', { eventId })).rejects.toThrow('reason');
    await expect(host.call(lead, 'chat.defer', { eventId, reason: ' ' })).rejects.toThrow('say why');
    expect((await blocked(host.workspace.who('bob'), { limit: 10 })).obligations).toMatchObject([
      { state: 'open', note: null },
    ]);
    await host.call(lead, 'chat.defer', { eventId, reason: 'after the deploy' });
    expect((await blocked(host.workspace.who('bob'), { limit: 10 })).obligations).toMatchObject([
      { id: eventId, state: 'deferred', note: 'after the deploy', ended: null },
    ]);
    const receipts = (await host.workspace.own.journal.trace(eventId))?.copies.flatMap((copy) => copy.receipts) ?? [];
    expect(receipts.find(({ step }) => step === 'deferred')?.evidence).toMatchObject({ reason: 'after the deploy' });
  });

  it('give a claim to one only, and tell the other who has it', async () => {
    const { host, lead, dev } = await twoSessions();
    await inChannel(host.workspace, '#c', 'lead', 'dev', 'bob');
    const { message } = await host.send('bob', '#c', '@lead @dev who can look at this?');
    await host.pass(1000);
    await host.call(lead, 'chat.claim', { eventId: message.id });
    await expect(host.call(dev, 'chat.claim', { eventId: message.id })).rejects.toThrow('@lead');
    await host.call(lead, 'chat.claim', { eventId: message.id, release: true });
    expect(await host.call(dev, 'chat.claim', { eventId: message.id })).toMatchObject({ claimed: true });
  });

  it('leave a trace of every offer, acceptance and end [C2A-170]', async () => {
    const { host, lead } = await twoSessions();
    const { message } = await host.send('bob', '@lead', 'please look');
    await host.pass(1000);
    await host.call(lead, 'chat.react', { inReplyTo: message.id, signal: 'done' });
    const copy = (await host.workspace.own.journal.trace(message.id))?.copies.find(
      ({ mailbox }) => mailbox === AgentName.parse('lead'),
    );
    const steps = copy?.receipts.map(({ step }) => step) ?? [];
    expect(steps.slice(0, 2)).toEqual(['offered', 'accepted']);
    expect(steps).toContain('reacted');
    expect(copy?.receipts[0]?.evidence).toMatchObject({ way: 'host', session: 'lead', attempt: 1 });
    expect(copy).toMatchObject({ disposition: 'responded', settledBy: { signal: 'done' } });
  });

  it('may say something unasked to a person whose word is needed [C2A-87]', async () => {
    const { host, lead } = await twoSessions();
    const asked = await host.call(
      lead,
      'chat.send_message',
      said({ target: '@will', text: 'Which region shall I use?' }),
    );
    const copy = await host.workspace.own.journal.copy(AgentName.parse('will'), asked['eventId'] as never);
    expect(copy?.attention).toMatchObject({ directedness: 'to_me', policy: 'must_respond' });
  });
});
