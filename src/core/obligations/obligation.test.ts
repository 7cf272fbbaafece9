import { describe, expect, it } from 'bun:test';
import { aDraft } from '../../../test/support/durable-workspace.ts';
import { alice, bob, carol } from '../../../test/support/mail.ts';
import { aWorkspace, anOwner, inChannel, withRole } from '../../../test/support/workspace.ts';
import type { TestWorkspace } from '../../../test/support/workspace.ts';
import { AgentName } from '../names.ts';
import type { MessageId } from '../names.ts';
import { defer, resolve } from './defer.ts';
import { deliver } from '../mail/deliver.ts';
import { obligationFor, enterObligations } from './obligation.ts';
import { dispositionOf, readThread } from '../history/events.ts';
import { blocked, owe } from './owed.ts';
import { react } from './react.ts';
import type { Who } from '../mail/workspace.ts';
import { answer, send } from '../mail/send.ts';
import { settle, withdraw } from '../mail/settle.ts';
import { tick } from './tick.ts';

const MINUTE = 60_000;
const PAGE = { limit: 20 };

describe('an owed answer', () => {
  it.each([
    ['a direct message [C2A-82]', async (workspace: TestWorkspace) => send(workspace, alice, aDraft())],
    [
      'a direct mention [C2A-83]',
      async (workspace: TestWorkspace) => {
        await inChannel(workspace, '#dev', 'bob');
        return send(workspace, alice, aDraft({ to: '#dev', body: '@bob look at this' }));
      },
    ],
    [
      'assigned work [C2A-84]',
      async (workspace: TestWorkspace) => send(workspace, alice, aDraft({ intent: 'assignment' })),
    ],
    [
      'a direct question in a thread that it takes part in [C2A-85]',
      async (workspace: TestWorkspace) => {
        await inChannel(workspace, '#dev', 'bob', 'alice');
        const { message } = await send(workspace, bob, aDraft({ to: '#dev', body: 'the build is red' }));
        return send(workspace, alice, aDraft({ to: '#dev', thread: message.id, body: 'since when?' }));
      },
    ],
  ])('is %s, also after it was shown, until it is answered', async (_what, act) => {
    const workspace = await aWorkspace('alice', 'bob');
    const { message } = await act(workspace);
    expect((await owe(workspace.who('bob'), PAGE)).obligations).toMatchObject([
      { id: message.id, from: 'alice', kind: 'reply' },
    ]);
    await deliver(workspace.who('bob'), [message.id], { disposition: 'acknowledged', by: { by: 'hook' } }, () => ({
      show: () => {},
      slow: false,
    }));
    expect((await owe(workspace.who('bob'), PAGE)).obligations).toMatchObject([{ id: message.id }]);
    await answer(
      workspace,
      workspace.who('bob'),
      workspace.own,
      message.id,
      aDraft({ body: 'since this morning, commit 1a2b3c4' }),
    );
    expect(await owe(workspace.who('bob'), PAGE)).toMatchObject({ obligations: [], count: 0 });
  });

  it('is listed for the reader and for the author, with one call each', async () => {
    const workspace = await aWorkspace('alice', 'bob', 'carol');
    const first = await send(workspace, alice, aDraft());
    await send(workspace, carol, aDraft({ to: '@alice' }));
    await answer(
      workspace,
      workspace.who('alice'),
      workspace.own,
      (await send(workspace, carol, aDraft({ to: '@alice' }))).message.id,
      aDraft(),
    );
    expect((await owe(workspace.who('alice'), PAGE)).count).toBe(1);
    const waited = await blocked(workspace.who('alice'), PAGE);
    expect(waited.obligations.map(({ id, mailbox }) => [id, mailbox])).toEqual([[first.message.id, bob]]);
    expect(waited.obligations[0]?.message?.body).toBe('hello');
  });

  it('stays owed after the message was only shown', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const { message } = await send(workspace, alice, aDraft());
    await deliver(workspace.who('bob'), [message.id], { disposition: 'acknowledged', by: { by: 'hook' } }, () => ({
      show: () => {},
      slow: false,
    }));
    expect((await owe(workspace.who('bob'), PAGE)).count).toBe(1);
    await settle(workspace.who('bob'), message.id, 'acknowledged', { by: 'ack', agent: 'bob' }, false, workspace.now());
    expect((await owe(workspace.who('bob'), PAGE)).count).toBe(0);
    expect(await ending(workspace, bob, message.id)).toBe('acknowledged');
  });

  it('ends at once when the message is answered or acknowledged', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const first = await send(workspace, alice, aDraft());
    const second = await send(workspace, alice, aDraft());
    expect((await owe(workspace.who('bob'), PAGE)).count).toBe(2);
    await send(workspace, bob, aDraft({ to: '@alice', thread: first.message.id, body: 'in 1a2b3c4' }));
    expect(await ending(workspace, bob, first.message.id)).toBe('responded');
    await settle(workspace.who('bob'), second.message.id, 'acknowledged', { by: 'ack' }, false, workspace.now());
    expect(await ending(workspace, bob, second.message.id)).toBe('acknowledged');
  });

  it('is entered with its current state, whenever that happens: as ended if it was answered before', async () => {
    const workspace = await aWorkspace('alice', 'bob', 'carol');
    await inChannel(workspace, '#dev', 'bob', 'carol');
    const acked = await send(workspace, alice, aDraft());
    const handled = await send(workspace, alice, aDraft({ to: '#dev', body: '@bob @carol look' }));
    await settle(workspace.who('bob'), acked.message.id, 'acknowledged', { by: 'ack' }, false, workspace.now());
    const fields = { thread: handled.message.id, signal: 'done', recipient: 'bob', body: 'done' };
    await send(workspace, alice, aDraft(fields));
    await enterObligations(workspace.own);
    expect(await ending(workspace, bob, acked.message.id)).toBe('acknowledged');
    expect(await ending(workspace, bob, handled.message.id)).toBe('responded');
    expect(await ending(workspace, carol, handled.message.id)).toBeNull();
  });

  it('does not end by a send that crossed the message, or by a question', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const { message } = await send(workspace, alice, aDraft({ body: 'deploy now?', intent: 'question' }));
    await send(workspace, bob, aDraft({ to: '@alice', body: 'the parser is done' }));
    expect((await owe(workspace.who('bob'), PAGE)).count).toBe(1);
    workspace.pass(1000);
    await read(workspace.who('bob'), message.id);
    await send(workspace, bob, aDraft({ to: '@alice', body: 'what is the password?', intent: 'question' }));
    expect((await owe(workspace.who('bob'), PAGE)).count).toBe(1);
  });

  it('ends by a plain send to the author, without a thread', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const { message } = await send(workspace, alice, aDraft());
    await read(workspace.who('bob'), message.id);
    expect((await owe(workspace.who('bob'), PAGE)).count).toBe(1);
    await send(workspace, bob, aDraft({ to: '@alice', body: 'it is done in 1a2b3c4' }));
    expect((await owe(workspace.who('bob'), PAGE)).obligations).toEqual([]);
    expect(await ending(workspace, bob, message.id)).toBe('responded');
  });

  it('can be deferred with a reason: it stays owed, and comes back at its time [C2A-124, C2A-109]', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const { message } = await send(workspace, alice, aDraft());
    const until = new Date(workspace.now() + 20 * MINUTE).toISOString();
    await expect(defer(workspace, workspace.who('bob'), message.id, { reason: ' ' })).rejects.toMatchObject({
      code: 'invalid_request',
    });
    const obligation = await defer(workspace, workspace.who('bob'), message.id, { reason: 'after the deploy', until });
    expect(dispositionOf(obligation)).toBe('deferred');
    const [waited] = (await blocked(workspace.who('alice'), PAGE)).obligations;
    expect(waited).toMatchObject({ state: 'deferred', note: 'after the deploy' });
    expect((await owe(workspace.who('bob'), PAGE)).count).toBe(1);
    expect(await workspace.live(19 * MINUTE)).toEqual([]);
    expect(await workspace.live(2 * MINUTE)).toMatchObject([{ id: message.id, state: 'open' }]);
  });

  it('comes back after half an hour if the defer names no time [C2A-D10]', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const { message } = await send(workspace, alice, aDraft());
    await defer(workspace, workspace.who('bob'), message.id, { reason: 'later' });
    expect(await workspace.live(29 * MINUTE)).toEqual([]);
    expect(await workspace.live(2 * MINUTE)).toHaveLength(1);
  });

  it('cannot be deferred if nothing is owed, or by another agent', async () => {
    const workspace = await aWorkspace('alice', 'bob', 'carol');
    const { message } = await send(workspace, alice, aDraft({ intent: 'fyi' }));
    await expect(defer(workspace, workspace.who('bob'), message.id, { reason: 'x' })).rejects.toMatchObject({
      code: 'invalid_request',
    });
    await expect(defer(workspace, workspace.who('carol'), message.id, { reason: 'x' })).rejects.toMatchObject({
      code: 'not_found',
    });
  });

  it('is closed by resolving its exchange, but those between other agents are not [C2A-125]', async () => {
    const workspace = await aWorkspace('alice', 'bob', 'carol');
    const root = await send(workspace, alice, aDraft());
    const other = await send(workspace, carol, aDraft());
    const more = await send(
      workspace,
      alice,
      aDraft({ thread: root.message.id, intent: 'question', body: 'and the tests?' }),
    );
    const told = await send(
      workspace,
      alice,
      aDraft({ thread: root.message.id, intent: 'fyi', body: 'src/a.ts moved' }),
    );
    const asked = { to: '@carol', thread: root.message.id, intent: 'question', body: 'and you?' };
    const theirs = await send(workspace, alice, aDraft(asked));
    const closed = await resolve(workspace, workspace.who('bob'), root.message.id, 'all in 1a2b3c4');
    expect(closed).toEqual([root.message.id, more.message.id, told.message.id]);
    const { obligations } = await owe(workspace.who('bob'), PAGE);
    expect(obligations.map(({ id }) => id)).toEqual([other.message.id]);
    expect(await ending(workspace, bob, more.message.id)).toBe('responded');
    expect(await workspace.own.journal.copy(bob, told.message.id)).toMatchObject({ disposition: 'responded' });
    expect(await ending(workspace, carol, theirs.message.id)).toBeNull();
  });

  it('is closed by resolving its one event or assignment, by its reader or its author [C2A-125]', async () => {
    const workspace = await aWorkspace('alice', 'bob', 'carol');
    const root = await send(workspace, alice, aDraft({ intent: 'assignment' }));
    const inIt = { thread: root.message.id, intent: 'question', body: 'and the tests?' };
    const { message } = await send(workspace, alice, aDraft(inIt));
    expect(await resolve(workspace, workspace.who('bob'), message.id)).toEqual([message.id]);
    expect((await owe(workspace.who('bob'), PAGE)).obligations.map(({ id }) => id)).toEqual([root.message.id]);
    expect(await resolve(workspace, workspace.who('alice'), root.message.id)).toEqual([root.message.id]);
    expect((await owe(workspace.who('bob'), PAGE)).count).toBe(0);
    const halted = await send(workspace, alice, aDraft({ obligation: { blocks: 'halted', delegate: 'carol' } }));
    expect(await resolve(workspace, workspace.who('bob'), halted.message.id)).toEqual([]);
    expect(await resolve(workspace, workspace.who('carol'), halted.message.id)).toEqual([halted.message.id]);
  });
});

describe('an unanswered message', () => {
  it('is offered to its reader twice more, then escalated to one agent, and then fails [C2A-153, C2A-154, C2A-D11]', async () => {
    const workspace = await aWorkspace('alice', 'bob', 'carol', 'dora');
    const will = await anOwner(workspace);
    const { message } = await send(workspace, alice, aDraft());
    expect(await workspace.live(99_000)).toEqual([]);
    expect(await workspace.live(2_000)).toMatchObject([{ mailbox: 'bob', returns: 1 }]);
    expect(await workspace.live(100_000)).toMatchObject([{ mailbox: 'bob', returns: 2 }]);
    expect((await owe({ name: will, home: workspace.own }, PAGE)).count).toBe(0);
    expect(await workspace.live(100_000)).toEqual([]);
    const { obligations } = await owe({ name: will, home: workspace.own }, PAGE);
    expect(obligations).toMatchObject([{ tier: 2, message: { thread: message.id } }]);
    for (const name of ['carol', 'dora', 'alice'])
      expect(await workspace.own.mailboxes.peek(AgentName.parse(name))).toEqual([]);
    expect(await ending(workspace, bob, message.id)).toBeNull();
    await workspace.live(10 * MINUTE);
    expect(await ending(workspace, bob, message.id)).toBe('failed');
    expect((await workspace.own.journal.obligation(bob, message.id))?.ended?.by).toMatchObject({ reason: 'expired' });
  });

  it.each([
    ['who owns the exchange', { owner: 'dora', owns: 'exchange', lead: 'carol' }, 'dora'],
    ['who owns the channel', { owner: 'dora', owns: '#dev', lead: 'carol' }, 'dora'],
    ['a lead, where nobody owns it', { owner: 'dora', owns: '#ops', lead: 'carol' }, 'carol'],
    ['a lead, where the one who owes it owns it', { owner: 'bob', owns: '#dev', lead: 'carol' }, 'carol'],
    ['a lead, where the one who waits for it owns it', { owner: 'alice', owns: '#dev', lead: 'carol' }, 'carol'],
    ['the person, where the one who owes it is the lead', { owner: 'dora', owns: '#ops', lead: 'bob' }, 'will'],
    ['the person, where there is no lead', { owner: 'dora', owns: '#ops', lead: null }, 'will'],
  ])(
    'is escalated to exactly one recipient, %s, and the audit names it [C2A-155]',
    async (_whom, { owner, owns, lead }, to) => {
      const workspace = await aWorkspace('alice', 'bob', 'carol', 'dora');
      await anOwner(workspace);
      await inChannel(workspace, '#dev', 'bob');
      if (lead) await withRole(workspace, 'lead', lead);
      const { message } = await send(workspace, alice, aDraft({ to: '#dev', body: '@bob look at this' }));
      await workspace.own.directory.amend(AgentName.parse(owner), () => ({
        owns: [owns === 'exchange' ? message.id : owns],
      }));
      await workspace.live(5 * MINUTE + 1000);
      const waiting = ['alice', 'carol', 'dora', 'will'].map(async (name) => {
        const ids = await workspace.own.mailboxes.ids(AgentName.parse(name));
        return ids.map(() => name);
      });
      expect((await Promise.all(waiting)).flat()).toEqual([to]);
      const trace = await workspace.own.journal.trace(message.id);
      const told = trace?.copies[0]?.receipts.filter(({ step }) => step === 'escalated');
      expect(told).toMatchObject([{ evidence: { to } }]);
    },
  );

  it('waits for an owner if nobody can get the escalation, and the audit says so [C2A-155]', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const { message } = await send(workspace, alice, aDraft());
    await workspace.live(5 * MINUTE + 1000);
    const receipts = (await workspace.own.journal.trace(message.id))?.copies[0]?.receipts ?? [];
    const told = receipts.filter(({ step }) => step === 'escalated');
    expect(told).toMatchObject([{ evidence: { to: 'nobody', held: true } }]);
    const will = await anOwner(workspace);
    await workspace.live(1000);
    expect(await workspace.own.mailboxes.ids(will)).toHaveLength(1);
  });

  it('may be answered by the recipient of the escalation: the answer goes to the author', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const will = await anOwner(workspace);
    const { message } = await send(workspace, alice, aDraft());
    await workspace.live(5 * MINUTE + 1000);
    const [notice] = await workspace.own.mailboxes.peek(will);
    if (!notice) throw new Error('the owner was told');
    const sent = await answer(
      workspace,
      { name: will, home: workspace.own },
      workspace.own,
      notice.message.id,
      aDraft({ body: 'take it' }),
    );
    expect(sent.copies).toMatchObject([{ mailbox: 'alice' }]);
    expect((await owe({ name: will, home: workspace.own }, PAGE)).count).toBe(0);
    expect(await ending(workspace, bob, message.id)).toBe('responded');
  });

  it('to a person brings no reminders', async () => {
    const workspace = await aWorkspace('alice');
    const will = await anOwner(workspace);
    await send(workspace, alice, aDraft({ to: '@will' }));
    expect(await workspace.live(60 * MINUTE)).toEqual([]);
    expect((await owe({ name: will, home: workspace.own }, PAGE)).count).toBe(1);
  });

  it('that was shown before comes back as a knock with its text, if no host can show it again', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const { message } = await send(workspace, alice, aDraft({ body: 'the secret plan' }));
    await deliver(workspace.who('bob'), [message.id], { disposition: 'acknowledged', by: { by: 'hook' } }, () => ({
      show: () => {},
      slow: false,
    }));
    await workspace.live(101_000, false);
    const [knock] = await workspace.own.mailboxes.peek(bob);
    expect(knock).toMatchObject({ quiet: false, message: { thread: message.id } });
    expect(knock?.message.body).toContain('the secret plan');
    expect((await workspace.own.journal.copy(bob, knock?.message.id as MessageId))?.attention.injection).toBe('notify');
  });

  it('ends in exactly one way, and its changes are kept [C2A-104]', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const { message } = await send(workspace, alice, aDraft());
    await react(workspace, workspace.who('bob'), message.id, { signal: 'working' });
    await answer(workspace, workspace.who('bob'), workspace.own, message.id, aDraft({ body: 'done, see 1a2b3c4' }));
    await react(workspace, workspace.who('bob'), message.id, { signal: 'declined' });
    await workspace.live(60 * MINUTE);
    expect(await ending(workspace, bob, message.id)).toBe('responded');
    const steps = (await workspace.own.journal.trace(message.id))?.copies[0]?.receipts.map(({ step }) => step) ?? [];
    expect(steps).toEqual(expect.arrayContaining(['claimed', 'reacted', 'discharged']));
  });
});

describe('the tick', () => {
  it('does each step once, however many processes call it', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const will = await anOwner(workspace);
    await send(workspace, alice, aDraft());
    workspace.pass(100_000);
    const back = await Promise.all(Array.from({ length: 5 }, () => workspace.work()));
    expect(back.flat()).toHaveLength(1);
    workspace.pass(100_000);
    await workspace.work();
    workspace.pass(100_000);
    await Promise.all(Array.from({ length: 5 }, () => workspace.work()));
    expect(await workspace.own.mailboxes.ids(will)).toHaveLength(1);
  });

  it('repeats a step that failed half-way, and notifies nobody twice', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const will = await anOwner(workspace);
    await send(workspace, alice, aDraft({ obligation: { blocks: 'halted' } }));
    await workspace.live(15 * MINUTE);
    workspace.pass(5 * MINUTE);
    const { mailboxes } = workspace.own;
    const failing = {
      ...workspace.own,
      mailboxes: Object.assign(Object.create(mailboxes), { put: () => Promise.reject(new Error('full')) }),
    };
    const act = { redeliver: async () => true };
    await expect(tick(workspace, failing, workspace.now(), act)).rejects.toThrow('full');
    expect(await mailboxes.ids(will)).toEqual([]);
    await workspace.live(2 * MINUTE);
    expect(await mailboxes.ids(will)).toHaveLength(1);
    await workspace.live(60 * MINUTE);
    expect(await mailboxes.ids(will)).toHaveLength(1);
  });

  it('changes the policy of a message that was not answered in time to may_respond [C2A-152, C2A-D11]', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    await anOwner(workspace);
    const { message } = await send(workspace, alice, aDraft());
    await workspace.live(5 * MINUTE - 1000);
    expect((await workspace.own.journal.copy(bob, message.id))?.attention.policy).toBe('must_respond');
    await workspace.live(2000);
    expect((await workspace.own.journal.copy(bob, message.id))?.attention.policy).toBe('may_respond');
    expect((await owe(workspace.who('bob'), PAGE)).count).toBe(1);
    await settle(workspace.who('bob'), message.id, 'acknowledged', { by: 'ack' }, false, workspace.now());
    expect((await owe(workspace.who('bob'), PAGE)).count).toBe(0);
  });

  it('lets only the recipient of an escalation see the unanswered message', async () => {
    const workspace = await aWorkspace('alice', 'bob', 'carol', 'dora');
    await anOwner(workspace);
    await withRole(workspace, 'lead', 'carol');
    const { message } = await send(workspace, alice, aDraft({ body: 'is the deploy stuck?' }));
    await workspace.live(5 * MINUTE + 1000);
    const { messages } = await readThread([workspace.who('carol')], { event: message.id }, { limit: 5 });
    expect(messages.map(({ body }) => body)).toEqual(['is the deploy stuck?']);
    const others = readThread([workspace.who('dora')], { event: message.id }, { limit: 5 });
    await expect(others).rejects.toMatchObject({ code: 'not_found' });
  });
});

describe('nothing is owed', () => {
  it('for a message to oneself, and by an agent without a policy', async () => {
    const workspace = await aWorkspace('alice');
    await workspace.own.directory.register(bob, 'foreign');
    await send(workspace, alice, aDraft({ to: '@alice' }));
    await send(workspace, alice, aDraft());
    expect((await owe(workspace.who('alice'), PAGE)).count).toBe(0);
    expect((await owe(workspace.who('bob'), PAGE)).count).toBe(0);
  });

  it('for a message that its sender withdrew before it was taken', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const { message } = await send(workspace, alice, aDraft());
    expect((await owe(workspace.who('bob'), PAGE)).count).toBe(1);
    await withdraw(alice, workspace.own, message.id);
    expect((await owe(workspace.who('bob'), PAGE)).count).toBe(0);
    expect(await ending(workspace, bob, message.id)).toBe('superseded');
  });

  it('for a message that was settled while its obligation was being entered', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const { message } = await send(workspace, alice, aDraft());
    const { from, upTo, copies } = await workspace.own.journal.unentered(10);
    const [found] = copies;
    const obligation = found && (await obligationFor(workspace.own, found.copy, found.message));
    await settle(workspace.who('bob'), message.id, 'acknowledged', { by: 'ack' }, false, workspace.now());
    await workspace.own.journal.enter(from, upTo, obligation ? [obligation] : []);
    expect((await owe(workspace.who('bob'), PAGE)).obligations).toEqual([]);
    expect(await ending(workspace, bob, message.id)).toBe('acknowledged');
  });
});

async function ending(workspace: TestWorkspace, mailbox: AgentName, id: MessageId): Promise<string | null> {
  return (await workspace.own.journal.obligation(mailbox, id))?.ended?.as ?? null;
}

/** Shows the message to its reader, as a hook does. */
async function read(who: Who, id: MessageId): Promise<void> {
  await deliver(who, [id], { disposition: 'acknowledged', by: { by: 'hook' } }, () => ({
    show: () => {},
    slow: false,
  }));
}
