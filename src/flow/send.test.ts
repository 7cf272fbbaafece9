import { describe, expect, it } from 'bun:test';
import { aDesk, aDraft } from '../../test/support/desk.ts';
import { alice, bob } from '../../test/support/mail.ts';
import type { Message } from '../protocol/message.ts';
import { AgentName } from '../protocol/names.ts';
import { send } from './send.ts';

describe('send', () => {
  it('decides the lineage from what is stored and believes nobody else', async () => {
    const desk = await aDesk('alice', 'bob');
    const first = await send(desk, alice, aDraft());
    const forged = { root: 'x', hop: 0, visited: [], stale: 0 };
    const second = await send(
      desk,
      bob,
      aDraft({ to: '@alice', thread: first.message.id, lineage: forged, parley: { lineage: forged } }),
    );
    const third = await send(desk, alice, aDraft({ thread: second.message.id }));
    expect(first.message.parley).toBeUndefined();
    expect(third.message.parley?.lineage).toMatchObject({ root: first.message.id, hop: 2, visited: ['alice', 'bob'] });
  });

  it('stops an exchange of two agents in which nothing new is said, and lets a new fact through again', async () => {
    const desk = await aDesk('alice', 'bob');
    let last = await send(desk, alice, aDraft({ body: 'shall we look at the parser together' }));
    for (let hop = 1; hop <= 8; hop++) {
      last = await reply(desk, last.message, 'happy to continue whenever you are ready to go on with it');
    }
    expect(last.copies[0]?.attention).toMatchObject({
      reason: 'loop',
      policy: 'must_not_respond',
      injection: 'notify',
    });
    last = await reply(desk, last.message, 'it fails in src/parser.ts:118');
    expect(last.copies[0]?.attention).toMatchObject({ reason: 'thread_reply', injection: 'buffered' });
  });

  it('hears whoever asks for something, also when the exchange had gone round in circles', async () => {
    const desk = await aDesk('alice', 'bob');
    let last = await send(desk, alice, aDraft());
    for (let hop = 1; hop <= 8; hop++) last = await reply(desk, last.message, 'let us go on with it then');
    const stop = await send(
      desk,
      AgentName.parse(last.message.to.slice(1)),
      aDraft({ to: `@${last.message.from}`, thread: last.message.id, body: 'stop', intent: 'blocker' }),
    );
    expect(stop.copies[0]?.attention).toMatchObject({ policy: 'must_respond', injection: 'immediate' });
  });

  it('counts a person’s word as news: agents may answer it', async () => {
    const desk = await aDesk('alice', 'bob');
    const will = AgentName.parse('will');
    await desk.own.directory.register(will, 'human');
    let last = await send(desk, alice, aDraft());
    for (let hop = 1; hop <= 8; hop++) last = await reply(desk, last.message, 'shall we go on with it then');
    const asked = await send(desk, will, aDraft({ to: '@alice', thread: last.message.id, body: 'well, go on' }));
    const answered = await send(desk, alice, aDraft({ thread: asked.message.id, body: 'we do' }));
    expect(answered.copies[0]?.attention.reason).not.toBe('loop');
  });

  it('keeps thanks from starting a turn [C2A-N5]', async () => {
    const desk = await aDesk('alice', 'bob');
    const { copies } = await send(desk, alice, aDraft({ body: 'thanks!' }));
    expect(copies[0]?.attention).toMatchObject({ policy: 'ack_only', injection: 'silent' });
  });

  it('shows everything to an agent that keeps no policy', async () => {
    const desk = await aDesk('alice');
    await desk.own.directory.register(bob, 'foreign');
    const { copies } = await send(desk, alice, aDraft({ body: 'thanks!' }));
    expect(copies[0]?.attention).toMatchObject({ injection: 'buffered', reason: 'no_policy' });
  });

  it('delivers a note to oneself', async () => {
    const desk = await aDesk('alice');
    const { copies } = await send(desk, alice, aDraft({ to: '@alice' }));
    expect(copies).toMatchObject([{ mailbox: 'alice', attention: { injection: 'buffered' } }]);
  });
});

async function reply(desk: Awaited<ReturnType<typeof aDesk>>, to: Message, body: string) {
  const from = AgentName.parse(to.to.slice(1));
  return send(desk, from, aDraft({ to: `@${to.from}`, thread: to.id, body }));
}
