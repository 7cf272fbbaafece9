import { describe, expect, it } from 'bun:test';
import { aDraft } from '../../../test/support/durable-workspace.ts';
import { alice, bob, carol } from '../../../test/support/mail.ts';
import { aWorkspace, inChannel, withRole } from '../../../test/support/workspace.ts';
import type { TestWorkspace } from '../../../test/support/workspace.ts';
import { isQuiet } from '../attention/attention.ts';
import { AgentName } from '../names.ts';
import { claim, unclaim } from './claim.ts';
import { listEvents } from '../history/events.ts';
import { owe } from './owed.ts';
import { react } from './react.ts';
import { send } from '../mail/send.ts';
import type { Sent } from '../mail/send.ts';

const MINUTE = 60_000;
const MEMBERS = ['bob', 'carol', 'dora', 'erin', 'fay'];

describe('a claim', () => {
  it('is won by one of many at once, and the refusal of the others names the holder [C2A-123, C2A-134]', async () => {
    const names = Array.from({ length: 50 }, (_, n) => `agent-${n}`);
    const workspace = await aWorkspace('alice', ...names);
    await inChannel(workspace, '#dev', ...names);
    const { message } = await send(workspace, alice, aDraft({ to: '#dev' }));
    const tries = await Promise.allSettled(names.map((name) => claim(workspace, workspace.who(name), message.id)));
    const won = tries.filter((one) => one.status === 'fulfilled').map(({ value }) => value.holder);
    expect(won).toHaveLength(1);
    for (const one of tries) {
      if (one.status === 'rejected') expect(one.reason).toMatchObject({ code: 'already_claimed' });
      if (one.status === 'rejected') expect(String(one.reason)).toContain(`@${won[0]}`);
    }
  });

  it('ends after its time, is renewed by claiming again, and can be given up [C2A-133, C2A-D4]', async () => {
    const workspace = await aWorkspace('alice', 'bob', 'carol');
    await inChannel(workspace, '#dev', 'bob', 'carol');
    const { message } = await send(workspace, alice, aDraft({ to: '#dev' }));
    await claim(workspace, workspace.who('bob'), message.id);
    workspace.pass(9 * MINUTE);
    await claim(workspace, workspace.who('bob'), message.id);
    workspace.pass(9 * MINUTE);
    await expect(claim(workspace, workspace.who('carol'), message.id)).rejects.toMatchObject({
      code: 'already_claimed',
    });
    workspace.pass(MINUTE);
    expect(await claim(workspace, workspace.who('carol'), message.id)).toMatchObject({ holder: 'carol' });
    expect(await unclaim(workspace, workspace.who('bob'), message.id)).toBe(false);
    expect(await unclaim(workspace, workspace.who('carol'), message.id)).toBe(true);
    expect(await claim(workspace, workspace.who('bob'), message.id)).toMatchObject({ holder: 'bob' });
  });

  it('on an exchange keeps other agents from claiming any event in it [C2A-123]', async () => {
    const workspace = await aWorkspace('alice', 'bob', 'carol');
    await inChannel(workspace, '#dev', 'bob', 'carol');
    const root = await send(workspace, alice, aDraft({ to: '#dev' }));
    const more = await send(workspace, alice, aDraft({ to: '#dev', thread: root.message.id }));
    await claim(workspace, workspace.who('bob'), root.message.id);
    await expect(claim(workspace, workspace.who('carol'), more.message.id)).rejects.toMatchObject({
      code: 'already_claimed',
    });
  });

  it('does not take an event from the agent that is asked by name and still owes the answer', async () => {
    const workspace = await aWorkspace('alice', 'bob', 'carol');
    await inChannel(workspace, '#ops', 'alice', 'bob', 'carol');
    const { message } = await send(workspace, alice, aDraft({ to: '#ops', body: '@bob is it red?' }));
    const early = claim(workspace, workspace.who('carol'), message.id);
    await expect(early).rejects.toMatchObject({ code: 'already_claimed', message: expect.stringContaining('@bob') });
    expect((await claim(workspace, workspace.who('bob'), message.id)).holder).toBe(bob);
    await react(workspace, workspace.who('bob'), message.id, { signal: 'declined' });
    expect((await claim(workspace, workspace.who('carol'), message.id)).holder).toBe(carol);
  });

  it('is refused for an agent that may not see the event, as if the event did not exist', async () => {
    const workspace = await aWorkspace('alice', 'bob', 'carol');
    const { message } = await send(workspace, alice, aDraft());
    await expect(claim(workspace, workspace.who('carol'), message.id)).rejects.toMatchObject({ code: 'not_found' });
  });
});

describe('a message that is offered to a role', () => {
  it('is announced to one member, for whom it is reserved; the others can list it [C2A-136, C2A-131]', async () => {
    const { workspace, sent } = await offered();
    const loud = sent.copies.filter(({ attention }) => !isQuiet(attention));
    expect(loud).toMatchObject([{ attention: { injection: 'notify', policy: 'may_respond' } }]);
    expect(sent.copies.filter(({ attention }) => attention.policy === 'must_respond')).toEqual([]);
    const [chosen, ...others] = await asked(workspace, sent);
    expect(await workspace.own.journal.eventClaim(sent.message.id, workspace.now())).toMatchObject({
      holder: chosen,
      reserved: true,
    });
    expect(others).toEqual([]);
    for (const name of MEMBERS) {
      const { events } = await listEvents([workspace.who(name)], { limit: 10, now: workspace.now() });
      expect(events.map(({ id }) => id)).toEqual([sent.message.id]);
    }
  });

  it('is announced to one member also if a channel message mentions the role [C2A-131]', async () => {
    const workspace = await aWorkspace('alice', ...MEMBERS);
    await withRole(workspace, 'backend', ...MEMBERS);
    await inChannel(workspace, '#dev', ...MEMBERS);
    const sent = await send(workspace, alice, aDraft({ to: '#dev', body: '@backend who knows the parser' }));
    expect(sent.copies.filter(({ attention }) => !isQuiet(attention))).toHaveLength(1);
  });

  it('goes to the next member if the first declines; the member that claims it sees it in full [C2A-60f, C2A-D4]', async () => {
    const { workspace, sent } = await offered();
    const [first = ''] = await asked(workspace, sent);
    await react(workspace, workspace.who(first), sent.message.id, { signal: 'declined' });
    const [second = '', ...more] = (await asked(workspace, sent)).filter((name) => name !== first);
    expect(more).toEqual([]);
    expect(second).not.toBe('');
    const copy = await workspace.own.journal.copy(AgentName.parse(second), sent.message.id);
    expect(copy?.attention.injection).toBe('notify');
    await claim(workspace, workspace.who(second), sent.message.id);
    const claimed = await workspace.own.journal.copy(AgentName.parse(second), sent.message.id);
    expect(claimed?.attention.injection).toBe('buffered');
    const { obligations } = await owe(workspace.who(second), { limit: 5 });
    expect(obligations).toMatchObject([{ id: sent.message.id, state: 'claimed' }]);
    await workspace.live(5 * MINUTE);
    expect(await asked(workspace, sent)).toHaveLength(2);
  });

  it('goes to the next member if the first does not react for a minute, until all were asked once [C2A-D4]', async () => {
    const { workspace, sent } = await offered();
    expect(await asked(workspace, sent)).toHaveLength(1);
    await workspace.live(59_000);
    expect(await asked(workspace, sent)).toHaveLength(1);
    await workspace.live(2_000);
    expect(await asked(workspace, sent)).toHaveLength(2);
    await workspace.live(10 * MINUTE);
    expect((await asked(workspace, sent)).toSorted()).toEqual(MEMBERS);
    for (const name of MEMBERS) {
      const obligation = await workspace.own.journal.obligation(AgentName.parse(name), sent.message.id);
      expect(obligation?.ended?.as).toBe('ignored');
    }
    expect(await workspace.own.journal.nextDue()).toBeNull();
  });

  it('goes to the next member if the holder of the claim gives it up', async () => {
    const { workspace, sent } = await offered();
    const [first = ''] = await asked(workspace, sent);
    await claim(workspace, workspace.who(first), sent.message.id);
    expect(await unclaim(workspace, workspace.who(first), sent.message.id)).toBe(true);
    expect(await asked(workspace, sent)).toHaveLength(2);
    expect((await owe(workspace.who(first), { limit: 5 })).count).toBe(0);
  });

  it('comes back to the member that deferred it', async () => {
    const { workspace, sent } = await offered();
    const [first = ''] = await asked(workspace, sent);
    await react(workspace, workspace.who(first), sent.message.id, { signal: 'queued' });
    await workspace.live(20 * MINUTE);
    expect(await asked(workspace, sent)).toEqual([first]);
    expect(await workspace.live(11 * MINUTE)).toMatchObject([{ mailbox: first, state: 'open' }]);
  });

  it('goes to a member that was seen lately, and among these to the longest idle one [C2A-D4]', async () => {
    const workspace = await aWorkspace('alice', ...MEMBERS);
    await withRole(workspace, 'backend', ...MEMBERS);
    workspace.pass(2 * 60 * MINUTE);
    await workspace.own.directory.seen(AgentName.parse('dora'));
    workspace.pass(5 * MINUTE);
    await workspace.own.directory.seen(AgentName.parse('carol'));
    const sent = await send(workspace, alice, aDraft({ to: '@backend' }));
    expect(await asked(workspace, sent)).toEqual(['dora']);
  });
});

it('a message to a role goes to the member with the fewest obligations if all were idle equally long [C2A-D4]', async () => {
  const workspace = await aWorkspace('alice', ...MEMBERS);
  await withRole(workspace, 'backend', ...MEMBERS);
  for (const name of MEMBERS.filter((one) => one !== 'carol')) await send(workspace, alice, aDraft({ to: `@${name}` }));
  await owe(workspace.who('alice'), { limit: 1 });
  for (let n = 0; n < 5; n += 1) {
    const sent = await send(workspace, alice, aDraft({ to: '@backend', body: `who knows src/${n}.ts` }));
    expect(await asked(workspace, sent)).toEqual(['carol']);
    await react(workspace, workspace.who('carol'), sent.message.id, { signal: 'done' });
  }
});

async function offered(): Promise<{ workspace: TestWorkspace; sent: Sent }> {
  const workspace = await aWorkspace('alice', ...MEMBERS);
  await withRole(workspace, 'backend', ...MEMBERS);
  return { workspace, sent: await send(workspace, alice, aDraft({ to: '@backend', body: 'who knows the parser' })) };
}

/** The agents that were asked so far. */
async function asked(workspace: TestWorkspace, { message }: Sent): Promise<string[]> {
  const found: string[] = [];
  for (const name of MEMBERS) {
    if (await workspace.own.journal.obligation(AgentName.parse(name), message.id)) found.push(name);
  }
  return found;
}
