import { describe, expect, it } from 'bun:test';
import { aDraft } from '../../../test/support/durable-workspace.ts';
import { alice, bob, carol } from '../../../test/support/mail.ts';
import { aWorkspace, anOwner, inChannel, withRole } from '../../../test/support/workspace.ts';
import type { TestWorkspace } from '../../../test/support/workspace.ts';
import type { AgentName } from '../names.ts';
import { HOST_NAME } from '../signal.ts';
import { ownerOf, sendHeld, tellOwner } from './owners.ts';
import { send } from '../mail/send.ts';

describe('the owner', () => {
  it('gets one notice of an exchange that goes in circles, whose messages are held back [C2A-N7]', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const will = await anOwner(workspace);
    const first = await talk(workspace, 12);
    const notices = await workspace.own.mailboxes.peek(will);
    expect(notices).toHaveLength(1);
    expect(notices[0]?.message.body).toContain(first.slice(0, 8));
    expect(notices[0]?.message.body).toMatch(/@alice|@bob/);
    const told = (await workspace.own.journal.history({ agent: HOST_NAME, limit: 9 })).map(
      ({ recipients }) => recipients,
    );
    expect(told).toEqual([[will]]);
    await talk(workspace, 12);
    expect(await workspace.own.mailboxes.peek(will)).toHaveLength(2);
  });

  it('gets the notices from before there was an owner, once', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    await talk(workspace, 12);
    expect(await tellOwner(workspace, workspace.own, { key: 'k', body: 'something' })).toBe(false);
    expect(await ownerOf(workspace.own)).toBeNull();
    const will = await anOwner(workspace);
    expect(await sendHeld(workspace, workspace.own)).toBe(2);
    expect(await sendHeld(workspace, workspace.own)).toBe(0);
    expect(await workspace.own.mailboxes.peek(will)).toHaveLength(2);
  });

  it('gets one notice per key, whatever its text', async () => {
    const workspace = await aWorkspace();
    const will = await anOwner(workspace);
    expect(await tellOwner(workspace, workspace.own, { key: 'k', body: 'one' })).toBe(true);
    expect(await tellOwner(workspace, workspace.own, { key: 'k', body: 'two' })).toBe(true);
    expect(await workspace.own.mailboxes.ids(will)).toHaveLength(1);
  });
});

describe('the attention of a copy', () => {
  it('depends on the owner of the channel, from the next message on [C2A-53]', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    await inChannel(workspace, '#dev', 'bob');
    const directedness = async (): Promise<string | undefined> =>
      (await send(workspace, alice, aDraft({ to: '#dev' }))).copies[0]?.attention.directedness;
    expect(await directedness()).toBe('ambient');
    await workspace.own.directory.amend(bob, () => ({ owns: ['#dev'] }));
    expect(await directedness()).toBe('to_my_role');
    await workspace.own.directory.amend(bob, () => ({ owns: undefined }));
    expect(await directedness()).toBe('ambient');
  });

  it('depends on the owner of the exchange: a post there without a mention knocks [C2A-96c]', async () => {
    const workspace = await aWorkspace('alice', 'bob', 'carol');
    await inChannel(workspace, '#dev', 'bob', 'carol');
    const root = await send(workspace, alice, aDraft({ to: '#dev' }));
    await workspace.own.directory.amend(bob, () => ({ owns: [root.message.id] }));
    const { copies } = await send(workspace, alice, aDraft({ to: '#dev', thread: root.message.id, body: 'it is red' }));
    const seen = Object.fromEntries(copies.map(({ mailbox, attention }) => [mailbox, attention]));
    expect(seen['bob']).toMatchObject({ directedness: 'to_my_role', policy: 'may_respond', injection: 'notify' });
    expect(seen['carol']).toMatchObject({ policy: 'must_not_respond', injection: 'tool_mailbox' });
  });

  it('is quieter in a quiet time of its reader, except for urgent mail of a person', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const will = await anOwner(workspace);
    const until = new Date(workspace.now() + 60_000).toISOString();
    await workspace.own.directory.amend(bob, () => ({ quiet: { until } }));
    const loud = async (from: AgentName, fields = {}): Promise<boolean> => {
      const { message } = await send(workspace, from, aDraft(fields));
      return (await workspace.own.mailboxes.read(bob, message.id))?.quiet === false;
    };
    expect(await loud(alice)).toBe(false);
    expect(await loud(alice, { priority: 'urgent' })).toBe(false);
    expect(await loud(will, { priority: 'urgent' })).toBe(true);
    workspace.pass(60_001);
    expect(await loud(alice)).toBe(true);
  });

  it('stays quiet for reminders in a quiet time, and the answer is still owed', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const will = await anOwner(workspace);
    await workspace.own.directory.amend(bob, () => ({ quiet: { on: true } }));
    const { message } = await send(workspace, alice, aDraft({ body: 'is it done?' }));
    const urgent = await send(workspace, will, aDraft({ body: 'stop the deploy', priority: 'urgent' }));
    expect((await workspace.live(299_000)).map(({ id }) => id)).toEqual([urgent.message.id, urgent.message.id]);
    expect((await workspace.own.mailboxes.read(bob, message.id))?.quiet).toBe(true);
    expect(await workspace.own.mailboxes.ids(bob)).toHaveLength(2);
    expect(await workspace.own.journal.obligation(bob, message.id)).toMatchObject({ returns: 2, ended: null });
  });

  it('may be that of an obligation also in a quiet time of its reader', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    await workspace.own.directory.amend(bob, () => ({ quiet: { on: true } }));
    const { copies } = await send(workspace, alice, aDraft({ obligation: { blocks: 'halted' } }));
    expect(copies).toMatchObject([{ attention: { policy: 'must_respond', injection: 'tool_mailbox' } }]);
  });

  it('requires an answer from one agent that a channel message names: the first that gets it [C2A-131]', async () => {
    const workspace = await aWorkspace('alice', 'bob', 'carol', 'dora', 'eve', 'far');
    await anOwner(workspace);
    await inChannel(workspace, '#dev', 'bob', 'carol', 'dora', 'eve', 'will');
    const asked = async (body: string, fields = {}) => {
      const { copies } = await send(workspace, alice, aDraft({ to: '#dev', body, ...fields }));
      const must = copies.filter(({ attention }) => attention.policy === 'must_respond');
      const may = copies.filter(({ attention }) => attention.policy === 'may_respond');
      return [must, may].map((some) => some.map(({ mailbox }) => String(mailbox)).sort());
    };
    expect(await asked('@carol @bob @dora @eve the build is red')).toEqual([['carol'], ['bob', 'dora', 'eve']]);
    expect(await asked('@eve and @bob: mend it', { intent: 'assignment' })).toEqual([['eve'], ['bob']]);
    // Who does not hear it, and who wrote it, cannot answer it; a person is asked beside the agent.
    expect(await asked('@far @alice @will @dora @bob look')).toEqual([['dora', 'will'], ['bob']]);
  });

  it('is quiet in a place that its reader was asked to leave, until a message names the reader [C2A-N3]', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const will = await anOwner(workspace);
    await inChannel(workspace, '#dev', 'bob', 'alice', 'will');
    const root = await send(workspace, bob, aDraft({ to: '#dev', body: 'the build is red' }));
    const inThread = async (from: AgentName, body: string) => {
      const { copies } = await send(workspace, from, aDraft({ to: '#dev', thread: root.message.id, body }));
      return copies.find(({ mailbox }) => mailbox === 'bob')?.attention;
    };
    expect(await inThread(alice, 'it still is')).toMatchObject({ injection: 'notify' });
    expect(await inThread(will, '@bob please leave this thread')).toMatchObject({ policy: 'must_respond' });
    expect(await inThread(alice, 'since noon')).toMatchObject({
      injection: 'tool_mailbox',
      policy: 'must_not_respond',
    });
    expect(await inThread(alice, 'any idea?')).toMatchObject({ injection: 'tool_mailbox' });
    expect(await inThread(will, '@bob we need you after all')).toMatchObject({ policy: 'must_respond' });
    expect(await inThread(alice, 'it is the parser')).toMatchObject({ injection: 'notify' });
  });

  it('does not change if an agent that may not do so asks the reader to leave', async () => {
    const workspace = await aWorkspace('alice', 'bob', 'carol');
    await inChannel(workspace, '#dev', 'bob', 'carol');
    await withRole(workspace, 'backend', 'carol');
    await send(workspace, alice, aDraft({ to: '#dev', body: '@bob please leave this channel' }));
    expect((await workspace.own.directory.get(bob))?.parley?.left).toBeUndefined();
    await workspace.own.directory.amend(carol, () => ({ owns: ['#dev'] }));
    await send(workspace, carol, aDraft({ to: '#dev', body: '@bob please leave this channel' }));
    expect((await workspace.own.directory.get(bob))?.parley?.left).toEqual(['#dev']);
  });
});

/** Two agents say nothing new to each other. Returns the message that began the exchange. */
async function talk(workspace: TestWorkspace, hops: number): Promise<string> {
  let last = await send(workspace, alice, aDraft({ body: 'shall we look at it together' }));
  const first = last.message.id;
  for (let hop = 1; hop <= hops; hop += 1) {
    const from = hop % 2 ? bob : alice;
    const fields = {
      to: hop % 2 ? '@alice' : '@bob',
      thread: last.message.id,
      body: 'happy to go on whenever you are',
    };
    last = await send(workspace, from, aDraft(fields));
  }
  workspace.pass(2 * 60 * 60_000);
  return first;
}
