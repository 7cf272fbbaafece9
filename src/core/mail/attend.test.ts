import { describe, expect, it } from 'bun:test';
import { aDraft } from '../../../test/support/durable-workspace.ts';
import { alice, bob, carol } from '../../../test/support/mail.ts';
import { aWorkspace, inChannel, withRole } from '../../../test/support/workspace.ts';
import type { TestWorkspace } from '../../../test/support/workspace.ts';
import type { MessageId } from '../names.ts';
import { send } from './send.ts';

/** The thread that a message is sent in. The test of `decide` gets such facts as input; here `attend` has to find them. */
type In = 'nowhere' | 'bob’s thread' | 'a thread with bob' | 'a thread of others';

/** Alice sends the message. Bob, who subscribes to #dev and has the role backend, gets this attention. */
const SEEN: [string, In, Record<string, unknown>, string][] = [
  ['a DM [C2A-55, C2A-60a]', 'nowhere', { to: '@bob' }, 'to_me must_respond buffered direct_message'],
  ['thanks [C2A-60b, C2A-93]', 'nowhere', { to: '@bob', body: 'thanks!' }, 'to_me ack_only silent thanks'],
  ['a receipt [C2A-60b, C2A-93]', 'nowhere', { to: '@bob', body: 'ok, got it' }, 'to_me ack_only silent thanks'],
  ['filler [C2A-93]', 'nowhere', { to: '@bob', body: 'sounds good, great work! 🎉' }, 'to_me ack_only silent thanks'],
  ['a courtesy [C2A-93]', 'nowhere', { to: '@bob', body: 'no problem, any time' }, 'to_me ack_only silent thanks'],
  ['thanks by name [C2A-93, C2A-100]', 'nowhere', { body: '@bob thank you' }, 'to_me ack_only silent thanks'],
  ['a mention [C2A-55]', 'nowhere', { body: '@bob look' }, 'to_me must_respond buffered direct_mention'],
  [
    'an assignment [C2A-60d]',
    'nowhere',
    { to: '@bob', intent: 'assignment' },
    'to_me must_respond buffered assignment',
  ],
  [
    'an approval request [C2A-60d]',
    'nowhere',
    { to: '@bob', intent: 'approval' },
    'to_me must_respond immediate approval',
  ],
  ['a blocker [C2A-60d]', 'nowhere', { body: '@bob look', intent: 'blocker' }, 'to_me must_respond immediate blocker'],
  [
    'a question in a thread where bob has spoken [C2A-60e]',
    'a thread with bob',
    { body: 'since when?' },
    'to_me must_respond buffered thread_question',
  ],
  [
    'a question in a thread that bob opened [C2A-60e]',
    'bob’s thread',
    { body: 'since when?' },
    'to_me must_respond buffered thread_question',
  ],
  [
    'a captured answer that repeats the question',
    'bob’s thread',
    { body: 'You asked: which port? It is 80.', captured: true },
    'to_my_role may_respond notify thread_reply',
  ],
  [
    'a captured answer that ends in a question',
    'bob’s thread',
    { body: 'There are two ports.\nDo you mean the **first**?', captured: true },
    'to_me must_respond buffered thread_question',
  ],
  ['a message to a role [C2A-72]', 'nowhere', { to: '@backend' }, 'to_my_role may_respond notify role_mention'],
  ['a role mention [C2A-72]', 'nowhere', { body: '@backend look' }, 'to_my_role may_respond notify role_mention'],
  [
    'a reply in a thread where bob has spoken [C2A-60g, C2A-72]',
    'a thread with bob',
    {},
    'to_my_role may_respond notify thread_reply',
  ],
  ['a reply in a thread that bob opened [C2A-60g]', 'bob’s thread', {}, 'to_my_role may_respond notify thread_reply'],
  [
    'a message to another agent [C2A-57, C2A-60h, C2A-90]',
    'nowhere',
    { body: '@carol look' },
    'to_other must_not_respond tool_mailbox addressed_elsewhere',
  ],
  [
    'a message to another agent in bob’s thread [C2A-90]',
    'bob’s thread',
    { body: '@carol since when?' },
    'to_other must_not_respond tool_mailbox addressed_elsewhere',
  ],
  [
    'words without a task in a thread of others [C2A-57, C2A-60i]',
    'a thread of others',
    {},
    'to_other must_not_respond tool_mailbox no_task',
  ],
  ['a post to nobody [C2A-58, C2A-60j]', 'nowhere', {}, 'ambient must_not_respond tool_mailbox ambient'],
  ['a status [C2A-60k, C2A-89]', 'nowhere', { intent: 'status' }, 'ambient must_not_respond digest status'],
  [
    'a status as a DM [C2A-60k, C2A-89]',
    'nowhere',
    { to: '@bob', intent: 'status' },
    'ambient must_not_respond digest status',
  ],
];

describe('a message of an agent is recognized as', () => {
  it.each(SEEN)('%s', async (_what, where, fields, expected) => {
    const workspace = await aWorkspace('alice', 'bob', 'carol');
    await inChannel(workspace, '#dev', 'alice', 'bob', 'carol');
    await withRole(workspace, 'backend', 'bob');
    const thread = await threadOf(workspace, where);
    const { copies } = await send(
      workspace,
      alice,
      aDraft({ to: '#dev', body: 'the parser is slow', thread, ...fields }),
    );
    const { directedness, policy, injection, reason } =
      copies.find(({ mailbox }) => mailbox === 'bob')?.attention ?? {};
    expect([directedness, policy, injection, reason].join(' ')).toBe(expected);
  });
});

it('a message that changes work which the reader owns is at least announced by a knock [C2A-86]', async () => {
  const workspace = await aWorkspace('alice', 'bob');
  await inChannel(workspace, '#dev', 'bob');
  await workspace.own.directory.amend(bob, () => ({ owns: ['#dev'] }));
  const { copies } = await send(workspace, alice, aDraft({ to: '#dev', intent: 'blocker' }));
  expect(copies).toMatchObject([
    { attention: { policy: 'may_respond', injection: 'notify', reason: 'changes_owned_work' } },
  ]);
});

it('an agent’s own message in a channel is silent for it, also if the agent names itself [C2A-N4]', async () => {
  const workspace = await aWorkspace('alice', 'bob');
  await inChannel(workspace, '#dev', 'alice', 'bob');
  const { copies } = await send(workspace, bob, aDraft({ to: '#dev', body: '@bob is done', intent: 'blocker' }));
  const own = copies.filter(({ mailbox }) => mailbox === 'bob');
  expect(own.every(({ attention }) => attention.injection === 'silent')).toBe(true);
});

async function threadOf(workspace: TestWorkspace, where: In): Promise<MessageId | undefined> {
  if (where === 'nowhere') return undefined;
  const post = aDraft({ to: '#dev', body: 'the build is red' });
  const { message } = await send(workspace, where === 'bob’s thread' ? bob : carol, post);
  if (where === 'a thread with bob')
    await send(workspace, bob, aDraft({ to: '#dev', body: 'I see', thread: message.id }));
  return message.id;
}
