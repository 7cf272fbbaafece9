import { describe, expect, it } from 'bun:test';
import { aDurableWorkspace, aDraft } from '../../../test/support/durable-workspace.ts';
import { alice, bob, carol } from '../../../test/support/mail.ts';
import type { Message } from '../message.ts';
import { AgentName, ChannelName } from '../names.ts';
import { send } from './send.ts';

const WILL = AgentName.parse('will');
const SCRIPT = AgentName.parse('script');
const inAnHour = (): number => Date.now() + 60 * 60 * 1000 + 1000;

describe('send', () => {
  it('reports a message as stored, whatever fails after that', async () => {
    const workspace = await aDurableWorkspace('alice', 'bob');
    workspace.own.directory.seen = async () => {
      throw Object.assign(new Error('EIO: i/o error'), { code: 'EIO', path: '/home/agents/alice.json' });
    };
    const sent = await send(workspace, alice, aDraft({ body: 'still there' }));
    expect(sent).toMatchObject({ first: true, trouble: 'the disk of /home/agents/alice.json failed (EIO)' });
    expect(await workspace.own.mailboxes.peek(bob)).toMatchObject([{ message: { id: sent.message.id } }]);
  });

  it('computes the lineage from the journal and ignores a lineage that the sender gives', async () => {
    const workspace = await aDurableWorkspace('alice', 'bob');
    const first = await send(workspace, alice, aDraft());
    const forged = { root: 'x', hop: 0, visited: [], stale: 0 };
    const second = await send(
      workspace,
      bob,
      aDraft({ to: '@alice', thread: first.message.id, lineage: forged, parley: { lineage: forged } }),
    );
    const third = await send(workspace, alice, aDraft({ thread: second.message.id }));
    expect(first.message.parley).toBeUndefined();
    expect(third.message.parley?.lineage).toMatchObject({ root: first.message.id, hop: 2, visited: ['alice', 'bob'] });
  });

  it('stores the fourth echo in a row quietly, and shows a new text as usual [C2A-D10]', async () => {
    const workspace = await aDurableWorkspace('alice', 'bob');
    let last = await send(workspace, alice, aDraft({ body: 'shall we look at the parser together' }));
    for (let hop = 1; hop <= 8; hop++) {
      last = await reply(workspace, last.message, 'happy to continue whenever you are ready to go on with it');
    }
    expect(last.copies[0]?.attention).toMatchObject({
      reason: 'loop',
      policy: 'must_not_respond',
      injection: 'tool_mailbox',
    });
    last = await reply(workspace, last.message, 'stop, the production site is down, roll back');
    expect(last.copies[0]?.attention).toMatchObject({ reason: 'thread_reply', injection: 'buffered' });
  });

  it('shows a message that asks for something, also in an exchange that goes in circles', async () => {
    const workspace = await aDurableWorkspace('alice', 'bob');
    let last = await send(workspace, alice, aDraft());
    for (let hop = 1; hop <= 8; hop++) last = await reply(workspace, last.message, 'let us go on with it then');
    const stop = await send(
      workspace,
      AgentName.parse(last.message.to.slice(1)),
      aDraft({ to: `@${last.message.from}`, thread: last.message.id, body: 'stop', intent: 'blocker' }),
    );
    expect(stop.copies[0]?.attention).toMatchObject({ policy: 'must_respond', injection: 'immediate' });
  });

  it('counts a person’s message as new content, which agents may answer', async () => {
    const workspace = await aDurableWorkspace('alice', 'bob');
    const will = AgentName.parse('will');
    await workspace.own.directory.register(will, 'human');
    let last = await send(workspace, alice, aDraft());
    for (let hop = 1; hop <= 8; hop++) last = await reply(workspace, last.message, 'shall we go on with it then');
    const asked = await send(workspace, will, aDraft({ to: '@alice', thread: last.message.id, body: 'well, go on' }));
    const answered = await send(workspace, alice, aDraft({ thread: asked.message.id, body: 'we do' }));
    expect(answered.copies[0]?.attention.reason).not.toBe('loop');
  });

  it('stops two agents that answer each other by plain sends, without giving these messages a thread', async () => {
    const workspace = await aDurableWorkspace('alice', 'bob');
    const stale: (number | undefined)[] = [];
    const reasons: string[] = [];
    for (let turn = 0; turn < 9; turn += 1) {
      const { message, copies } = await say(
        workspace,
        turn % 2 ? bob : alice,
        'it was a pleasure to work with you on this',
      );
      expect(message.thread).toBeUndefined();
      stale.push(message.parley?.lineage?.stale);
      reasons.push(copies[0]?.attention.reason ?? '');
    }
    expect(stale).toEqual([undefined, 1, 2, 3, 4, 5, 6, 7, 8]);
    expect(reasons.slice(0, 4)).toEqual(Array.from({ length: 4 }, () => 'direct_message'));
    expect(reasons.slice(4)).toEqual(Array.from({ length: 5 }, () => 'loop'));
    const asked = await say(workspace, bob, 'could you run the tests once more?');
    expect(asked.copies[0]?.attention).toMatchObject({ policy: 'must_respond', reason: 'direct_message' });
    const news = await say(workspace, alice, 'they fail in src/parser.ts:118');
    expect(news.message.parley?.lineage).toMatchObject({ hop: 10, stale: 0 });
    expect(news.copies[0]?.attention).toMatchObject({ policy: 'must_respond', reason: 'direct_message' });
    const echo = await say(workspace, bob, 'so they fail in src/parser.ts:118');
    expect(echo.message.parley?.lineage).toMatchObject({ hop: 11, stale: 1 });
  });

  it('counts hops also if plain sends and replies alternate', async () => {
    const workspace = await aDurableWorkspace('alice', 'bob');
    const first = await say(workspace, alice, 'shall we');
    const second = await reply(workspace, first.message, 'yes let us');
    const third = await say(workspace, alice, 'very well then');
    expect(second.message.parley?.lineage).toMatchObject({ root: first.message.id, hop: 1 });
    expect(third.message.parley?.lineage).toEqual({
      root: first.message.id,
      hop: 2,
      visited: ['alice', 'bob'],
      stale: 2,
    });
  });

  it.each([
    ['two in a row', async (workspace: TestWorkspace) => say(workspace, bob, 'one more thing')],
    ['a note to oneself', async (workspace: TestWorkspace) => send(workspace, alice, aDraft({ to: '@alice' }))],
    [
      'a message to another agent',
      async (workspace: TestWorkspace) => send(workspace, alice, aDraft({ to: '@carol' })),
    ],
    ['a message to a channel', async (workspace: TestWorkspace) => send(workspace, alice, aDraft({ to: '#dev' }))],
    [
      'a message more than an hour later',
      async (workspace: TestWorkspace) => say({ ...workspace, now: inAnHour }, alice, 'hello again'),
    ],
    ['a message of a person', async (workspace: TestWorkspace) => send(workspace, WILL, aDraft({ to: '@carol' }))],
    ['a message to a person', async (workspace: TestWorkspace) => send(workspace, bob, aDraft({ to: '@will' }))],
    [
      'a message to an agent without a policy',
      async (workspace: TestWorkspace) => send(workspace, bob, aDraft({ to: '@script' })),
    ],
  ])('does not mistake a plain send for an answer: %s', async (_what, act) => {
    const workspace = await aDurableWorkspace('alice', 'bob', 'carol');
    const { directory } = workspace.own;
    await directory.register(WILL, 'human');
    await directory.register(SCRIPT, 'foreign');
    await directory.subscribe(bob, ChannelName.parse('#dev'));
    // Each sender has just got a message from the agent or person it writes to.
    await send(workspace, carol, aDraft({ to: '@will' }));
    await send(workspace, WILL, aDraft({ to: '@bob' }));
    await send(workspace, SCRIPT, aDraft({ to: '@bob' }));
    await send(workspace, alice, aDraft({ to: '@alice' }));
    await send(workspace, bob, aDraft({ to: '@alice' }));
    expect((await act(workspace)).message.parley).toBeUndefined();
  });

  it('makes nobody the owner of a thread by a guessed lineage', async () => {
    const workspace = await aDurableWorkspace('alice', 'bob');
    await say(workspace, alice, 'the parser is yours');
    const asked = await say(workspace, bob, 'my branch is ready for you');
    expect(asked.message.parley?.lineage).toMatchObject({ hop: 1 });
    const approved = await reply(workspace, asked.message, 'LGTM');
    expect(approved.copies[0]?.attention).toMatchObject({ reason: 'thanks', injection: 'notify' });
  });

  it('keeps thanks from starting a turn [C2A-N5]', async () => {
    const workspace = await aDurableWorkspace('alice', 'bob');
    const { copies } = await send(workspace, alice, aDraft({ body: 'thanks!' }));
    expect(copies[0]?.attention).toMatchObject({ policy: 'ack_only', injection: 'silent' });
  });

  it('shows everything to an agent without a policy', async () => {
    const workspace = await aDurableWorkspace('alice');
    await workspace.own.directory.register(bob, 'foreign');
    const { copies } = await send(workspace, alice, aDraft({ body: 'thanks!' }));
    expect(copies[0]?.attention).toMatchObject({ injection: 'buffered', reason: 'no_policy' });
  });

  it.each([
    ['body', 'another text'],
    ['priority', 'urgent'],
    ['scope', 'org/repo'],
    ['thread', 'some-thread'],
    ['refs', ['a.ts']],
    ['intent', 'question'],
    ['deadline', '2100-01-01T00:00:00.000Z'],
  ])('returns the earlier message for a known key only if the %s is the same too [BC-10]', async (field, value) => {
    const workspace = await aDurableWorkspace('alice', 'bob');
    const full = aDraft({ key: 'k', [field]: value });
    const first = await send(workspace, alice, full);
    expect(await send(workspace, alice, full)).toMatchObject({ first: false, message: first.message });
    await expect(send(workspace, alice, aDraft({ key: 'k' }))).rejects.toMatchObject({ code: 'key_conflict' });
    await send(workspace, alice, aDraft({ key: 'plain' }));
    const more = send(workspace, alice, aDraft({ key: 'plain', [field]: value }));
    await expect(more).rejects.toMatchObject({ code: 'key_conflict' });
  });

  it('delivers a note to oneself', async () => {
    const workspace = await aDurableWorkspace('alice');
    const { copies } = await send(workspace, alice, aDraft({ to: '@alice' }));
    expect(copies).toMatchObject([{ mailbox: 'alice', attention: { injection: 'buffered' } }]);
  });
});

type TestWorkspace = Awaited<ReturnType<typeof aDurableWorkspace>>;

/** A plain send between alice and bob. */
async function say(workspace: TestWorkspace, from: AgentName, body: string) {
  return send(workspace, from, aDraft({ to: from === alice ? '@bob' : '@alice', body }));
}

async function reply(workspace: TestWorkspace, to: Message, body: string) {
  const from = AgentName.parse(to.to.slice(1));
  return send(workspace, from, aDraft({ to: `@${to.from}`, thread: to.id, body }));
}
