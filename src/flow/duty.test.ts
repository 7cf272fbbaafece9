import { describe, expect, it } from 'bun:test';
import { aDraft } from '../../test/support/desk.ts';
import { alice, bob, carol } from '../../test/support/mail.ts';
import { aWorkspace, anOwner, inChannel, withRole } from '../../test/support/workspace.ts';
import type { TestWorkspace } from '../../test/support/workspace.ts';
import { AgentName } from '../protocol/names.ts';
import type { MessageId } from '../protocol/names.ts';
import { defer } from './defer.ts';
import { deliver } from './deliver.ts';
import { dutyFor, enterDuties } from './duty.ts';
import { dispositionOf, readThread } from './events.ts';
import { blocked, owe } from './owe.ts';
import { react } from './react.ts';
import { resolve } from './resolve.ts';
import type { Who } from './desk.ts';
import { answer, send } from './send.ts';
import { settle, withdraw } from './settle.ts';
import { tick } from './tick.ts';

const MINUTE = 60_000;
const PAGE = { limit: 20 };

describe('what is owed', () => {
  it.each([
    ['a direct message [C2A-82]', async (desk: TestWorkspace) => send(desk, alice, aDraft())],
    [
      'a direct mention [C2A-83]',
      async (desk: TestWorkspace) => {
        await inChannel(desk, '#dev', 'bob');
        return send(desk, alice, aDraft({ to: '#dev', body: '@bob look at this' }));
      },
    ],
    ['assigned work [C2A-84]', async (desk: TestWorkspace) => send(desk, alice, aDraft({ intent: 'assignment' }))],
    [
      'a direct question in a thread that it takes part in [C2A-85]',
      async (desk: TestWorkspace) => {
        await inChannel(desk, '#dev', 'bob', 'alice');
        const { message } = await send(desk, bob, aDraft({ to: '#dev', body: 'the build is red' }));
        return send(desk, alice, aDraft({ to: '#dev', thread: message.id, body: 'since when?' }));
      },
    ],
  ])('is %s, also after it was shown, until it is answered', async (_what, act) => {
    const desk = await aWorkspace('alice', 'bob');
    const { message } = await act(desk);
    expect((await owe(desk.who('bob'), PAGE)).duties).toMatchObject([{ id: message.id, from: 'alice', kind: 'reply' }]);
    await deliver(desk.who('bob'), [message.id], { disposition: 'acknowledged', by: { by: 'hook' } }, () => ({
      show: () => {},
      slow: false,
    }));
    expect((await owe(desk.who('bob'), PAGE)).duties).toMatchObject([{ id: message.id }]);
    await answer(desk, desk.who('bob'), desk.own, message.id, aDraft({ body: 'since this morning, commit 1a2b3c4' }));
    expect(await owe(desk.who('bob'), PAGE)).toMatchObject({ duties: [], count: 0 });
  });

  it('is told from both sides, one call each', async () => {
    const desk = await aWorkspace('alice', 'bob', 'carol');
    const first = await send(desk, alice, aDraft());
    await send(desk, carol, aDraft({ to: '@alice' }));
    await answer(
      desk,
      desk.who('alice'),
      desk.own,
      (await send(desk, carol, aDraft({ to: '@alice' }))).message.id,
      aDraft(),
    );
    expect((await owe(desk.who('alice'), PAGE)).count).toBe(1);
    const waited = await blocked(desk.who('alice'), PAGE);
    expect(waited.duties.map(({ id, mailbox }) => [id, mailbox])).toEqual([[first.message.id, bob]]);
    expect(waited.duties[0]?.message?.body).toBe('hello');
  });

  it('stays owed when it was only shown', async () => {
    const desk = await aWorkspace('alice', 'bob');
    const { message } = await send(desk, alice, aDraft());
    await deliver(desk.who('bob'), [message.id], { disposition: 'acknowledged', by: { by: 'hook' } }, () => ({
      show: () => {},
      slow: false,
    }));
    expect((await owe(desk.who('bob'), PAGE)).count).toBe(1);
    await settle(desk.who('bob'), message.id, 'acknowledged', { by: 'ack', agent: 'bob' }, false, desk.now());
    expect((await owe(desk.who('bob'), PAGE)).count).toBe(0);
    expect(await ending(desk, bob, message.id)).toBe('acknowledged');
  });

  it('ends in the same moment in which it is answered or acknowledged', async () => {
    const desk = await aWorkspace('alice', 'bob');
    const first = await send(desk, alice, aDraft());
    const second = await send(desk, alice, aDraft());
    expect((await owe(desk.who('bob'), PAGE)).count).toBe(2);
    await send(desk, bob, aDraft({ to: '@alice', thread: first.message.id, body: 'in 1a2b3c4' }));
    expect(await ending(desk, bob, first.message.id)).toBe('responded');
    await settle(desk.who('bob'), second.message.id, 'acknowledged', { by: 'ack' }, false, desk.now());
    expect(await ending(desk, bob, second.message.id)).toBe('acknowledged');
  });

  it('is as it stands, whenever somebody first looks: what was ended before is entered as ended', async () => {
    const desk = await aWorkspace('alice', 'bob', 'carol');
    await inChannel(desk, '#dev', 'bob', 'carol');
    const acked = await send(desk, alice, aDraft());
    const handled = await send(desk, alice, aDraft({ to: '#dev', body: '@bob @carol look' }));
    await settle(desk.who('bob'), acked.message.id, 'acknowledged', { by: 'ack' }, false, desk.now());
    const fields = { thread: handled.message.id, signal: 'done', recipient: 'bob', body: 'done' };
    await send(desk, alice, aDraft(fields));
    await enterDuties(desk.own);
    expect(await ending(desk, bob, acked.message.id)).toBe('acknowledged');
    expect(await ending(desk, bob, handled.message.id)).toBe('responded');
    expect(await ending(desk, carol, handled.message.id)).toBeNull();
  });

  it('does not end by a send that crossed it on the way, or by a question', async () => {
    const desk = await aWorkspace('alice', 'bob');
    const { message } = await send(desk, alice, aDraft({ body: 'deploy now?', intent: 'question' }));
    await send(desk, bob, aDraft({ to: '@alice', body: 'the parser is done' }));
    expect((await owe(desk.who('bob'), PAGE)).count).toBe(1);
    desk.pass(1000);
    await read(desk.who('bob'), message.id);
    await send(desk, bob, aDraft({ to: '@alice', body: 'what is the password?', intent: 'question' }));
    expect((await owe(desk.who('bob'), PAGE)).count).toBe(1);
  });

  it('ends by a plain send to whoever waits, which says nothing of a thread', async () => {
    const desk = await aWorkspace('alice', 'bob');
    const { message } = await send(desk, alice, aDraft());
    await read(desk.who('bob'), message.id);
    expect((await owe(desk.who('bob'), PAGE)).count).toBe(1);
    await send(desk, bob, aDraft({ to: '@alice', body: 'it is done in 1a2b3c4' }));
    expect((await owe(desk.who('bob'), PAGE)).duties).toEqual([]);
    expect(await ending(desk, bob, message.id)).toBe('responded');
  });

  it('is put off with a reason, stays owed, and comes back at its time [C2A-124, C2A-109]', async () => {
    const desk = await aWorkspace('alice', 'bob');
    const { message } = await send(desk, alice, aDraft());
    const until = new Date(desk.now() + 20 * MINUTE).toISOString();
    await expect(defer(desk, desk.who('bob'), message.id, { reason: ' ' })).rejects.toMatchObject({
      code: 'invalid_request',
    });
    const duty = await defer(desk, desk.who('bob'), message.id, { reason: 'after the deploy', until });
    expect(dispositionOf(duty)).toBe('deferred');
    const [waited] = (await blocked(desk.who('alice'), PAGE)).duties;
    expect(waited).toMatchObject({ state: 'deferred', note: 'after the deploy' });
    expect((await owe(desk.who('bob'), PAGE)).count).toBe(1);
    expect(await desk.live(19 * MINUTE)).toEqual([]);
    expect(await desk.live(2 * MINUTE)).toMatchObject([{ id: message.id, state: 'open' }]);
  });

  it('comes back after half an hour if nobody said when [C2A-D10]', async () => {
    const desk = await aWorkspace('alice', 'bob');
    const { message } = await send(desk, alice, aDraft());
    await defer(desk, desk.who('bob'), message.id, { reason: 'later' });
    expect(await desk.live(29 * MINUTE)).toEqual([]);
    expect(await desk.live(2 * MINUTE)).toHaveLength(1);
  });

  it('is not put off where nothing is owed, and not by a stranger', async () => {
    const desk = await aWorkspace('alice', 'bob', 'carol');
    const { message } = await send(desk, alice, aDraft({ intent: 'fyi' }));
    await expect(defer(desk, desk.who('bob'), message.id, { reason: 'x' })).rejects.toMatchObject({
      code: 'invalid_request',
    });
    await expect(defer(desk, desk.who('carol'), message.id, { reason: 'x' })).rejects.toMatchObject({
      code: 'not_found',
    });
  });

  it('is all closed by resolving the exchange in which it is owed, and nothing of others is [C2A-125]', async () => {
    const desk = await aWorkspace('alice', 'bob', 'carol');
    const root = await send(desk, alice, aDraft());
    const other = await send(desk, carol, aDraft());
    const more = await send(
      desk,
      alice,
      aDraft({ thread: root.message.id, intent: 'question', body: 'and the tests?' }),
    );
    const told = await send(desk, alice, aDraft({ thread: root.message.id, intent: 'fyi', body: 'src/a.ts moved' }));
    const asked = { to: '@carol', thread: root.message.id, intent: 'question', body: 'and you?' };
    const theirs = await send(desk, alice, aDraft(asked));
    const closed = await resolve(desk, desk.who('bob'), root.message.id, 'all in 1a2b3c4');
    expect(closed).toEqual([root.message.id, more.message.id, told.message.id]);
    const { duties } = await owe(desk.who('bob'), PAGE);
    expect(duties.map(({ id }) => id)).toEqual([other.message.id]);
    expect(await ending(desk, bob, more.message.id)).toBe('responded');
    expect(await desk.own.ledger.copy(bob, told.message.id)).toMatchObject({ disposition: 'responded' });
    expect(await ending(desk, carol, theirs.message.id)).toBeNull();
  });

  it('is closed by resolving the one event or the assignment, by its reader or by who waits for it [C2A-125]', async () => {
    const desk = await aWorkspace('alice', 'bob', 'carol');
    const root = await send(desk, alice, aDraft({ intent: 'assignment' }));
    const inIt = { thread: root.message.id, intent: 'question', body: 'and the tests?' };
    const { message } = await send(desk, alice, aDraft(inIt));
    expect(await resolve(desk, desk.who('bob'), message.id)).toEqual([message.id]);
    expect((await owe(desk.who('bob'), PAGE)).duties.map(({ id }) => id)).toEqual([root.message.id]);
    expect(await resolve(desk, desk.who('alice'), root.message.id)).toEqual([root.message.id]);
    expect((await owe(desk.who('bob'), PAGE)).count).toBe(0);
    const halted = await send(desk, alice, aDraft({ obligation: { blocks: 'halted', delegate: 'carol' } }));
    expect(await resolve(desk, desk.who('bob'), halted.message.id)).toEqual([]);
    expect(await resolve(desk, desk.who('carol'), halted.message.id)).toEqual([halted.message.id]);
  });
});

describe('an unanswered message', () => {
  it('is offered to the same reader again, twice, before one other hears of it, and then runs out [C2A-153, C2A-154, C2A-D11]', async () => {
    const desk = await aWorkspace('alice', 'bob', 'carol', 'dora');
    const will = await anOwner(desk);
    const { message } = await send(desk, alice, aDraft());
    expect(await desk.live(99_000)).toEqual([]);
    expect(await desk.live(2_000)).toMatchObject([{ mailbox: 'bob', returns: 1 }]);
    expect(await desk.live(100_000)).toMatchObject([{ mailbox: 'bob', returns: 2 }]);
    expect((await owe({ name: will, home: desk.own }, PAGE)).count).toBe(0);
    expect(await desk.live(100_000)).toEqual([]);
    const { duties } = await owe({ name: will, home: desk.own }, PAGE);
    expect(duties).toMatchObject([{ tier: 2, message: { thread: message.id } }]);
    for (const name of ['carol', 'dora', 'alice']) expect(await desk.own.spool.peek(AgentName.parse(name))).toEqual([]);
    expect(await ending(desk, bob, message.id)).toBeNull();
    await desk.live(10 * MINUTE);
    expect(await ending(desk, bob, message.id)).toBe('failed');
    expect((await desk.own.ledger.duty(bob, message.id))?.ended?.by).toMatchObject({ reason: 'expired' });
  });

  it.each([
    ['who owns the exchange', { owner: 'dora', owns: 'exchange', lead: 'carol' }, 'dora'],
    ['who owns the channel', { owner: 'dora', owns: '#dev', lead: 'carol' }, 'dora'],
    ['a lead, where nobody owns it', { owner: 'dora', owns: '#ops', lead: 'carol' }, 'carol'],
    ['a lead, where the one who owes it owns it', { owner: 'bob', owns: '#dev', lead: 'carol' }, 'carol'],
    ['a lead, where the one who waits for it owns it', { owner: 'alice', owns: '#dev', lead: 'carol' }, 'carol'],
    ['the person, where the one who owes it is the lead', { owner: 'dora', owns: '#ops', lead: 'bob' }, 'will'],
    ['the person, where there is no lead', { owner: 'dora', owns: '#ops', lead: null }, 'will'],
  ])('goes to exactly one, %s, and the audit says to whom [C2A-155]', async (_whom, { owner, owns, lead }, to) => {
    const desk = await aWorkspace('alice', 'bob', 'carol', 'dora');
    await anOwner(desk);
    await inChannel(desk, '#dev', 'bob');
    if (lead) await withRole(desk, 'lead', lead);
    const { message } = await send(desk, alice, aDraft({ to: '#dev', body: '@bob look at this' }));
    await desk.own.directory.amend(AgentName.parse(owner), () => ({ owns: [owns === 'exchange' ? message.id : owns] }));
    await desk.live(5 * MINUTE + 1000);
    const waiting = ['alice', 'carol', 'dora', 'will'].map(async (name) => {
      const ids = await desk.own.spool.ids(AgentName.parse(name));
      return ids.map(() => name);
    });
    expect((await Promise.all(waiting)).flat()).toEqual([to]);
    const trace = await desk.own.ledger.trace(message.id);
    const told = trace?.copies[0]?.receipts.filter(({ step }) => step === 'escalated');
    expect(told).toMatchObject([{ evidence: { to } }]);
  });

  it('waits for a person where there is nobody to tell, and the audit says so [C2A-155]', async () => {
    const desk = await aWorkspace('alice', 'bob');
    const { message } = await send(desk, alice, aDraft());
    await desk.live(5 * MINUTE + 1000);
    const receipts = (await desk.own.ledger.trace(message.id))?.copies[0]?.receipts ?? [];
    const told = receipts.filter(({ step }) => step === 'escalated');
    expect(told).toMatchObject([{ evidence: { to: 'nobody', held: true } }]);
    const will = await anOwner(desk);
    await desk.live(1000);
    expect(await desk.own.spool.ids(will)).toHaveLength(1);
  });

  it('is answered for by whoever was told of it: the answer goes to the one who waits', async () => {
    const desk = await aWorkspace('alice', 'bob');
    const will = await anOwner(desk);
    const { message } = await send(desk, alice, aDraft());
    await desk.live(5 * MINUTE + 1000);
    const [notice] = await desk.own.spool.peek(will);
    if (!notice) throw new Error('the owner was told');
    const sent = await answer(
      desk,
      { name: will, home: desk.own },
      desk.own,
      notice.message.id,
      aDraft({ body: 'take it' }),
    );
    expect(sent.copies).toMatchObject([{ mailbox: 'alice' }]);
    expect((await owe({ name: will, home: desk.own }, PAGE)).count).toBe(0);
    expect(await ending(desk, bob, message.id)).toBe('responded');
  });

  it('of a person is not hurried', async () => {
    const desk = await aWorkspace('alice');
    const will = await anOwner(desk);
    await send(desk, alice, aDraft({ to: '@will' }));
    expect(await desk.live(60 * MINUTE)).toEqual([]);
    expect((await owe({ name: will, home: desk.own }, PAGE)).count).toBe(1);
  });

  it('that was shown before is knocked for where nobody else can show it again, with its text to read', async () => {
    const desk = await aWorkspace('alice', 'bob');
    const { message } = await send(desk, alice, aDraft({ body: 'the secret plan' }));
    await deliver(desk.who('bob'), [message.id], { disposition: 'acknowledged', by: { by: 'hook' } }, () => ({
      show: () => {},
      slow: false,
    }));
    await desk.live(101_000, false);
    const [knock] = await desk.own.spool.peek(bob);
    expect(knock).toMatchObject({ quiet: false, message: { thread: message.id } });
    expect(knock?.message.body).toContain('the secret plan');
    expect((await desk.own.ledger.copy(bob, knock?.message.id as MessageId))?.attention.injection).toBe('notify');
  });

  it('ends in exactly one way, and its changes are kept [C2A-104]', async () => {
    const desk = await aWorkspace('alice', 'bob');
    const { message } = await send(desk, alice, aDraft());
    await react(desk, desk.who('bob'), message.id, { signal: 'working' });
    await answer(desk, desk.who('bob'), desk.own, message.id, aDraft({ body: 'done, see 1a2b3c4' }));
    await react(desk, desk.who('bob'), message.id, { signal: 'declined' });
    await desk.live(60 * MINUTE);
    expect(await ending(desk, bob, message.id)).toBe('responded');
    const steps = (await desk.own.ledger.trace(message.id))?.copies[0]?.receipts.map(({ step }) => step) ?? [];
    expect(steps).toEqual(expect.arrayContaining(['claimed', 'reacted', 'discharged']));
  });
});

describe('time', () => {
  it('does each thing once, however many processes keep it', async () => {
    const desk = await aWorkspace('alice', 'bob');
    const will = await anOwner(desk);
    await send(desk, alice, aDraft());
    desk.pass(100_000);
    const back = await Promise.all(Array.from({ length: 5 }, () => desk.work()));
    expect(back.flat()).toHaveLength(1);
    desk.pass(100_000);
    await desk.work();
    desk.pass(100_000);
    await Promise.all(Array.from({ length: 5 }, () => desk.work()));
    expect(await desk.own.spool.ids(will)).toHaveLength(1);
  });

  it('tries again what failed half-way, and tells nobody twice', async () => {
    const desk = await aWorkspace('alice', 'bob');
    const will = await anOwner(desk);
    await send(desk, alice, aDraft({ obligation: { blocks: 'halted' } }));
    await desk.live(15 * MINUTE);
    desk.pass(5 * MINUTE);
    const { spool } = desk.own;
    const failing = {
      ...desk.own,
      spool: Object.assign(Object.create(spool), { put: () => Promise.reject(new Error('full')) }),
    };
    const act = { redeliver: async () => true };
    await expect(tick(desk, failing, desk.now(), act)).rejects.toThrow('full');
    expect(await spool.ids(will)).toEqual([]);
    await desk.live(2 * MINUTE);
    expect(await spool.ids(will)).toHaveLength(1);
    await desk.live(60 * MINUTE);
    expect(await spool.ids(will)).toHaveLength(1);
  });

  it('shows what was not answered in time as what may be answered [C2A-152, C2A-D11]', async () => {
    const desk = await aWorkspace('alice', 'bob');
    await anOwner(desk);
    const { message } = await send(desk, alice, aDraft());
    await desk.live(5 * MINUTE - 1000);
    expect((await desk.own.ledger.copy(bob, message.id))?.attention.policy).toBe('must_respond');
    await desk.live(2000);
    expect((await desk.own.ledger.copy(bob, message.id))?.attention.policy).toBe('may_respond');
    expect((await owe(desk.who('bob'), PAGE)).count).toBe(1);
    await settle(desk.who('bob'), message.id, 'acknowledged', { by: 'ack' }, false, desk.now());
    expect((await owe(desk.who('bob'), PAGE)).count).toBe(0);
  });

  it('lets whoever was told look at what was left undone, and nobody else', async () => {
    const desk = await aWorkspace('alice', 'bob', 'carol', 'dora');
    await anOwner(desk);
    await withRole(desk, 'lead', 'carol');
    const { message } = await send(desk, alice, aDraft({ body: 'is the deploy stuck?' }));
    await desk.live(5 * MINUTE + 1000);
    const { messages } = await readThread([desk.who('carol')], { event: message.id }, { limit: 5 });
    expect(messages.map(({ body }) => body)).toEqual(['is the deploy stuck?']);
    const others = readThread([desk.who('dora')], { event: message.id }, { limit: 5 });
    await expect(others).rejects.toMatchObject({ code: 'not_found' });
  });
});

describe('nothing is owed', () => {
  it('for a note to oneself, and by an agent that keeps no policy', async () => {
    const desk = await aWorkspace('alice');
    await desk.own.directory.register(bob, 'foreign');
    await send(desk, alice, aDraft({ to: '@alice' }));
    await send(desk, alice, aDraft());
    expect((await owe(desk.who('alice'), PAGE)).count).toBe(0);
    expect((await owe(desk.who('bob'), PAGE)).count).toBe(0);
  });

  it('for what its sender took back before it was taken', async () => {
    const desk = await aWorkspace('alice', 'bob');
    const { message } = await send(desk, alice, aDraft());
    expect((await owe(desk.who('bob'), PAGE)).count).toBe(1);
    await withdraw(alice, desk.own, message.id);
    expect((await owe(desk.who('bob'), PAGE)).count).toBe(0);
    expect(await ending(desk, bob, message.id)).toBe('superseded');
  });

  it('for what was settled while it was being entered', async () => {
    const desk = await aWorkspace('alice', 'bob');
    const { message } = await send(desk, alice, aDraft());
    const { from, upTo, copies } = await desk.own.ledger.unentered(10);
    const [found] = copies;
    const duty = found && (await dutyFor(desk.own, found.copy, found.message));
    await settle(desk.who('bob'), message.id, 'acknowledged', { by: 'ack' }, false, desk.now());
    await desk.own.ledger.enter(from, upTo, duty ? [duty] : []);
    expect((await owe(desk.who('bob'), PAGE)).duties).toEqual([]);
    expect(await ending(desk, bob, message.id)).toBe('acknowledged');
  });
});

async function ending(desk: TestWorkspace, mailbox: AgentName, id: MessageId): Promise<string | null> {
  return (await desk.own.ledger.duty(mailbox, id))?.ended?.as ?? null;
}

/** The reader is shown the message, as by a hook. */
async function read(who: Who, id: MessageId): Promise<void> {
  await deliver(who, [id], { disposition: 'acknowledged', by: { by: 'hook' } }, () => ({
    show: () => {},
    slow: false,
  }));
}
