import { describe, expect, it } from 'bun:test';
import { aDraft } from '../../../test/support/durable-workspace.ts';
import { alice, bob, carol } from '../../../test/support/mail.ts';
import { aWorkspace, anOwner, inChannel } from '../../../test/support/workspace.ts';
import type { TestWorkspace } from '../../../test/support/workspace.ts';
import { MessageId } from '../names.ts';
import { Signal, SIGNALS } from '../signal.ts';
import { claim } from './claim.ts';
import { owe } from './owed.ts';
import { react } from './react.ts';
import { answer, send } from '../mail/send.ts';

const PAGE = { limit: 20 };

describe('a reaction', () => {
  it.each([
    ['seen', 'acknowledged', false],
    ['agree', 'acknowledged', false],
    ['working', 'claimed', false],
    ['queued', 'deferred', false],
    ['claimed', 'claimed', false],
    ['done', 'responded', true],
    ['declined', 'ignored', true],
    ['blocked', 'deferred', false],
    ['unclear', null, false],
  ] as const)('of %s to what must be answered says what the table says', async (signal, disposition, final) => {
    const workspace = await aWorkspace('alice', 'bob');
    const { message } = await send(workspace, alice, aDraft());
    const reacted = await react(workspace, workspace.who('bob'), message.id, { signal });
    expect(reacted.final).toBe(final);
    if (signal !== 'seen' && signal !== 'agree') expect(reacted.disposition).toBe(disposition);
    expect((await owe(workspace.who('bob'), PAGE)).count).toBe(final ? 0 : 1);
  });

  it.each([
    ['seen [C2A-111a]', 'seen', 'acknowledged'],
    ['agree [C2A-111b]', 'agree', 'acknowledged'],
    ['done [C2A-111f]', 'done', 'responded'],
  ] as const)('of %s ends what may be answered', async (_title, signal, disposition) => {
    const workspace = await aWorkspace('alice', 'bob');
    const { message } = await send(workspace, alice, aDraft({ intent: 'fyi' }));
    expect(await react(workspace, workspace.who('bob'), message.id, { signal })).toMatchObject({
      disposition,
      final: true,
    });
    expect(await workspace.own.journal.copy(bob, message.id)).toMatchObject({ disposition, settledBy: { signal } });
  });

  it('of agree ends an owed answer only if the message asked for approval [C2A-108]', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const asked = await send(workspace, alice, aDraft({ body: 'check the deploy' }));
    await react(workspace, workspace.who('bob'), asked.message.id, { signal: 'seen' });
    await react(workspace, workspace.who('bob'), asked.message.id, { signal: 'agree' });
    const approval = await send(workspace, alice, aDraft({ body: 'may I deploy?', intent: 'approval' }));
    await react(workspace, workspace.who('bob'), approval.message.id, { signal: 'agree' });
    expect((await owe(workspace.who('bob'), PAGE)).obligations.map(({ id }) => id)).toEqual([asked.message.id]);
    const obligation = await workspace.own.journal.obligation(bob, approval.message.id);
    expect(obligation?.ended).toMatchObject({ as: 'acknowledged', by: { signal: 'agree' } });
  });

  it('is a message of its own, with its target, time, actor, signal and recipient [C2A-N20]', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const { message } = await send(workspace, alice, aDraft({ obligation: { blocks: 'halted' } }));
    const { sent } = await react(workspace, workspace.who('alice'), message.id, { signal: 'done', recipient: bob });
    expect(sent?.message).toMatchObject({
      from: 'alice',
      thread: message.id,
      ts: new Date(workspace.now()).toISOString(),
      parley: { signal: 'done', recipient: 'bob' },
    });
    expect(sent?.message.id).not.toBe(message.id);
  });

  it('starts no turn of its reader [C2A-96e]', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    for (const signal of ['seen', 'agree', 'working', 'done', 'declined'] as const) {
      const asked = await send(workspace, alice, aDraft());
      const { sent } = await react(workspace, workspace.who('bob'), asked.message.id, { signal });
      expect(sent?.copies[0]?.attention.policy).toBe('must_not_respond');
      expect(sent?.copies[0]?.attention.injection).toBeOneOf(['tool_mailbox', 'notify']);
    }
    const { message } = await send(workspace, alice, aDraft());
    const { sent } = await react(workspace, workspace.who('bob'), message.id, {
      signal: 'queued',
      eta: 'after the deploy',
    });
    expect(sent?.message.body).toBe('queued · after the deploy');
    expect(sent?.copies).toMatchObject([
      { mailbox: 'alice', attention: { policy: 'must_not_respond', injection: 'tool_mailbox', reason: 'reaction' } },
    ]);
  });

  it.each([
    ['declined', 'approval', 'notify'],
    ['blocked', 'question', 'notify'],
    ['unclear', 'question', 'notify'],
    ['agree', 'approval', 'notify'],
    ['agree', 'question', 'tool_mailbox'],
    ['agree', 'fyi', 'tool_mailbox'],
    ['declined', 'fyi', 'tool_mailbox'],
  ] as const)(
    'of %s is raised where it changes what its reader waits for: an event of %s, %s [C2A-115]',
    async (signal, intent, injection) => {
      const workspace = await aWorkspace('alice', 'bob');
      const { message } = await send(workspace, alice, aDraft({ intent }));
      const { sent } = await react(workspace, workspace.who('bob'), message.id, { signal });
      expect(sent?.copies).toMatchObject([{ mailbox: 'alice', attention: { injection } }]);
    },
  );

  it('of the author is raised if it ends an obligation of its reader [C2A-115]', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const { message } = await send(workspace, alice, aDraft({ obligation: { blocks: 'halted' } }));
    const { sent } = await react(workspace, workspace.who('alice'), message.id, { signal: 'done' });
    expect(sent?.copies).toMatchObject([{ mailbox: 'bob', attention: { injection: 'notify' } }]);
  });

  it('that is sent twice is stored once', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const { message } = await send(workspace, alice, aDraft());
    const first = await react(workspace, workspace.who('bob'), message.id, { signal: 'working' });
    const again = await react(workspace, workspace.who('bob'), message.id, { signal: 'working' });
    expect(again.sent).toMatchObject({ first: false, message: { id: first.sent?.message.id } });
    expect(await workspace.own.mailboxes.ids(alice)).toHaveLength(1);
  });

  it('of claimed or working takes the same claim as `claim` [C2A-111e]', async () => {
    const workspace = await aWorkspace('alice', 'bob', 'carol');
    await inChannel(workspace, '#dev', 'bob', 'carol');
    const { message } = await send(workspace, alice, aDraft({ to: '#dev' }));
    await react(workspace, workspace.who('bob'), message.id, { signal: 'claimed' });
    await expect(claim(workspace, workspace.who('carol'), message.id)).rejects.toMatchObject({
      code: 'already_claimed',
    });
  });

  it('with a workspace’s own signal is kept and has no effect [C2A-D7]', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const { message } = await send(workspace, alice, aDraft());
    const reacted = await react(workspace, workspace.who('bob'), message.id, { signal: Signal.parse('x-party') });
    expect(reacted).toMatchObject({ disposition: null, final: false, sent: { message: { body: 'x-party' } } });
    expect(await workspace.own.journal.eventClaim(message.id, workspace.now())).toBeNull();
    expect((await owe(workspace.who('bob'), PAGE)).count).toBe(1);
    // Nor if it was there before the event. Of those that do something there are nine.
    const id = MessageId.parse('evt-43');
    await react(workspace, workspace.who('bob'), id, { signal: Signal.parse('x-party') });
    await send({ ...workspace, newId: () => id }, alice, aDraft());
    expect((await owe(workspace.who('bob'), PAGE)).count).toBe(2);
    expect(Object.keys(SIGNALS)).toHaveLength(9);
  });

  it('to an event that is not here yet is kept, disturbs nobody, and is applied when the event comes [C2A-N17, C2A-N4]', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const id = MessageId.parse('evt-42');
    const { sent } = await react(workspace, workspace.who('bob'), id, { signal: 'done' });
    expect(sent?.copies).toMatchObject([{ mailbox: 'bob', attention: { injection: 'silent' } }]);
    await send({ ...workspace, newId: () => id }, alice, aDraft());
    expect((await owe(workspace.who('bob'), PAGE)).count).toBe(0);
    expect((await workspace.own.journal.obligation(bob, id))?.ended?.as).toBe('responded');
  });

  it('to an unknown event is refused if the caller wants that, like one to an event of others', async () => {
    const workspace = await aWorkspace('alice', 'bob', 'carol');
    const { message } = await send(workspace, alice, aDraft());
    const toldOf = async (id: MessageId): Promise<string> =>
      react(workspace, workspace.who('carol'), id, { signal: 'done', ifUnknown: 'refuse' }).then(
        () => 'stored',
        (error: Error) => error.message.replaceAll(id, 'ID'),
      );
    expect(await toldOf(message.id)).toBe(await toldOf(MessageId.parse(crypto.randomUUID())));
    await react(workspace, workspace.who('carol'), message.id, { signal: 'done', recipient: bob });
    expect((await owe(workspace.who('bob'), PAGE)).count).toBe(1);
    expect(await workspace.own.mailboxes.ids(carol)).toHaveLength(1);
  });

  it('of another agent changes no copy, whichever agent it names', async () => {
    const workspace = await aWorkspace('alice', 'bob', 'carol');
    await inChannel(workspace, '#ops', 'alice', 'bob', 'carol');
    const { message } = await send(
      workspace,
      alice,
      aDraft({ to: '#ops', body: '@bob the deploy is out', intent: 'fyi' }),
    );
    const reacted = await react(workspace, workspace.who('carol'), message.id, { signal: 'done', recipient: bob });
    expect(reacted).toMatchObject({ disposition: null, final: false });
    expect(await workspace.own.journal.copy(bob, message.id)).toMatchObject({ state: 'stored', disposition: null });
  });

  it('of unclear asks back: the author owes the answer, and until then there is no reminder [C2A-111i, C2A-D10]', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    await anOwner(workspace);
    const { message } = await send(workspace, alice, aDraft());
    const { sent } = await react(workspace, workspace.who('bob'), message.id, {
      signal: 'unclear',
      eta: 'which deploy?',
    });
    if (!sent) throw new Error('it was sent');
    expect((await owe(workspace.who('alice'), PAGE)).obligations.map(({ id }) => id)).toEqual([sent.message.id]);
    expect(await workspace.own.journal.obligation(bob, message.id)).toMatchObject({ state: 'paused', ended: null });
    await answer(
      workspace,
      workspace.who('alice'),
      workspace.own,
      sent.message.id,
      aDraft({ body: 'the one of 1a2b3c4' }),
    );
    expect((await owe(workspace.who('alice'), PAGE)).count).toBe(0);
    expect(await workspace.own.journal.obligation(bob, message.id)).toMatchObject({ state: 'open', ended: null });
  });

  it('contains the signal and never its sign [C2A-110]', async () => {
    const workspace: TestWorkspace = await aWorkspace('alice', 'bob');
    const { message } = await send(workspace, alice, aDraft());
    expect(Signal.safeParse('👍').success).toBe(false);
    const { sent } = await react(workspace, workspace.who('bob'), message.id, { signal: 'agree' });
    expect(JSON.stringify(sent?.message)).not.toContain(SIGNALS.agree.glyph);
    expect(sent?.message.parley?.signal).toBe('agree');
    expect(sent?.copies).toMatchObject([{ attention: { injection: 'tool_mailbox' } }]);
  });
});
