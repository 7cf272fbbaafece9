import { describe, expect, it, onTestFinished } from 'bun:test';
import { aDraft } from '../../test/support/durable-workspace.ts';
import { aKey, alice, aMessage, copiesFor } from '../../test/support/mail.ts';
import { ScriptedLive } from '../../test/support/scripted-live.ts';
import { within } from '../../test/support/within.ts';
import { anOwner, aWorkspace } from '../../test/support/workspace.ts';
import { send } from '../core/mail/send.ts';
import { settle } from '../core/mail/settle.ts';
import type { Draft, Message } from '../core/message.ts';
import type { AgentName, MessageId } from '../core/names.ts';
import type { LiveSession } from '../core/ports/live-session.ts';
import { Follower } from './follower.ts';
import { fenced, peopleAmong } from './fit.ts';
import { homeMailbox } from './hook-mailbox.ts';
import { OfferedTexts } from './hook-offered.ts';
import { HookSessionFolder, mailboxOf } from './hook-session.ts';
import { WakeBudget } from './wake-budget.ts';

const BOB = 'claude.api' as AgentName;
const WEB = 'claude.web' as AgentName;
const HOUR_MS = 60 * 60_000;

/** A follower over scripted sessions: `s1` is claude.api's, and `web` claude.web's. */
async function aRig() {
  const workspace = await aWorkspace('alice', BOB, WEB);
  const claude = new ScriptedLive('claude', workspace.now);
  const nameOf = ({ id }: LiveSession) => (id === 'web' ? WEB : BOB);
  const copyOf = async (id: MessageId, name = BOB) =>
    (await workspace.own.journal.trace(id))?.copies.find(({ mailbox }) => mailbox === name);
  const phrases = async (reader: AgentName, mail: Parameters<typeof peopleAmong>[1], now: number) =>
    fenced({ reader, mark: 'abc', now, ago: () => 'just now', people: await peopleAmong(workspace.own, mail) });
  return {
    workspace,
    claude,
    follow(): Follower {
      const follower = new Follower({
        workspace,
        clients: new Map([['claude', claude]]),
        mailboxesOf: async (live) => [{ who: workspace.who(nameOf(live)), match: '' }],
        hookRecordOf: () => null,
        phrases: ({ name }, mail, now) => phrases(name, mail, now),
        settings: { wakesPerHour: 30, captureRemote: false },
        log: () => {},
        limits: { lookMs: 50, tickMs: 50 },
      });
      onTestFinished(() => follower.close());
      return follower;
    },
    send: async (draft: Partial<Draft> = {}) =>
      (await send(workspace, alice, aDraft({ to: `@${BOB}`, intent: 'question', ...draft }))).message.id,
    /** Two agents must answer it. */
    async sendToBoth(): Promise<Message> {
      const message = aMessage({ to: '#dev', body: 'which port is it?' });
      await workspace.own.mailboxes.put({ message, copies: copiesFor(BOB, WEB), key: aKey() });
      return message;
    },
    state: async (id: MessageId, name = BOB) => (await copyOf(id, name))?.state,
    steps: async (id: MessageId) => ((await copyOf(id))?.receipts ?? []).map(({ step }) => step),
    /** The messages about which the record is asked from now on. */
    asked(): MessageId[] {
      const asked: MessageId[] = [];
      const proof = claude.proof.bind(claude);
      claude.proof = (session, id, since) => {
        asked.push(id);
        return proof(session, id, since);
      };
      return asked;
    },
    /** What alice got. */
    bodies: async () => (await workspace.own.mailboxes.peek(alice)).map(({ message }) => message.body),
    /** What the hook of session s1 would show now. */
    async hookLook(): Promise<{ bodies: string[]; isNoted: boolean }> {
      const who = workspace.who(BOB);
      const session = HookSessionFolder.open(workspace.own.root, 's1');
      if (!session) throw new Error('it is a name of a folder');
      session.bind({ v: 1, by: 'claude', agent: BOB, match: '', cwd: '/' }, mailboxOf(who));
      const deps = { readerNamed: async () => who, recordOf: () => null, worksSince: async () => null, complain() {} };
      const offered = new OfferedTexts(session, deps);
      const options = { who, match: '', offered, fineTimes: true, write() {}, phrases };
      const look = await homeMailbox(options).look(true);
      look.nothingLeft();
      const isNoted = await Bun.file(`${session.folder}/seen.hi`).exists();
      return { bodies: look.mail.map(({ message }) => message.body), isNoted };
    },
    /** As a hook of a session shows it. */
    async shownByHook(id: MessageId, session: string): Promise<void> {
      const claim = await workspace.own.mailboxes.claim(BOB, [id], { ms: 1000, bearer: 'hook-x' });
      const by = { by: 'hook', session };
      await workspace.own.mailboxes.settle(claim, [id], { disposition: 'acknowledged', by }, 'shown');
    },
    /** The next write of a mailbox fails. */
    failOnce(): void {
      const { mailboxes } = workspace.own;
      const put = mailboxes.put.bind(mailboxes);
      mailboxes.put = () => {
        mailboxes.put = put;
        throw new Error('disk trouble');
      };
    },
  };
}

type Rig = Awaited<ReturnType<typeof aRig>>;

/** The follower has looked at everything at least twice since. */
async function looked({ claude }: Rig): Promise<void> {
  const { lists } = claude;
  await within(10_000, async () => claude.changed().lists > lists + 2);
}

const settled = (rig: Rig, id: MessageId, name = BOB) =>
  within(10_000, async () => (await rig.state(id, name)) === 'settled');

describe('a session that answers a question', () => {
  async function asked(): Promise<{ rig: Rig; id: MessageId; follower: Follower }> {
    const rig = await aRig();
    // The hook is a program of its own, with the clock of the machine.
    rig.workspace.pass(Date.now() - rig.workspace.now());
    rig.claude.add('s1').endsTurn = false;
    const id = await rig.send({ body: 'A?' });
    const follower = rig.follow();
    await settled(rig, id);
    rig.claude.add('s1', { status: 'active' });
    return { rig, id, follower };
  }

  it('is shown no other mail by its hook, and gets it as a turn of its own afterwards', async () => {
    const { rig, id } = await asked();
    const next = await rig.send({ body: 'B meanwhile?' });
    expect(await rig.hookLook()).toEqual({ bodies: [], isNoted: false });
    rig.claude.show('s1', id, { id: 't1', end: { how: 'done', text: 'A is fine.' } }).add('s1');
    await settled(rig, next);
    rig.claude.show('s1', next, { id: 't2', end: { how: 'done', text: 'B is fine.' } });
    await within(10_000, async () => (await rig.bodies()).length === 2);
    expect((await rig.bodies()).toSorted()).toEqual(['A is fine.', 'B is fine.']);
  });

  it('is given no other mail also when an older question turns out to get no answer', async () => {
    const rig = await aRig();
    rig.workspace.pass(Date.now() - rig.workspace.now());
    Object.assign(rig.claude.add('s1', { status: 'active' }), { beginsTurn: false, endsTurn: false });
    rig.follow();
    const older = await rig.send({ body: 'joins a turn?' });
    await settled(rig, older);
    rig.claude.sessions.clear();
    rig.claude.changed();
    await looked(rig);
    const id = await rig.send({ body: 'A?' });
    rig.claude.beginsTurn = true;
    const asked = rig.asked();
    rig.claude.add('s1');
    await settled(rig, id);
    await within(10_000, async () => asked.includes(older));
    await looked(rig);
    await rig.send({ body: 'the key was rotated', intent: 'fyi' });
    expect((await rig.hookLook()).bodies).toEqual([]);
    await looked(rig);
    expect(rig.claude.texts('s1')).toHaveLength(2);
  });

  it('is given no other mail by a follower that was started again in its turn', async () => {
    const { rig, id, follower } = await asked();
    await follower.close();
    const next = await rig.send({ body: 'B meanwhile?' });
    rig.follow();
    await looked(rig);
    expect(rig.claude.texts('s1')).toHaveLength(1);
    expect((await rig.hookLook()).bodies).toEqual([]);
    rig.claude.show('s1', id, { id: 't1', end: { how: 'done', text: 'A is fine.' } }).add('s1');
    await settled(rig, next);
    expect(await rig.bodies()).toEqual(['A is fine.']);
  });

  it('is shown urgent mail by its hook', async () => {
    const { rig, follower } = await asked();
    await follower.close();
    HookSessionFolder.open(rig.workspace.own.root, 's1')?.delayMail(Date.now() + 60_000);
    await rig.send({ body: 'B meanwhile?' });
    await rig.send({ body: 'stop', priority: 'urgent' });
    expect((await rig.hookLook()).bodies).toEqual(['stop']);
  });

  it('is shown the other mail when the follower ends, when it has died, and when the question takes too long', async () => {
    const { rig, follower } = await asked();
    await follower.close();
    await rig.send({ body: 'B meanwhile?' });
    expect((await rig.hookLook()).bodies).toEqual(['B meanwhile?']);
    const folder = HookSessionFolder.open(rig.workspace.own.root, 's1');
    folder?.delayMail(Date.now() - 1);
    expect((await rig.hookLook()).bodies).toEqual(['B meanwhile?']);
    folder?.delayMail(Date.now() + 60_000);
    expect((await rig.hookLook()).bodies).toEqual([]);
    const mark = `${folder?.folder}/answering.json`;
    const text = await Bun.file(mark).text();
    await Bun.write(mark, text.replace(/"by":"[^.]+/, '"by":"an-earlier-boot'));
    expect((await rig.hookLook()).bodies).toEqual(['B meanwhile?']);
  });
});

describe('a captured answer', () => {
  it('is not promised to a question that joins a turn: its text says that only a reply reaches the sender', async () => {
    const rig = await aRig();
    const only = 'Only this reaches them: the tool reply';
    rig.claude.add('s1', { status: 'active' });
    rig.follow();
    await settled(rig, await rig.send({ body: 'joins?' }));
    expect(rig.claude.texts('s1')).toEqual([expect.stringContaining(only)]);
    rig.claude.add('s1');
    await settled(rig, await rig.send({ body: 'begins?' }));
    expect(rig.claude.texts('s1')[1]).toContain('Answer with the tool reply');
    expect(rig.claude.texts('s1')[1]).not.toContain(only);
  });

  it('survives a failure to write it', async () => {
    const rig = await aRig();
    rig.claude.add('s1').endsTurn = false;
    const id = await rig.send();
    rig.follow();
    await settled(rig, id);
    await looked(rig);
    rig.failOnce();
    rig.claude.show('s1', id, { id: 't1', end: { how: 'done', text: 'port 80' } });
    await within(10_000, async () => (await rig.bodies()).length > 0);
    expect(await rig.bodies()).toEqual(['port 80']);
  });

  it('comes from each of two agents that were asked by one message', async () => {
    const rig = await aRig();
    rig.claude.endsTurn = false;
    rig.claude.add('s1').add('web');
    rig.follow();
    const { id } = await rig.sendToBoth();
    for (const name of [BOB, WEB]) await settled(rig, id, name);
    await looked(rig);
    for (const session of ['s1', 'web'])
      rig.claude.show(session, id, { id: session, end: { how: 'done', text: `port of ${session}` } });
    await within(10_000, async () => (await rig.bodies()).length === 2);
    expect((await rig.bodies()).toSorted()).toEqual(['port of s1', 'port of web']);
  });
});

describe('an alarm for a question without an answer', () => {
  it('comes also if a hook showed it after a handover was lost, and the follower may end then', async () => {
    const rig = await aRig();
    await anOwner(rig.workspace);
    rig.claude.add('s1').mode = 'silent';
    const first = rig.follow();
    const id = await rig.send();
    await within(10_000, async () => (await rig.state(id)) === 'held');
    rig.claude.sessions.clear();
    rig.claude.changed();
    await within(10_000, async () => (await rig.state(id)) === 'stored');
    await first.close();
    await rig.shownByHook(id, 's2');
    rig.claude.add('s2', { status: 'active' });
    const next = rig.follow();
    await looked(rig);
    rig.workspace.pass(3 * HOUR_MS);
    await within(10_000, async () => (await rig.steps(id)).includes('escalated'));
    rig.claude.sessions.clear();
    await within(10_000, async () => !next.isBusy);
  });

  it.each([
    ['works on it, for an hour at most', 'active', 50 * 60_000, 20 * 60_000],
    ['works on it, not while it waits for its user', 'waiting', 0, 6 * 60_000],
  ] as const)('does not come while the session %s', async (_what, status, quietMs, lateMs) => {
    const rig = await aRig();
    await anOwner(rig.workspace);
    rig.claude.add('s1').endsTurn = false;
    rig.follow();
    const id = await rig.send();
    await settled(rig, id);
    rig.claude.add('s1', { status });
    await looked(rig);
    rig.workspace.pass(quietMs);
    await looked(rig);
    expect(await rig.steps(id)).not.toContain('escalated');
    rig.workspace.pass(lateMs);
    await within(10_000, async () => (await rig.steps(id)).includes('escalated'));
  });

  it('comes however many older questions are open', async () => {
    const rig = await aRig();
    await anOwner(rig.workspace);
    for (let n = 0; n < 101; n += 1) await rig.shownByHook(await rig.send({ body: `${n}?` }), 's2');
    rig.workspace.pass(5 * 24 * HOUR_MS);
    const id = await rig.send();
    await rig.shownByHook(id, 's2');
    rig.workspace.pass(HOUR_MS);
    rig.claude.add('s1', { status: 'active' });
    rig.follow();
    await within(10_000, async () => (await rig.steps(id)).includes('escalated'));
  });
});

describe('a session whose model did not answer', () => {
  async function stuck(): Promise<{ rig: Rig; id: MessageId; follower: Follower }> {
    const rig = await aRig();
    rig.claude.add('s1').mode = 'silent';
    const follower = rig.follow();
    const id = await rig.send();
    await within(10_000, async () => (await rig.state(id)) === 'held' && rig.claude.texts('s1').length > 0);
    await looked(rig);
    return { rig, id, follower };
  }

  it('gets its mail at once when its stuck message was ended by its reader', async () => {
    const { rig, id } = await stuck();
    rig.claude.accept('s1', id, 'out of quota');
    await within(10_000, async () => (await rig.steps(id)).includes('accepted'));
    await looked(rig);
    rig.claude.mode = 'prove';
    await settle(rig.workspace.who(BOB), id, 'responded', { by: 'ack' });
    for (const body of ['one', 'two']) await settled(rig, await rig.send({ body, intent: 'fyi' }));
  });

  it('gets all its mail when a later message was shown', async () => {
    const { rig, id } = await stuck();
    rig.claude.accept('s1', id, 'out of quota');
    await within(10_000, async () => (await rig.steps(id)).includes('accepted'));
    await looked(rig);
    rig.claude.mode = 'prove';
    rig.workspace.pass(301_000);
    for (const body of ['one', 'two', 'three']) await settled(rig, await rig.send({ body, intent: 'fyi' }));
    expect(await rig.state(id)).toBe('held');
  });

  it('causes a notice to the sender, also if sending that failed first', async () => {
    const { rig, id } = await stuck();
    rig.failOnce();
    rig.claude.accept('s1', id, 'out of quota');
    await within(10_000, async () => (await rig.bodies()).length > 0);
    await looked(rig);
    expect(await rig.bodies()).toEqual([expect.stringContaining('out of quota')]);
  });
});

it('a wake budget forgets sessions without a wake in the last hour', () => {
  let now = 0;
  const wakes = new WakeBudget(30, () => now);
  wakes.note('s1');
  now += 2 * HOUR_MS;
  wakes.note('s2');
  expect(wakes.sessions).toEqual(['s2']);
});
