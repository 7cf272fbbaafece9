import * as fc from 'fast-check';
import { openWorkspace } from '../../src/daemon/homes.ts';
import { describe, expect, it } from 'bun:test';
import { claim } from '../../src/core/obligations/claim.ts';
import { defer, resolve } from '../../src/core/obligations/defer.ts';
import { deliver } from '../../src/core/mail/deliver.ts';
import { edit, remove } from '../../src/protocols/c2a/edit.ts';
import { blocked, owe } from '../../src/core/obligations/owed.ts';
import { react } from '../../src/core/obligations/react.ts';
import { answer, send } from '../../src/core/mail/send.ts';
import type { Sent } from '../../src/core/mail/send.ts';
import { settle } from '../../src/core/mail/settle.ts';
import type { Obligation } from '../../src/core/obligations/rules.ts';
import { BODY_LIMIT } from '../../src/core/message.ts';
import type { AgentName } from '../../src/core/names.ts';
import { Refusal } from '../../src/core/refusal.ts';
import { SIGNALS } from '../../src/core/signal.ts';
import type { KnownSignal } from '../../src/core/signal.ts';
import { aDraft } from '../support/durable-workspace.ts';
import { temporaryHome } from '../support/home.ts';
import { alice, bob, carol } from '../support/mail.ts';
import { aWorkspace, anOwner, inChannel, withRole } from '../support/workspace.ts';
import type { TestWorkspace } from '../support/workspace.ts';

const MINUTE = 60_000;
const INTERVAL = 5 * MINUTE;
const WEEK = 7 * 24 * 60 * MINUTE;
const PAGE = { limit: 20 };

/** Work of alice's that stands still until bob does something. */
async function halted(
  fields: Record<string, unknown> = {},
): Promise<{ workspace: TestWorkspace; sent: Sent; will: AgentName }> {
  const workspace = await aWorkspace('alice', 'bob', 'carol', 'dora');
  const will = await anOwner(workspace);
  const sent = await send(
    workspace,
    alice,
    aDraft({ obligation: { blocks: 'halted', ...fields }, body: 'free the lock' }),
  );
  return { workspace, sent, will };
}

/** What comes back to its reader meanwhile; or nothing at all, where returns are switched off. */
type Lives = (workspace: TestWorkspace, ms: number) => Promise<Obligation[]>;
const withReturns: Lives = async (workspace, ms) => workspace.live(ms);
const withoutReturns: Lives = async (workspace, ms) => {
  workspace.pass(ms);
  return [];
};

/** Arm A: anyone who only said that it is done hears of it again, until the author says so. */
async function armA(lives: Lives): Promise<void> {
  const { workspace, sent } = await halted();
  await react(workspace, workspace.who('bob'), sent.message.id, { signal: 'done' });
  const back = await lives(workspace, INTERVAL);
  expect(back).toMatchObject([{ mailbox: 'bob', id: sent.message.id, returns: 1 }]);
  await react(workspace, workspace.who('alice'), sent.message.id, { signal: 'done', recipient: bob });
  expect(await lives(workspace, 10 * INTERVAL)).toEqual([]);
  expect((await owe(workspace.who('bob'), PAGE)).count).toBe(0);
}

/** Arm C: what its reader leaves undone is seen at another. */
async function armC(lives: Lives): Promise<void> {
  const { workspace, sent, will } = await halted();
  await lives(workspace, 4 * INTERVAL);
  const { obligations } = await owe({ name: will, home: workspace.own }, PAGE);
  expect(obligations).toMatchObject([{ kind: 'obligation', message: { thread: sent.message.id } }]);
}

describe('an obligation', () => {
  it('is created by its object alone: a plain message is no obligation [C2A-N8]', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    await anOwner(workspace);
    const fields = { blocks: 'degraded', defaultAction: 'I use the old parser', delegate: 'carol' };
    const plain = await send(workspace, alice, aDraft({ intent: 'blocker', priority: 'urgent' }));
    workspace.pass(1);
    const obliging = await send(workspace, alice, aDraft({ obligation: fields }));
    const { obligations } = await owe(workspace.who('bob'), PAGE);
    expect(obligations.map(({ id, kind }) => [id, kind])).toEqual([
      [plain.message.id, 'reply'],
      [obliging.message.id, 'obligation'],
    ]);
    expect(obliging.message.parley?.obligation).toEqual(fields as never);
    await workspace.live(WEEK);
    const left = (await owe(workspace.who('bob'), PAGE)).obligations;
    expect(left.map(({ id }) => id)).toEqual([obliging.message.id]);
  });

  it.each([
    ['to a channel', { to: '#dev' }],
    ['to a channel, calling one by name', { to: '#dev', body: '@bob please look' }],
    ['to a role', { to: '@backend' }],
    ['that is only told', { intent: 'fyi' }],
    ['that is a status', { intent: 'status' }],
    ['that only thanks', { body: 'thanks!' }],
  ])('%s is refused [C2A-N9]', async (_what, fields) => {
    const workspace = await aWorkspace('alice', 'bob', 'carol');
    await inChannel(workspace, '#dev', 'bob', 'carol');
    await withRole(workspace, 'backend', 'bob', 'carol');
    const sent = send(workspace, alice, aDraft({ obligation: { blocks: 'halted' }, ...fields }));
    await expect(sent).rejects.toMatchObject({ code: 'invalid_request' });
    expect(await workspace.own.mailboxes.ids(bob)).toEqual([]);
  });

  it('arm A: comes back after its reader’s done, and is discharged by its author’s, who names the reader [C2A-N10]', async () => {
    await armA(withReturns);
  });

  it('arm B: is discharged by the author or the delegate alone, and for good [C2A-N10]', async () => {
    const { workspace, sent } = await halted({ delegate: 'carol' });
    const id = sent.message.id;
    await react(workspace, workspace.who('bob'), id, { signal: 'done' });
    await react(workspace, workspace.who('dora'), id, { signal: 'done', recipient: bob });
    await react(workspace, workspace.who('carol'), id, { signal: 'agree', recipient: bob });
    expect(await open(workspace, sent)).toBe(true);
    await react(workspace, workspace.who('carol'), id, { signal: 'done', recipient: carol });
    expect(await open(workspace, sent)).toBe(true);
    await react(workspace, workspace.who('carol'), id, { signal: 'done', recipient: bob });
    expect(await open(workspace, sent)).toBe(false);
    await react(workspace, workspace.who('bob'), id, { signal: 'blocked' });
    expect(await open(workspace, sent)).toBe(false);
    expect(await workspace.live(WEEK)).toEqual([]);
  });

  it.each([
    ['of another, who names the reader', 'dora', { recipient: bob }],
    ['of the delegate, who names nobody', 'carol', {}],
    ['of the author, who names nobody', 'alice', {}],
  ])('is not discharged by a done that was there before it: %s [C2A-N10]', async (_whose, name, fields) => {
    const workspace = await aWorkspace('alice', 'bob', 'carol', 'dora');
    const id = workspace.newId();
    await react(workspace, workspace.who(name), id, { signal: 'done', ...fields });
    const obligation = { blocks: 'halted', delegate: 'carol' };
    const sent = await send({ ...workspace, newId: () => id }, alice, aDraft({ obligation }));
    expect(await open(workspace, sent)).toBe(true);
  });

  it('arm D: is closed by no reading, no reply, no signal of its reader and no time, and reading changes nothing [C2A-N11]', async () => {
    const acts: ((workspace: TestWorkspace, sent: Sent) => Promise<unknown>)[] = [
      async () => {},
      async (workspace, { message }) =>
        deliver(workspace.who('bob'), [message.id], { disposition: 'acknowledged', by: { by: 'hook' } }, () => ({
          show: () => {},
          slow: false,
        })),
      async (workspace, { message }) =>
        settle(workspace.who('bob'), message.id, 'acknowledged', { by: 'ack' }, false, workspace.now()),
      async (workspace, { message }) =>
        answer(workspace, workspace.who('bob'), workspace.own, message.id, aDraft({ body: 'in 1a2b3c4' })),
      async (workspace, { message }) => react(workspace, workspace.who('bob'), message.id, { signal: 'seen' }),
      async (workspace, { message }) => react(workspace, workspace.who('bob'), message.id, { signal: 'agree' }),
      async (workspace, { message }) => react(workspace, workspace.who('bob'), message.id, { signal: 'claimed' }),
    ];
    const lives: unknown[] = [];
    for (const [act, isKnown] of acts.flatMap((one) => [[one, true] as const, [one, false] as const])) {
      const { workspace, sent } = await halted();
      if (isKnown) await owe(workspace.who('bob'), PAGE);
      await act(workspace, sent);
      const began = workspace.now();
      const back: number[] = [];
      for (let n = 0; n < 8; n += 1) {
        for (const _ of await workspace.live(INTERVAL)) back.push(workspace.now() - began);
      }
      await workspace.live(WEEK);
      lives.push({ back, open: await open(workspace, sent) });
    }
    expect(new Set(lives.map((life) => JSON.stringify(life))).size).toBe(1);
    expect(lives[0]).toEqual({ back: [INTERVAL, 2 * INTERVAL, 3 * INTERVAL], open: true });
  });

  it('arm C: is escalated to one other as a duty of its own, and those for the same one are joined [C2A-N13]', async () => {
    await armC(withReturns);
    const { workspace, sent, will } = await halted();
    workspace.pass(1);
    const second = await send(
      workspace,
      carol,
      aDraft({ to: '@dora', obligation: { blocks: 'degraded' }, body: 'and this' }),
    );
    await workspace.live(4 * INTERVAL);
    const { obligations } = await owe({ name: will, home: workspace.own }, PAGE);
    expect(obligations).toHaveLength(1);
    expect(obligations[0]?.message?.refs).toEqual([`${sent.message.id}:bob`, `${second.message.id}:dora`]);
    expect(await workspace.own.mailboxes.ids(will)).toHaveLength(1);
    await react(workspace, workspace.who('alice'), sent.message.id, { signal: 'done', recipient: bob });
    expect((await owe({ name: will, home: workspace.own }, PAGE)).count).toBe(1);
    await react(workspace, workspace.who('carol'), second.message.id, { signal: 'done' });
    expect((await owe({ name: will, home: workspace.own }, PAGE)).count).toBe(0);
  });

  it('goes to a coordinator first, who is reminded too, and then to the person [C2A-N13]', async () => {
    const { workspace, will } = await halted();
    await withRole(workspace, 'lead', 'carol');
    await workspace.live(4 * INTERVAL);
    expect((await owe(workspace.who('carol'), PAGE)).obligations).toMatchObject([{ kind: 'obligation', tier: 1 }]);
    expect((await owe({ name: will, home: workspace.own }, PAGE)).count).toBe(0);
    const back = await workspace.live(3 * INTERVAL);
    expect(back.map(({ mailbox }) => mailbox).join(' ')).toBe('carol carol carol');
    await workspace.live(2 * INTERVAL);
    expect((await owe({ name: will, home: workspace.own }, PAGE)).obligations).toMatchObject([{ tier: 2 }]);
  });

  it.each(['A', 'C'])('without returns arm %s fails: the checks do check [C2A-N21]', async (arm) => {
    const failed = await (arm === 'A' ? armA : armC)(withoutReturns).then(
      () => false,
      () => true,
    );
    expect(failed).toBe(true);
  });

  it('comes back at equal intervals, three times [C2A-N12] [C2A-D11]', async () => {
    const { workspace, sent } = await halted();
    const times: number[] = [];
    for (let minute = 1; minute <= 60; minute += 1) {
      for (const _ of await workspace.live(MINUTE)) times.push(minute);
    }
    expect(times).toEqual([5, 10, 15]);
    expect(await workspace.own.journal.obligation(bob, sent.message.id)).toMatchObject({ returns: 3, ended: null });
  });

  it('stays with a person, without returns, until it is discharged [C2A-N14]', async () => {
    const { workspace, sent, will } = await halted();
    await workspace.live(4 * INTERVAL);
    expect(await workspace.live(WEEK)).toEqual([]);
    expect((await owe({ name: will, home: workspace.own }, PAGE)).count).toBe(1);
    await react(workspace, workspace.who('alice'), sent.message.id, { signal: 'done', recipient: bob });
    expect((await owe({ name: will, home: workspace.own }, PAGE)).count).toBe(0);
  });

  it.each([
    ['working', { extends: true, escalates: false, paused: false }],
    ['queued', { extends: true, escalates: false, paused: false }],
    ['declined', { extends: false, escalates: true, paused: false }],
    ['blocked', { extends: false, escalates: true, paused: false }],
    ['unclear', { extends: false, escalates: false, paused: true }],
    ['seen', { extends: false, escalates: false, paused: false }],
    ['claimed', { extends: false, escalates: false, paused: false }],
    ['agree', { extends: false, escalates: false, paused: false }],
  ] as [KnownSignal, Record<string, boolean>][])(
    'hears %s of its reader and does what the table says [C2A-N15]',
    async (signal, expected) => {
      const { workspace, sent, will } = await halted();
      await react(workspace, workspace.who('bob'), sent.message.id, { signal });
      await react(workspace, workspace.who('bob'), sent.message.id, { signal, eta: 'once more' });
      const told = (await owe({ name: will, home: workspace.own }, PAGE)).count;
      const asked = (await owe(workspace.who('alice'), PAGE)).count;
      expect({ escalates: told === 1, paused: asked === 1 }).toEqual({
        escalates: expected['escalates'] ?? false,
        paused: expected['paused'] ?? false,
      });
      const first = (await workspace.live(INTERVAL)).filter(({ mailbox }) => mailbox === 'bob').length;
      const second = (await workspace.live(INTERVAL)).filter(({ mailbox }) => mailbox === 'bob').length;
      const quiet = expected['escalates'] || expected['paused'];
      expect(`${first} ${second}`).toBe(quiet ? '0 0' : expected['extends'] ? '0 1' : '1 1');
      expect(await open(workspace, sent)).toBe(true);
    },
  );

  it('is as old as its message, and after a time in which nobody looked it comes back once [C2A-N16]', async () => {
    const { workspace, sent } = await halted();
    workspace.pass(10 * INTERVAL);
    const back = await workspace.work();
    expect(back).toMatchObject([{ id: sent.message.id, at: Date.parse(sent.message.ts) }]);
    expect(await workspace.work()).toEqual([]);
  });

  it('is inherited by an edit, discharged by its author’s deleting and by nobody else’s [C2A-N18]', async () => {
    const { workspace, sent } = await halted();
    await workspace.live(INTERVAL);
    const edited = await edit(workspace, alice, workspace.own, sent.message.id, {
      body: 'free the lock of the parser',
    });
    expect(await open(workspace, sent)).toBe(false);
    expect(await workspace.own.journal.obligation(bob, edited.message.id)).toMatchObject({
      kind: 'obligation',
      returns: 1,
      at: Date.parse(sent.message.ts),
      ended: null,
    });
    await remove(workspace, carol, workspace.own, edited.message.id);
    expect(await open(workspace, edited)).toBe(true);
    await workspace.own.journal.prune({ bodies: workspace.now() + WEEK, facts: workspace.now() + WEEK });
    expect(await open(workspace, edited)).toBe(true);
    expect((await blocked(workspace.who('alice'), PAGE)).obligations.map(({ id }) => id)).toEqual([edited.message.id]);
    await remove(workspace, alice, workspace.own, edited.message.id);
    expect(await open(workspace, edited)).toBe(false);
    expect((await owe(workspace.who('bob'), PAGE)).count).toBe(0);
  });

  it('is never closed by anything that its reader does, in any order, nor by time [C2A-N10] [C2A-N11]', async () => {
    const anAct = fc.oneof(
      fc.constantFrom(...(Object.keys(SIGNALS) as KnownSignal[])).map((signal) => ({ signal })),
      fc.constantFrom('read', 'ack', 'reply', 'defer', 'resolve', 'claim').map((verb) => ({ verb })),
      fc.integer({ min: 1, max: 30 }).map((minutes) => ({ minutes })),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(anAct, { maxLength: 12 }), async (acts) => {
        const { workspace, sent } = await halted();
        for (const act of acts) await does(workspace, sent, act);
        expect(await open(workspace, sent)).toBe(true);
        await react(workspace, workspace.who('alice'), sent.message.id, { signal: 'done', recipient: bob });
        expect(await open(workspace, sent)).toBe(false);
      }),
      { numRuns: 100 },
    );
  });

  it('is known from both sides right after a restart, by one call each [C2A-N19]', async () => {
    const env = { PARLEY_HOME: temporaryHome(), BACKCHANNEL_HOME: `${temporaryHome()}/none` };
    const opened = () => openWorkspace(env, { bodyLimit: BODY_LIMIT, durability: 'normal' });
    const before = opened();
    const [home] = before.homes;
    for (const name of [alice, bob]) await home?.directory.register(name, 'agent');
    const { message } = await send(before, alice, aDraft({ obligation: { blocks: 'halted' } }));
    await home?.journal.close();
    const [own] = opened().homes;
    if (!own) throw new Error('a workspace has a home');
    expect((await owe({ name: bob, home: own }, PAGE)).obligations).toMatchObject([{ id: message.id, from: 'alice' }]);
    expect((await blocked({ name: alice, home: own }, PAGE)).obligations).toMatchObject([
      { id: message.id, mailbox: 'bob' },
    ]);
    expect((await owe({ name: alice, home: own }, PAGE)).count).toBe(0);
  });

  it('goes up when it comes, if its reader had said blocked before [C2A-N17]', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const will = await anOwner(workspace);
    const id = workspace.newId();
    await react(workspace, workspace.who('bob'), id, { signal: 'blocked' });
    await send({ ...workspace, newId: () => id }, alice, aDraft({ obligation: { blocks: 'halted' } }));
    await workspace.work();
    expect((await owe({ name: will, home: workspace.own }, PAGE)).count).toBe(1);
  });
});

async function open(workspace: TestWorkspace, { message }: Sent): Promise<boolean> {
  await owe(workspace.who('bob'), PAGE);
  const obligation = await workspace.own.journal.obligation(bob, message.id);
  return obligation !== null && obligation.ended === null;
}

type Act = { signal: KnownSignal } | { verb: string } | { minutes: number };

/** What bob does, or what time does meanwhile. He may be told that he cannot. */
async function does(workspace: TestWorkspace, { message }: Sent, act: Act): Promise<void> {
  const who = workspace.who('bob');
  const verbs: Record<string, () => Promise<unknown>> = {
    read: async () =>
      deliver(who, [message.id], { disposition: 'acknowledged', by: { by: 'hook' } }, () => ({
        show: () => {},
        slow: false,
      })),
    ack: async () => settle(who, message.id, 'acknowledged', { by: 'ack' }, false, workspace.now()),
    reply: async () => answer(workspace, who, workspace.own, message.id, aDraft({ body: 'see 1a2b3c4' })),
    defer: async () => defer(workspace, who, message.id, { reason: 'later' }),
    resolve: async () => resolve(workspace, who, message.id),
    claim: async () => claim(workspace, who, message.id),
  };
  try {
    if ('minutes' in act) await workspace.live(act.minutes * MINUTE);
    else if ('signal' in act) await react(workspace, who, message.id, act);
    else await verbs[act.verb]?.();
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
  }
}
