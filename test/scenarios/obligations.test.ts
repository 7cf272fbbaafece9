import { describe, expect, it } from 'bun:test';
import * as fc from 'fast-check';
import { homes } from '../../src/daemon/homes.ts';
import { claim } from '../../src/flow/claim.ts';
import { defer } from '../../src/flow/defer.ts';
import { deliver } from '../../src/flow/deliver.ts';
import { edit, remove } from '../../src/flow/edit.ts';
import { blocked, owe } from '../../src/flow/owe.ts';
import { react } from '../../src/flow/react.ts';
import { resolve } from '../../src/flow/resolve.ts';
import { answer, send } from '../../src/flow/send.ts';
import type { Sent } from '../../src/flow/send.ts';
import { settle } from '../../src/flow/settle.ts';
import type { Duty } from '../../src/protocol/duty.ts';
import { BODY_LIMIT } from '../../src/protocol/message.ts';
import type { AgentName } from '../../src/protocol/names.ts';
import { Refusal } from '../../src/protocol/refusal.ts';
import { SIGNALS } from '../../src/protocol/signal.ts';
import type { KnownSignal } from '../../src/protocol/signal.ts';
import { aDraft } from '../support/desk.ts';
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
): Promise<{ desk: TestWorkspace; sent: Sent; will: AgentName }> {
  const desk = await aWorkspace('alice', 'bob', 'carol', 'dora');
  const will = await anOwner(desk);
  const sent = await send(desk, alice, aDraft({ obligation: { blocks: 'halted', ...fields }, body: 'free the lock' }));
  return { desk, sent, will };
}

/** What comes back to its reader meanwhile; or nothing at all, where returns are switched off. */
type Lives = (desk: TestWorkspace, ms: number) => Promise<Duty[]>;
const withReturns: Lives = async (desk, ms) => desk.live(ms);
const withoutReturns: Lives = async (desk, ms) => {
  desk.pass(ms);
  return [];
};

/** Arm A: whoever only said that it is done hears of it again, until the author says so. */
async function armA(lives: Lives): Promise<void> {
  const { desk, sent } = await halted();
  await react(desk, desk.who('bob'), sent.message.id, { signal: 'done' });
  const back = await lives(desk, INTERVAL);
  expect(back).toMatchObject([{ mailbox: 'bob', id: sent.message.id, returns: 1 }]);
  await react(desk, desk.who('alice'), sent.message.id, { signal: 'done', recipient: bob });
  expect(await lives(desk, 10 * INTERVAL)).toEqual([]);
  expect((await owe(desk.who('bob'), PAGE)).count).toBe(0);
}

/** Arm C: what its reader leaves undone is seen at another. */
async function armC(lives: Lives): Promise<void> {
  const { desk, sent, will } = await halted();
  await lives(desk, 4 * INTERVAL);
  const { duties } = await owe({ name: will, home: desk.own }, PAGE);
  expect(duties).toMatchObject([{ kind: 'obligation', message: { thread: sent.message.id } }]);
}

describe('an obligation', () => {
  it('is created by its object alone: a plain message is no obligation [C2A-N8]', async () => {
    const desk = await aWorkspace('alice', 'bob');
    await anOwner(desk);
    const fields = { blocks: 'degraded', defaultAction: 'I use the old parser', delegate: 'carol' };
    const plain = await send(desk, alice, aDraft({ intent: 'blocker', priority: 'urgent' }));
    desk.pass(1);
    const obliging = await send(desk, alice, aDraft({ obligation: fields }));
    const { duties } = await owe(desk.who('bob'), PAGE);
    expect(duties.map(({ id, kind }) => [id, kind])).toEqual([
      [plain.message.id, 'reply'],
      [obliging.message.id, 'obligation'],
    ]);
    expect(obliging.message.parley?.obligation).toEqual(fields as never);
    await desk.live(WEEK);
    const left = (await owe(desk.who('bob'), PAGE)).duties;
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
    const desk = await aWorkspace('alice', 'bob', 'carol');
    await inChannel(desk, '#dev', 'bob', 'carol');
    await withRole(desk, 'backend', 'bob', 'carol');
    const sent = send(desk, alice, aDraft({ obligation: { blocks: 'halted' }, ...fields }));
    await expect(sent).rejects.toMatchObject({ code: 'invalid_request' });
    expect(await desk.own.spool.ids(bob)).toEqual([]);
  });

  it('arm A: comes back after its reader’s done, and is discharged by its author’s, who names the reader [C2A-N10]', async () => {
    await armA(withReturns);
  });

  it('arm B: is discharged by the author or the delegate alone, and for good [C2A-N10]', async () => {
    const { desk, sent } = await halted({ delegate: 'carol' });
    const id = sent.message.id;
    await react(desk, desk.who('bob'), id, { signal: 'done' });
    await react(desk, desk.who('dora'), id, { signal: 'done', recipient: bob });
    await react(desk, desk.who('carol'), id, { signal: 'agree', recipient: bob });
    expect(await open(desk, sent)).toBe(true);
    await react(desk, desk.who('carol'), id, { signal: 'done', recipient: carol });
    expect(await open(desk, sent)).toBe(true);
    await react(desk, desk.who('carol'), id, { signal: 'done', recipient: bob });
    expect(await open(desk, sent)).toBe(false);
    await react(desk, desk.who('bob'), id, { signal: 'blocked' });
    expect(await open(desk, sent)).toBe(false);
    expect(await desk.live(WEEK)).toEqual([]);
  });

  it.each([
    ['of another, who names the reader', 'dora', { recipient: bob }],
    ['of the delegate, who names nobody', 'carol', {}],
    ['of the author, who names nobody', 'alice', {}],
  ])('is not discharged by a done that was there before it: %s [C2A-N10]', async (_whose, name, fields) => {
    const desk = await aWorkspace('alice', 'bob', 'carol', 'dora');
    const id = desk.newId();
    await react(desk, desk.who(name), id, { signal: 'done', ...fields });
    const obligation = { blocks: 'halted', delegate: 'carol' };
    const sent = await send({ ...desk, newId: () => id }, alice, aDraft({ obligation }));
    expect(await open(desk, sent)).toBe(true);
  });

  it('arm D: is closed by no reading, no reply, no signal of its reader and no time, and reading changes nothing [C2A-N11]', async () => {
    const acts: ((desk: TestWorkspace, sent: Sent) => Promise<unknown>)[] = [
      async () => {},
      async (desk, { message }) =>
        deliver(desk.who('bob'), [message.id], { disposition: 'acknowledged', by: { by: 'hook' } }, () => ({
          show: () => {},
          slow: false,
        })),
      async (desk, { message }) =>
        settle(desk.who('bob'), message.id, 'acknowledged', { by: 'ack' }, false, desk.now()),
      async (desk, { message }) => answer(desk, desk.who('bob'), desk.own, message.id, aDraft({ body: 'in 1a2b3c4' })),
      async (desk, { message }) => react(desk, desk.who('bob'), message.id, { signal: 'seen' }),
      async (desk, { message }) => react(desk, desk.who('bob'), message.id, { signal: 'agree' }),
      async (desk, { message }) => react(desk, desk.who('bob'), message.id, { signal: 'claimed' }),
    ];
    const lives: unknown[] = [];
    for (const [act, isKnown] of acts.flatMap((one) => [[one, true] as const, [one, false] as const])) {
      const { desk, sent } = await halted();
      if (isKnown) await owe(desk.who('bob'), PAGE);
      await act(desk, sent);
      const began = desk.now();
      const back: number[] = [];
      for (let n = 0; n < 8; n += 1) {
        for (const _ of await desk.live(INTERVAL)) back.push(desk.now() - began);
      }
      await desk.live(WEEK);
      lives.push({ back, open: await open(desk, sent) });
    }
    expect(new Set(lives.map((life) => JSON.stringify(life))).size).toBe(1);
    expect(lives[0]).toEqual({ back: [INTERVAL, 2 * INTERVAL, 3 * INTERVAL], open: true });
  });

  it('arm C: is escalated to one other as a duty of its own, and those for the same one are joined [C2A-N13]', async () => {
    await armC(withReturns);
    const { desk, sent, will } = await halted();
    desk.pass(1);
    const second = await send(
      desk,
      carol,
      aDraft({ to: '@dora', obligation: { blocks: 'degraded' }, body: 'and this' }),
    );
    await desk.live(4 * INTERVAL);
    const { duties } = await owe({ name: will, home: desk.own }, PAGE);
    expect(duties).toHaveLength(1);
    expect(duties[0]?.message?.refs).toEqual([`${sent.message.id}:bob`, `${second.message.id}:dora`]);
    expect(await desk.own.spool.ids(will)).toHaveLength(1);
    await react(desk, desk.who('alice'), sent.message.id, { signal: 'done', recipient: bob });
    expect((await owe({ name: will, home: desk.own }, PAGE)).count).toBe(1);
    await react(desk, desk.who('carol'), second.message.id, { signal: 'done' });
    expect((await owe({ name: will, home: desk.own }, PAGE)).count).toBe(0);
  });

  it('goes to a coordinator first, who is reminded too, and then to the person [C2A-N13]', async () => {
    const { desk, will } = await halted();
    await withRole(desk, 'lead', 'carol');
    await desk.live(4 * INTERVAL);
    expect((await owe(desk.who('carol'), PAGE)).duties).toMatchObject([{ kind: 'obligation', tier: 1 }]);
    expect((await owe({ name: will, home: desk.own }, PAGE)).count).toBe(0);
    const back = await desk.live(3 * INTERVAL);
    expect(back.map(({ mailbox }) => mailbox).join(' ')).toBe('carol carol carol');
    await desk.live(2 * INTERVAL);
    expect((await owe({ name: will, home: desk.own }, PAGE)).duties).toMatchObject([{ tier: 2 }]);
  });

  it.each(['A', 'C'])('without returns arm %s fails: the checks do check [C2A-N21]', async (arm) => {
    const failed = await (arm === 'A' ? armA : armC)(withoutReturns).then(
      () => false,
      () => true,
    );
    expect(failed).toBe(true);
  });

  it('comes back at equal intervals, three times [C2A-N12] [C2A-D11]', async () => {
    const { desk, sent } = await halted();
    const times: number[] = [];
    for (let minute = 1; minute <= 60; minute += 1) {
      for (const _ of await desk.live(MINUTE)) times.push(minute);
    }
    expect(times).toEqual([5, 10, 15]);
    expect(await desk.own.ledger.duty(bob, sent.message.id)).toMatchObject({ returns: 3, ended: null });
  });

  it('stays with a person, without returns, until it is discharged [C2A-N14]', async () => {
    const { desk, sent, will } = await halted();
    await desk.live(4 * INTERVAL);
    expect(await desk.live(WEEK)).toEqual([]);
    expect((await owe({ name: will, home: desk.own }, PAGE)).count).toBe(1);
    await react(desk, desk.who('alice'), sent.message.id, { signal: 'done', recipient: bob });
    expect((await owe({ name: will, home: desk.own }, PAGE)).count).toBe(0);
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
      const { desk, sent, will } = await halted();
      await react(desk, desk.who('bob'), sent.message.id, { signal });
      await react(desk, desk.who('bob'), sent.message.id, { signal, eta: 'once more' });
      const told = (await owe({ name: will, home: desk.own }, PAGE)).count;
      const asked = (await owe(desk.who('alice'), PAGE)).count;
      expect({ escalates: told === 1, paused: asked === 1 }).toEqual({
        escalates: expected['escalates'] ?? false,
        paused: expected['paused'] ?? false,
      });
      const first = (await desk.live(INTERVAL)).filter(({ mailbox }) => mailbox === 'bob').length;
      const second = (await desk.live(INTERVAL)).filter(({ mailbox }) => mailbox === 'bob').length;
      const quiet = expected['escalates'] || expected['paused'];
      expect(`${first} ${second}`).toBe(quiet ? '0 0' : expected['extends'] ? '0 1' : '1 1');
      expect(await open(desk, sent)).toBe(true);
    },
  );

  it('is as old as its message, and after a time in which nobody looked it comes back once [C2A-N16]', async () => {
    const { desk, sent } = await halted();
    desk.pass(10 * INTERVAL);
    const back = await desk.work();
    expect(back).toMatchObject([{ id: sent.message.id, at: Date.parse(sent.message.ts) }]);
    expect(await desk.work()).toEqual([]);
  });

  it('is inherited by an edit, discharged by its author’s deleting and by nobody else’s [C2A-N18]', async () => {
    const { desk, sent } = await halted();
    await desk.live(INTERVAL);
    const edited = await edit(desk, alice, desk.own, sent.message.id, 'free the lock of the parser');
    expect(await open(desk, sent)).toBe(false);
    expect(await desk.own.ledger.duty(bob, edited.message.id)).toMatchObject({
      kind: 'obligation',
      returns: 1,
      at: Date.parse(sent.message.ts),
      ended: null,
    });
    await remove(desk, carol, desk.own, edited.message.id);
    expect(await open(desk, edited)).toBe(true);
    await desk.own.ledger.prune({ bodies: desk.now() + WEEK, facts: desk.now() + WEEK });
    expect(await open(desk, edited)).toBe(true);
    expect((await blocked(desk.who('alice'), PAGE)).duties.map(({ id }) => id)).toEqual([edited.message.id]);
    await remove(desk, alice, desk.own, edited.message.id);
    expect(await open(desk, edited)).toBe(false);
    expect((await owe(desk.who('bob'), PAGE)).count).toBe(0);
  });

  it('is never closed by anything that its reader does, in any order, nor by time [C2A-N10] [C2A-N11]', async () => {
    const anAct = fc.oneof(
      fc.constantFrom(...(Object.keys(SIGNALS) as KnownSignal[])).map((signal) => ({ signal })),
      fc.constantFrom('read', 'ack', 'reply', 'defer', 'resolve', 'claim').map((verb) => ({ verb })),
      fc.integer({ min: 1, max: 30 }).map((minutes) => ({ minutes })),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(anAct, { maxLength: 12 }), async (acts) => {
        const { desk, sent } = await halted();
        for (const act of acts) await does(desk, sent, act);
        expect(await open(desk, sent)).toBe(true);
        await react(desk, desk.who('alice'), sent.message.id, { signal: 'done', recipient: bob });
        expect(await open(desk, sent)).toBe(false);
      }),
      { numRuns: 100 },
    );
  });

  it('is known from both sides right after a restart, by one call each [C2A-N19]', async () => {
    const env = { PARLEY_HOME: temporaryHome(), BACKCHANNEL_HOME: `${temporaryHome()}/none` };
    const opened = () => homes.openWorkspace(env, { bodyLimit: BODY_LIMIT, durability: 'normal' }, 'parley');
    const before = opened();
    const [home] = before.homes;
    for (const name of [alice, bob]) await home?.directory.register(name, 'agent');
    const { message } = await send(before, alice, aDraft({ obligation: { blocks: 'halted' } }));
    await home?.ledger.close();
    const [own] = opened().homes;
    if (!own) throw new Error('a desk has a home');
    expect((await owe({ name: bob, home: own }, PAGE)).duties).toMatchObject([{ id: message.id, from: 'alice' }]);
    expect((await blocked({ name: alice, home: own }, PAGE)).duties).toMatchObject([
      { id: message.id, mailbox: 'bob' },
    ]);
    expect((await owe({ name: alice, home: own }, PAGE)).count).toBe(0);
  });

  it('goes up when it comes, if its reader had said blocked before [C2A-N17]', async () => {
    const desk = await aWorkspace('alice', 'bob');
    const will = await anOwner(desk);
    const id = desk.newId();
    await react(desk, desk.who('bob'), id, { signal: 'blocked' });
    await send({ ...desk, newId: () => id }, alice, aDraft({ obligation: { blocks: 'halted' } }));
    await desk.work();
    expect((await owe({ name: will, home: desk.own }, PAGE)).count).toBe(1);
  });
});

async function open(desk: TestWorkspace, { message }: Sent): Promise<boolean> {
  await owe(desk.who('bob'), PAGE);
  const duty = await desk.own.ledger.duty(bob, message.id);
  return duty !== null && duty.ended === null;
}

type Act = { signal: KnownSignal } | { verb: string } | { minutes: number };

/** What bob does, or what time does meanwhile. He may be told that he cannot. */
async function does(desk: TestWorkspace, { message }: Sent, act: Act): Promise<void> {
  const who = desk.who('bob');
  const verbs: Record<string, () => Promise<unknown>> = {
    read: async () =>
      deliver(who, [message.id], { disposition: 'acknowledged', by: { by: 'hook' } }, () => ({
        show: () => {},
        slow: false,
      })),
    ack: async () => settle(who, message.id, 'acknowledged', { by: 'ack' }, false, desk.now()),
    reply: async () => answer(desk, who, desk.own, message.id, aDraft({ body: 'see 1a2b3c4' })),
    defer: async () => defer(desk, who, message.id, { reason: 'later' }),
    resolve: async () => resolve(desk, who, message.id),
    claim: async () => claim(desk, who, message.id),
  };
  try {
    if ('minutes' in act) await desk.live(act.minutes * MINUTE);
    else if ('signal' in act) await react(desk, who, message.id, act);
    else await verbs[act.verb]?.();
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
  }
}
