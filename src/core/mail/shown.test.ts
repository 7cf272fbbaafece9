import { describe, expect, it } from 'bun:test';
import { aDraft } from '../../../test/support/durable-workspace.ts';
import { aWorkspace, inChannel } from '../../../test/support/workspace.ts';
import type { TestWorkspace } from '../../../test/support/workspace.ts';
import { AgentName } from '../names.ts';
import { send } from './send.ts';
import type { Sent } from './send.ts';
import { withdraw } from './settle.ts';
import { shownSoon } from './shown.ts';

const bob = AgentName.parse('bob');
const AT_ONCE = { takenMs: 0, shownMs: 0 };

/** Bob and carol, and will at a chat. */
async function aTown(): Promise<TestWorkspace> {
  const workspace = await aWorkspace('bob', 'carol');
  for (const name of ['slack._surface', 'slack.will'])
    await workspace.own.directory.register(AgentName.parse(name), 'human');
  return workspace;
}

const soon = (workspace: TestWorkspace, sent: Sent, patience = AT_ONCE) => shownSoon(sent, workspace.now(), patience);

/** Ends a copy as a surface does. */
async function ended({ own }: TestWorkspace, { message }: Sent, box: string, disposition: 'acknowledged' | 'failed') {
  const mailbox = AgentName.parse(box);
  const { owner } = await own.mailboxes.claim(mailbox, [message.id], { ms: 1000, bearer: 'surface-slack' });
  await own.mailboxes.settle({ mailbox, owner }, [message.id], { disposition, by: { reason: 'no (403)' } });
}

describe('the outcome of a message at surfaces', () => {
  it('is null if it goes to no surface, also for an agent whose name begins like a surface’s', async () => {
    const workspace = await aTown();
    for (const name of ['slack-bot', 'slackbot', 'web.ci']) {
      await workspace.own.directory.register(AgentName.parse(name), 'agent');
      expect(await soon(workspace, await send(workspace, bob, aDraft({ to: `@${name}` })))).toBeNull();
    }
    expect(await soon(workspace, await send(workspace, bob, aDraft({ to: '@carol' })))).toBeNull();
    await inChannel(workspace, '#dev', 'bob', 'carol');
    expect(await soon(workspace, await send(workspace, bob, aDraft({ to: '#dev' })))).toBeNull();
  });

  it('is that it waits, was shown, or was withdrawn before', async () => {
    const workspace = await aTown();
    const sent = await send(workspace, bob, aDraft({ to: '@slack.will' }));
    expect(await soon(workspace, sent)).toEqual({ state: 'waiting', refused: [] });
    await ended(workspace, sent, 'slack.will', 'acknowledged');
    expect(await soon(workspace, sent)).toEqual({ state: 'shown', refused: [] });
    const other = await send(workspace, bob, aDraft({ to: '@slack.will', body: 'never mind' }));
    await withdraw(bob, workspace.own, other.message.id);
    expect(await soon(workspace, other)).toEqual({ state: 'withdrawn', refused: [] });
  });

  it('is a Refusal if all its surfaces refuse it, and lists the refusals if other readers have it', async () => {
    const workspace = await aTown();
    const dm = await send(workspace, bob, aDraft({ to: '@slack.will' }));
    await ended(workspace, dm, 'slack.will', 'failed');
    await expect(soon(workspace, dm)).rejects.toThrow('nobody there has seen it: no (403)');
    await inChannel(workspace, '#dev', 'bob', 'carol', 'slack._surface');
    const post = await send(workspace, bob, aDraft({ to: '#dev' }));
    await ended(workspace, post, 'slack._surface', 'failed');
    expect(await soon(workspace, post)).toMatchObject({ state: 'refused', refused: [{ box: 'slack._surface' }] });
  });

  it.each([
    { what: 'awaited if a surface was connected lately', seen: true, state: 'shown' },
    { what: 'not awaited if no surface was connected for five minutes', seen: false, state: 'waiting' },
  ] as const)('is $what', async ({ seen, state }) => {
    const workspace = await aTown();
    workspace.pass(5 * 60_000);
    if (seen) await workspace.own.directory.seen(AgentName.parse('slack._surface'));
    const sent = await send(workspace, bob, aDraft({ to: '@slack.will' }));
    const answer = soon(workspace, sent, { takenMs: 60_000, shownMs: 60_000 });
    // In memory nothing takes longer than this: a call that does not wait has read the copy by now.
    await new Promise((resolve) => setImmediate(resolve));
    await ended(workspace, sent, 'slack.will', 'acknowledged');
    expect(await answer).toEqual({ state, refused: [] });
  });
});
