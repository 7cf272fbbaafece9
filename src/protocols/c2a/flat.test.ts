import { describe, expect, it } from 'bun:test';
import { HostLine } from '../../../test/support/host-line.ts';
import { aHost } from '../../../test/support/host.ts';
import { anInitialize, Talk } from '../../../test/support/host-server.ts';
import { giveRole } from '../../core/obligations/owners.ts';
import { AgentName } from '../../core/names.ts';

const DRAFT = '2026-08-11';

/** Two agents and a lead, and a harness of the newest draft for one of them. */
async function aDesk(agent = 'bob') {
  const host = await aHost('bob', 'ada', 'chief');
  await host.host.start();
  await giveRole(host.workspace.who('chief'), AgentName.parse('lead'));
  const line = new HostLine(host);
  await line.done('initialize', anInitialize({ protocolVersion: DRAFT }));
  await line.done('session/bind', { sessionId: agent, identities: [agent] });
  return { host, line };
}

describe('for a peer of the draft of 2026-08-11', () => {
  it('an event is flat, with its time and its recipients by identity', async () => {
    const { host, line } = await aDesk();
    const { message } = await host.send('ada', '@bob', 'can you look?', { refs: ['src/a.ts'] });
    await host.pass(5000);
    expect(line.events).toMatchObject([
      {
        eventId: message.id,
        createdAt: message.ts,
        conversation: { kind: 'dm' },
        author: { id: 'ada', kind: 'agent', displayName: 'ada' },
        recipients: [{ id: 'bob', kind: 'agent', displayName: 'bob' }],
        addressedToMe: true,
        policy: 'must_respond',
        content: 'can you look?\nsrc/a.ts',
      },
    ] as never);
    expect(line.events[0]).not.toHaveProperty('obligation');
  });

  it('an obligation names its discharge delegate, and a knock says what its author does otherwise', async () => {
    const { host, line } = await aDesk();
    const obligation = { blocks: 'halted', defaultAction: 'keep the deploy paused', delegate: 'chief' };
    await host.send('ada', '@bob', 'free the lock', { obligation });
    await host.pass(400_000);
    const dischargeDelegate = { id: 'chief', kind: 'agent', displayName: 'chief' };
    expect(line.events).toMatchObject([
      { obligation: { blocks: 'halted', defaultAction: 'keep the deploy paused', dischargeDelegate } },
      { knock: { defaultAction: 'keep the deploy paused' }, returns: 1, obligation: { dischargeDelegate } },
    ] as never);
    expect(line.prompts[1]).toContain('otherwise: "keep the deploy paused"');
  });

  it('a delegate can be named in the shape of the draft, and is the coordinator if none is named', async () => {
    const { host, line } = await aDesk();
    const send = (text: string, obligation: object) =>
      line.done('chat.send_message', {
        target: '@ada',
        text,
        idempotencyKey: text,
        visibility: 'dm',
        directedness: 'to_me',
        obligation: { blocks: 'halted', ...obligation },
      });
    const named = await send('free the lock', { dischargeDelegate: { id: 'bob', kind: 'agent' } });
    const plain = await send('and the other one', {});
    const delegates = [named, plain].map(async ({ eventId }) => {
      const message = await host.workspace.own.journal.message(eventId as never);
      return String(message?.parley?.obligation?.delegate);
    });
    expect(await Promise.all(delegates)).toEqual(['bob', 'chief']);
  });

  it('a reaction is an event with its own id, and `done` of another agent does not end one’s own work', async () => {
    const { host, line } = await aDesk('ada');
    const { message } = await host.send('ada', '@bob', 'please approve', { intent: 'approval' });
    await line.done('session/bind', { sessionId: 'all', identities: ['ada'], deliver: 'all' });
    const other = new HostLine(host);
    await other.bind('bob');
    await host.pass(5000);
    await other.done('chat.react', { inReplyTo: message.id, signal: 'done' });
    await host.pass(10_000);
    const event = line.events.find(({ reaction }) => reaction !== undefined);
    expect(event?.reaction).toMatchObject({
      reactionId: event?.eventId,
      targetEventId: message.id,
      createdAt: event?.createdAt,
      actor: { id: 'bob', kind: 'agent' },
      signal: 'done',
    });
    expect(event?.reaction).not.toHaveProperty('means');
    const [listed] = await line.listed({ sessionId: 'all' });
    expect(listed).toMatchObject({ signal: 'done' });
    expect(listed).not.toHaveProperty('means');
  });

  it('a surface may send reactions, recipients and delegates in the shape of the draft', async () => {
    const talk = await new Talk().initialized({ protocolVersion: DRAFT, role: 'surface' });
    await talk.ask('surface/react', {
      reactionId: 'rxn_9',
      targetEventId: 'evt_123',
      createdAt: '2026-08-11T15:40:03Z',
      actor: { id: 'U123', kind: 'human' },
      signal: 'done',
      recipient: { id: 'bob', kind: 'agent' },
    });
    await talk.ask('surface/post', {
      eventId: 'evt_124',
      createdAt: '2026-08-11T14:02:11Z',
      conversation: { id: 'D1', kind: 'dm' },
      author: { id: 'U123', kind: 'human', displayName: 'Will' },
      recipients: [{ id: 'bob', kind: 'agent' }],
      obligation: { blocks: 'halted', dischargeDelegate: { id: 'ada', kind: 'agent' } },
      content: 'is it blocked?',
    });
    expect(talk.engine.asked.map((one) => one.with)).toMatchObject([
      { reactionId: 'rxn_9', messageId: 'evt_123', author: 'U123', signal: 'done', recipient: 'bob' },
      { messageId: 'evt_124', recipient: 'bob', obligation: { blocks: 'halted', delegate: 'ada' } },
    ]);
  });

  it('a DM with several recipients is refused, so that none is left out silently', async () => {
    const talk = await new Talk().initialized({ protocolVersion: DRAFT, role: 'surface' });
    const post = { eventId: 'evt_1', author: { id: 'U123', kind: 'human' }, content: 'hello' };
    const recipients = ['bob', 'ada'].map((id) => ({ id, kind: 'agent' }));
    const refused = await talk.ask('surface/post', { ...post, conversation: { id: 'D1', kind: 'dm' }, recipients });
    expect(JSON.stringify(refused)).toContain('a DM has one recipient');
    await talk.ask('surface/post', { ...post, conversation: { id: 'C1', kind: 'channel' }, recipients });
    expect(talk.engine.asked.map((one) => one.with)).toMatchObject([{ conversation: { id: 'C1' } }]);
  });

  it('one call lists what it owes, one what it waits for, both with what halts work first', async () => {
    const { host, line } = await aDesk();
    const other = await new HostLine(host).bind('ada');
    const slow = await host.send('ada', '@bob', 'no hurry', { obligation: { blocks: 'none' } });
    const plain = await host.send('ada', '@bob', 'and what is this?');
    const halted = await host.send('ada', '@bob', 'free the lock', { obligation: { blocks: 'halted' } });
    const order = [halted, slow, plain].map(({ message }) => ({
      eventId: message.id,
      recipient: 'bob',
      author: 'ada',
    }));
    expect(await line.done('session/owed', {})).toMatchObject({ events: order, more: false });
    expect(await other.done('session/blocking', {})).toMatchObject({ events: order });
    expect(await line.done('session/blocking', {})).toEqual({ events: [], more: false });
    const delegate = await new HostLine(host).bind('chief');
    const handed = await host.send('ada', '@bob', 'and that', { obligation: { blocks: 'none', delegate: 'chief' } });
    expect(await delegate.done('session/blocking', {})).toMatchObject({ events: [{ eventId: handed.message.id }] });
    await other.done('chat.react', { inReplyTo: handed.message.id, signal: 'done', recipient: 'bob' });
    expect(await delegate.done('session/blocking', {})).toEqual({ events: [], more: false });
  });
});
