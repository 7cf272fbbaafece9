import { describe, expect, it, onTestFinished, setSystemTime } from 'bun:test';
import { aDraft } from '../../test/support/durable-workspace.ts';
import { aRig, BOB, looked, printed, settled } from '../../test/support/followed.ts';
import type { Rig } from '../../test/support/followed.ts';
import { alice } from '../../test/support/mail.ts';
import { ScriptedLive } from '../../test/support/scripted-live.ts';
import { within } from '../../test/support/within.ts';
import { anOwner } from '../../test/support/workspace.ts';
import { send } from '../core/mail/send.ts';
import { settle } from '../core/mail/settle.ts';
import { defer } from '../core/obligations/defer.ts';
import type { Draft } from '../core/message.ts';
import { Scope } from '../core/names.ts';
import type { AgentName, MessageId } from '../core/names.ts';
import { HOST_NAME } from '../core/signal.ts';
import type { Follower } from './follower.ts';

describe('the follower', () => {
  it('shows a session again what it was shown and owes, when its client waits for that after a compaction', async () => {
    const rig = await aRig();
    rig.claude.add('one');
    rig.follow();
    const [owed, answered] = [await rig.send({ body: 'which port?' }), await rig.send({ body: 'which host?' })];
    await within(10_000, async () => (await settled(rig, owed)) && settled(rig, answered));
    await send(rig.workspace, BOB, aDraft({ to: '@alice', body: 'this one', thread: answered }));
    rig.claude.add('one', { compaction: 'c1' });
    await within(10_000, async () => rig.claude.again.has('one'));
    expect(rig.claude.again.get('one')?.map(({ id }) => id)).toEqual([owed]);
    await within(10_000, async () => (await rig.reasons(owed)).includes('still owed after a compaction'));
    expect(rig.claude.texts('one').filter((text) => text.includes('which port?'))).toHaveLength(1);
    rig.claude.add('nobody knows it', { compaction: 'c1' });
    await within(10_000, async () => rig.claude.again.get('nobody knows it')?.length === 0);
  });

  it('hands a message over once, however many looks there are while its text is made', async () => {
    const rig = await aRig();
    rig.claude.mode = 'silent';
    const ready = Promise.withResolvers<void>();
    rig.beforeText = () => ready.promise;
    rig.claude.add('s1', { status: 'active' });
    rig.follow();
    const id = await rig.send();
    await within(10_000, async () => (await rig.state(id)) === 'held');
    await looked(rig);
    ready.resolve();
    await within(10_000, async () => rig.claude.texts('s1').length > 0);
    await looked(rig);
    expect([rig.claude.texts('s1').length, await rig.steps(id)]).toEqual([1, ['offered']]);
  });

  it('gives an idle session the mail that waits, and settles it on the proof of the client', async () => {
    const rig = await aRig();
    const id = await rig.send({ body: 'are you there' });
    rig.claude.add('s1');
    rig.follow();
    await within(10_000, () => settled(rig, id));
    expect(rig.claude.texts('s1')).toEqual([expect.stringContaining('are you there')]);
    expect(await rig.steps(id)).toEqual(['offered', 'shown']);
  });

  it('gives a session mail that comes later, each message once', async () => {
    const rig = await aRig();
    rig.claude.add('s1');
    rig.follow();
    const ids: MessageId[] = [];
    for (let n = 1; n <= 15; n += 1) ids.push(await rig.send({ body: `letter ${n}.` }));
    for (const id of ids) await within(10_000, () => settled(rig, id));
    const all = rig.claude.texts('s1').join('\n');
    for (let n = 1; n <= 15; n += 1) expect(all.split(`letter ${n}.`)).toHaveLength(2);
  });

  it('begins a text with who wrote the mail, and that it is not an instruction of the user', async () => {
    const rig = await aRig();
    await rig.send();
    rig.claude.add('s1');
    rig.follow();
    await within(10_000, async () => rig.claude.texts('s1').length > 0);
    expect(rig.claude.texts('s1')[0]).toStartWith(`[parley abc] Mail for @${BOB}.`);
  });

  it('marks a sender that is a person as a person', async () => {
    const rig = await aRig();
    const ada = await anOwner(rig.workspace, 'ada');
    await send(rig.workspace, ada, aDraft({ to: `@${BOB}`, body: '\nplease look\nat this' }));
    rig.claude.add('s1');
    rig.follow();
    await within(10_000, async () => rig.claude.texts('s1').length > 0);
    expect(rig.claude.texts('s1')[0]).toContain("from @ada (a person: your user's mailbox)");
  });

  it('gives a message to one of several sessions: to an idle one rather than a working one', async () => {
    const rig = await aRig();
    rig.claude.add('busy', { status: 'active' }).add('idle');
    const id = await rig.send();
    rig.follow();
    await within(10_000, () => settled(rig, id));
    expect(rig.claude.texts('busy')).toEqual([]);
    expect(rig.claude.texts('idle')).toHaveLength(1);
  });

  it('gives no mail to a session without a mailbox, nor to one that is starting', async () => {
    const rig = await aRig(({ id }) => (id === 'other' ? null : BOB));
    rig.claude.add('other').add('new', { status: 'starting' });
    const id = await rig.send();
    const follower = rig.follow();
    await within(10_000, async () => follower.sessionCount === 1);
    await follower.close();
    expect(await rig.state(id)).toBe('stored');
    expect(rig.claude.got.size).toBe(0);
  });

  it('does not hand over mail that only knocks or waits quietly', async () => {
    const rig = await aRig();
    rig.claude.add('s1');
    const status = await rig.send({ intent: 'status' });
    const id = await rig.send();
    rig.follow();
    await within(10_000, () => settled(rig, id));
    expect(await rig.state(status)).toBe('stored');
  });

  it('gives a session only mail that matches its context', async () => {
    const rig = await aRig(() => BOB, 'github.com/acme/api');
    rig.claude.add('s1');
    const other = await rig.send({ scope: Scope.parse('github.com/acme/web') });
    const ids = [await rig.send({ scope: Scope.parse('github.com/acme/api') }), await rig.send()];
    rig.follow();
    for (const id of ids) await within(10_000, () => settled(rig, id));
    expect(await rig.state(other)).toBe('stored');
  });

  it('hands waiting mail over in the order in which it was sent', async () => {
    const rig = await aRig();
    const bodies = ['first', 'second', 'third', 'fourth'];
    let last = '' as MessageId;
    for (const body of bodies) {
      last = await rig.send({ body });
      rig.workspace.pass(1000);
    }
    rig.claude.add('s1', { status: 'active' });
    rig.follow();
    await within(10_000, () => settled(rig, last));
    const all = rig.claude.texts('s1').join('\n');
    expect([...all.matchAll(/first|second|third|fourth/g)].map(([word]) => word)).toEqual(bodies);
  });

  it('does not hand over a body that is too long; its reader fetches it', async () => {
    const rig = await aRig();
    rig.claude.add('s1');
    const [long, longest] = [
      await rig.send({ body: 'x'.repeat(32_001) }),
      await rig.send({ body: 'y'.repeat(32_000) }),
    ];
    rig.follow();
    await within(10_000, () => settled(rig, longest));
    expect(await rig.state(long)).toBe('stored');
  });

  it('holds a message for the client that has it, however long that takes', async () => {
    const rig = await aRig();
    rig.claude.add('s1').mode = 'silent';
    const id = await rig.send();
    rig.follow();
    await within(10_000, async () => rig.claude.texts('s1').length > 0);
    rig.claude.accept('s1', id);
    const until = async (): Promise<number> => (await rig.workspace.own.journal.copy(BOB, id))?.until ?? 0;
    const before = await until();
    rig.workspace.pass(30 * 60 * 1000);
    await within(10_000, async () => (await until()) > before);
    expect([await rig.state(id), rig.claude.texts('s1').length]).toEqual(['held', 1]);
  });

  it('hands over, unmarked, what an earlier follower claimed and did not hand over', async () => {
    const rig = await aRig();
    const id = await rig.send();
    await rig.workspace.own.mailboxes.claim(BOB, [id], { ms: 60_000, bearer: 'follower' });
    rig.claude.add('s1');
    rig.follow();
    await within(10_000, () => settled(rig, id));
    expect(rig.claude.texts('s1')).toEqual([expect.not.stringContaining('redelivered')]);
  });

  it('records why mail could not be handed over, and tries again after a pause', async () => {
    const rig = await aRig();
    rig.claude.add('s1').mode = { outcome: 'left', because: 'the socket refused it', retry: true };
    const id = await rig.send();
    const follower = rig.follow();
    await within(10_000, async () => (await rig.steps(id)).includes('released'));
    expect(await rig.state(id)).toBe('stored');
    rig.claude.mode = 'prove';
    rig.workspace.pass(2000);
    rig.claude.changed();
    await within(10_000, () => settled(rig, id));
    expect(rig.claude.texts('s1')).toHaveLength(1);
    await follower.close();
  });

  it('does not offer a message again to a session that refused it, and offers it the next one', async () => {
    const rig = await aRig();
    rig.claude.add('s1').mode = { outcome: 'left', because: 'its user declined it', retry: false };
    const id = await rig.send();
    const first = rig.follow();
    await within(10_000, async () => (await rig.steps(id)).includes('released'));
    await first.close();
    rig.claude.mode = 'prove';
    const second = rig.follow();
    await within(10_000, async () => second.sessionCount === 1);
    rig.claude.add('s2');
    await within(10_000, () => settled(rig, id));
    expect([rig.claude.texts('s1'), rig.claude.texts('s2').length]).toEqual([[], 1]);
  });

  it('ends a message as ignored if the user of the session declined it', async () => {
    const rig = await aRig();
    rig.claude.add('s1').mode = { outcome: 'left', because: 'declined', retry: false, isDeclined: true };
    const id = await rig.send();
    rig.follow();
    await within(10_000, () => settled(rig, id));
    expect(await rig.workspace.own.journal.copy(BOB, id)).toMatchObject({ disposition: 'ignored' });
  });

  it('does not hand a message over twice while nothing is proven, and settles it when the record shows it', async () => {
    const rig = await aRig();
    rig.claude.add('s1').mode = 'silent';
    const id = await rig.send();
    rig.follow();
    await within(10_000, async () => rig.claude.texts('s1').length > 0);
    await looked(rig);
    expect(await rig.state(id)).toBe('held');
    rig.claude.show('s1', id);
    await within(10_000, () => settled(rig, id));
    expect(rig.claude.texts('s1')).toHaveLength(1);
  });

  it('after a crash settles what the record shows, and hands over again only what the client cannot have', async () => {
    const rig = await aRig();
    rig.claude.add('s1').mode = 'silent';
    const [seen, lost] = [await rig.send({ body: 'seen' }), await rig.send({ body: 'lost' })];
    const first = rig.follow();
    await within(10_000, async () => rig.claude.texts('s1').length === 2);
    await first.close();
    rig.claude.show('s1', seen);
    rig.claude.sessions.clear();
    rig.claude.mode = 'prove';
    rig.claude.add('s2');
    rig.follow();
    for (const id of [seen, lost]) await within(10_000, () => settled(rig, id));
    expect(rig.claude.texts('s2')).toEqual([expect.stringContaining('lost')]);
  });

  it('settles what a hook printed when the record of the session shows it, without another event', async () => {
    const rig = await aRig();
    rig.claude.add('s1', { status: 'stopped' });
    const id = await rig.send();
    await printed(rig, 's1', id);
    rig.follow();
    await within(10_000, async () => rig.claude.looks('s1') > 1);
    expect(await rig.steps(id)).toEqual(['offered']);
    rig.claude.show('s1', id);
    await within(10_000, () => settled(rig, id));
    expect(await rig.steps(id)).toEqual(['offered', 'shown']);
    expect(await rig.workspace.own.journal.copy(BOB, id)).toMatchObject({
      settledBy: { by: 'hook', event: 'PostToolUse', session: 's1', record: 'scripted' },
    });
  });

  it('settles the mail of other sessions although the record of one cannot be read', async () => {
    const rig = await aRig(({ id }) => (id === 'broken' ? ('claude.web' as AgentName) : BOB));
    const proof = rig.claude.proof.bind(rig.claude);
    rig.claude.proof = async (session, ...rest) => {
      if (session.id === 'broken') throw new Error('file is not a database');
      return proof(session, ...rest);
    };
    rig.claude.mode = 'silent';
    rig.claude.add('broken');
    await rig.workspace.own.directory.register('claude.web' as AgentName, 'agent');
    await rig.send({ to: '@claude.web' });
    rig.follow();
    await within(10_000, async () => rig.claude.texts('broken').length === 1);
    rig.claude.mode = 'prove';
    rig.claude.add('s1');
    const id = await rig.send();
    await within(10_000, () => settled(rig, id));
  });

  it('gives the sessions of one client their mail although another client cannot be read', async () => {
    const rig = await aRig();
    const broken = new ScriptedLive('broken', rig.workspace.now);
    broken.list = () => Promise.reject(new Error('its register is no JSON'));
    rig.others.set('broken', broken);
    rig.claude.add('s1');
    const id = await rig.send();
    rig.follow();
    await within(10_000, () => settled(rig, id));
  });

  it('hands over the mail of one mailbox although another one cannot be read', async () => {
    const rig = await aRig(({ id }) => (id === 's2' ? alice : BOB));
    const { journal } = rig.workspace.own;
    const heldBy = journal.heldBy.bind(journal);
    journal.heldBy = (mailbox, owner) =>
      mailbox === BOB ? Promise.reject(new Error('its rows are damaged')) : heldBy(mailbox, owner);
    await rig.send();
    const { message } = await send(rig.workspace, BOB, aDraft({ to: '@alice' }));
    rig.claude.add('s1').add('s2');
    rig.follow();
    await within(10_000, async () => (await rig.workspace.own.journal.copy(alice, message.id))?.state === 'settled');
  });

  it('gives one session its mail although naming another one fails', async () => {
    const rig = await aRig(({ id }) => {
      if (id === 's1') throw new Error('there is a role of this name');
      return BOB;
    });
    rig.claude.add('s1').add('s2');
    const id = await rig.send();
    rig.follow();
    await within(10_000, () => settled(rig, id));
  });

  it('hands over what an earlier follower claimed and did not hand over, also if it was handed over once before', async () => {
    const rig = await aRig();
    rig.claude.mode = { outcome: 'left', because: 'its socket is closed', retry: true };
    rig.claude.add('s1');
    const id = await rig.send();
    const first = rig.follow();
    await within(10_000, async () => (await rig.steps(id)).includes('released'));
    await first.close();
    await rig.workspace.own.mailboxes.claim(BOB, [id], { ms: 60_000, bearer: 'follower' });
    rig.claude.mode = 'prove';
    rig.follow();
    await within(10_000, () => settled(rig, id));
  });

  it('does what is due by time, also after the clock was set back', async () => {
    onTestFinished(() => void setSystemTime());
    const rig = await aRig();
    await rig.workspace.own.directory.amend(BOB, () => ({ quiet: { on: true } }));
    const id = await rig.send({ body: 'came in a quiet time?', intent: 'question' });
    rig.claude.add('s1');
    rig.follow();
    await looked(rig);
    setSystemTime(new Date(Date.now() - 24 * 60 * 60 * 1000));
    await rig.workspace.own.directory.amend(BOB, () => ({ quiet: undefined }));
    await within(10_000, () => settled(rig, id));
  });

  it.each(['idle', 'active'] as const)(
    'keeps the claim of an attempt over a long sleep of the machine, in a session that is %s',
    async (status) => {
      const rig = await aRig();
      const id = await rig.send();
      const end = Promise.withResolvers<void>();
      const ways = rig.claude.ways.bind(rig.claude);
      rig.claude.ways = (live) =>
        ways(live).map((way) => ({
          ...way,
          attempt: async (parcels, signal) => (await end.promise, way.attempt(parcels, signal)),
        }));
      rig.claude.add('s1', { status });
      rig.follow();
      await within(10_000, async () => (await rig.steps(id)).includes('offered'));
      const { mailboxes } = rig.workspace.own;
      const heal = mailboxes.heal.bind(mailboxes);
      let healed = 0;
      mailboxes.heal = async () => {
        await heal();
        healed += 1;
      };
      rig.workspace.pass(2 * 60 * 60_000);
      await within(10_000, async () => healed > 1);
      expect([await rig.state(id), await rig.steps(id)]).toEqual(['held', ['offered']]);
      end.resolve();
      await within(10_000, () => settled(rig, id));
    },
  );

  it('hands a question over again after the next pause if its text could not be made', async () => {
    const rig = await aRig();
    let tries = 0;
    rig.beforeText = async () => {
      tries += 1;
      if (tries === 1) throw new Error('the disk is full');
    };
    rig.claude.add('s1');
    rig.follow();
    const id = await rig.send({ body: 'which port?' });
    await within(10_000, async () => tries === 1);
    await looked(rig);
    rig.workspace.pass(2000);
    await within(10_000, () => settled(rig, id));
  });

  it('waits longer each time a running session loses a message', async () => {
    const rig = await aRig();
    rig.claude.mode = { outcome: 'offered', evidence: {} };
    rig.claude.isOver = true;
    rig.claude.add('s1');
    const id = await rig.send();
    rig.follow();
    await within(10_000, async () => (await rig.steps(id)).includes('released'));
    await looked(rig);
    expect((await rig.steps(id)).filter((step) => step === 'offered')).toHaveLength(1);
  });

  it('leaves a message as it ended if the agent has answered it meanwhile', async () => {
    const rig = await aRig();
    rig.claude.add('s1').mode = 'silent';
    const id = await rig.send();
    rig.follow();
    await within(10_000, async () => rig.claude.texts('s1').length > 0);
    await settle(rig.workspace.who(BOB), id, 'responded', { reply: 'r1' });
    rig.claude.show('s1', id);
    await looked(rig);
    const copy = await rig.workspace.own.journal.copy(BOB, id);
    expect(copy).toMatchObject({ state: 'settled', disposition: 'responded' });
  });
});

describe('a client whose model does not answer', () => {
  const LIMIT = 'usage limit reached, resets 3pm';
  const mailOf = async (rig: Rig) => (await rig.workspace.own.mailboxes.peek(alice)).map(({ message }) => message);

  it('keeps its message, gets no further mail for a while, and the sender is told once', async () => {
    const rig = await aRig();
    rig.claude.add('s1').mode = 'silent';
    const id = await rig.send();
    const first = rig.follow();
    await within(10_000, async () => rig.claude.texts('s1').length > 0);
    rig.claude.accept('s1', id, LIMIT);
    await within(10_000, async () => (await mailOf(rig)).length > 0);
    const next = await rig.send({ body: 'the next' });
    await looked(rig);
    expect([await rig.state(id), await rig.state(next)]).toEqual(['held', 'stored']);
    expect(await rig.steps(id)).toEqual(['offered', 'accepted']);
    await first.close();
    rig.follow();
    rig.claude.mode = 'prove';
    rig.claude.show('s1', id);
    for (const one of [id, next]) await within(10_000, () => settled(rig, one));
    expect((await rig.workspace.own.journal.copy(BOB, id))?.attempt).toBe(0);
    const [notice, ...others] = await mailOf(rig);
    expect(notice).toMatchObject({ from: HOST_NAME, thread: id, body: expect.stringContaining(LIMIT) });
    expect(others).toEqual([]);
  });

  it('is tried with one message after a while', async () => {
    const rig = await aRig();
    rig.claude.add('s1').mode = 'silent';
    const id = await rig.send();
    rig.follow();
    await within(10_000, async () => rig.claude.texts('s1').length > 0);
    rig.claude.accept('s1', id, LIMIT);
    await within(10_000, async () => (await mailOf(rig)).length > 0);
    for (const body of ['two', 'three']) await rig.send({ body });
    rig.workspace.pass(301_000);
    rig.claude.changed();
    await within(10_000, async () => rig.claude.texts('s1').length === 2);
  });
});

describe('mail in the conversation that the model was not asked with', () => {
  const nudges = (rig: Rig): string[] => rig.claude.texts('s1').filter((text) => text.includes('got no answer'));

  async function left(many: number, trouble?: string): Promise<{ rig: Rig; ids: MessageId[]; follower: Follower }> {
    const rig = await aRig();
    rig.claude.add('s1', { status: 'active' }).mode = 'silent';
    const ids: MessageId[] = [];
    for (let n = 0; n < many; n += 1) ids.push(await rig.send({ body: `number ${n}` }));
    const follower = rig.follow();
    await within(10_000, async () => rig.claude.texts('s1').length === many);
    for (const id of ids) rig.claude.accept('s1', id, trouble, true);
    rig.claude.add('s1');
    return { rig, ids, follower };
  }

  it('is named once, in one nudge, and not again by a later follower that finds the nudge in the record', async () => {
    const { rig, ids, follower } = await left(2);
    await within(10_000, async () => nudges(rig).length > 0);
    expect(nudges(rig)).toEqual([
      expect.stringContaining(`Messages ${ids.map((id) => id.slice(0, 8)).join(', ')} are`),
    ]);
    expect(nudges(rig)[0]).not.toContain('number');
    for (const id of ids) expect(await rig.steps(id)).toEqual(['offered', 'knocked']);
    await looked(rig);
    await follower.close();
    rig.claude.accept('s1', rig.claude.got.get('s1')?.at(-1)?.id ?? '');
    const next = rig.follow();
    await looked(rig);
    expect(nudges(rig)).toHaveLength(1);
    // The record shows that the text did not arrive.
    await next.close();
    rig.claude.accepted.delete(`s1 ${rig.claude.got.get('s1')?.at(-1)?.id}`);
    rig.claude.isOver = true;
    rig.follow();
    await within(10_000, async () => nudges(rig).length === 2);
  });

  it('is named again, after a pause, if the client did not take the nudge', async () => {
    const rig = await aRig();
    rig.claude.add('s1', { status: 'active' }).mode = 'silent';
    const id = await rig.send();
    rig.follow();
    await within(10_000, async () => rig.claude.texts('s1').length === 1);
    rig.claude.mode = { outcome: 'left', because: 'the socket refused it', retry: true };
    rig.claude.accept('s1', id, undefined, true).add('s1');
    await within(10_000, async () => (await rig.steps(id)).includes('knocked'));
    await looked(rig);
    rig.claude.mode = 'silent';
    rig.workspace.pass(2000);
    await looked(rig);
    // The record does not say yet that the first one is not there.
    expect(nudges(rig)).toEqual([]);
    rig.claude.isOver = true;
    await within(10_000, async () => nudges(rig).length === 1);
    await looked(rig);
    expect([nudges(rig).length, await rig.steps(id)]).toEqual([1, ['offered', 'knocked', 'knocked']]);
  });

  it('gets the turn of the nudge for itself if it is a question: other mail comes after its answer', async () => {
    const { rig, ids } = await left(1);
    const [question] = ids;
    if (!question) throw new Error('it was sent');
    await rig.send({ body: 'the next', intent: 'fyi' });
    await within(10_000, async () => nudges(rig).length > 0);
    await looked(rig);
    expect(rig.claude.texts('s1').join()).not.toContain('the next');
    rig.claude.show('s1', question, { id: 't1', end: { how: 'done', text: 'yes' } });
    await within(10_000, async () => rig.claude.texts('s1').join().includes('the next'));
    expect((await rig.workspace.own.mailboxes.peek(alice)).map(({ message }) => message.body)).toEqual(['yes']);
  });

  it('waits for its turn as long as the model does not answer, and while no more wakes are allowed', async () => {
    const { rig } = await left(1, 'usage limit reached, resets 3pm');
    await looked(rig);
    expect(nudges(rig)).toEqual([]);
    rig.workspace.pass(301_000);
    rig.claude.changed();
    await within(10_000, async () => nudges(rig).length > 0);
    rig.workspace.pass(301_000);
    await looked(rig);
    expect(nudges(rig)).toHaveLength(1);
    const spent = await aRig();
    spent.claude.add('s1').mode = 'silent';
    const id = await spent.send();
    spent.follow({ wakesPerHour: 1 });
    await within(10_000, async () => spent.claude.texts('s1').length > 0);
    spent.claude.accept('s1', id, undefined, true);
    await looked(spent);
    expect(nudges(spent)).toEqual([]);
  });
});

describe('an alarm', () => {
  it('goes to the owner, once, for a message that was shown and not answered in time, and not for one that was not shown', async () => {
    const rig = await aRig();
    const ada = await anOwner(rig.workspace, 'ada');
    Object.assign(rig.claude.add('s1'), { beginsTurn: false });
    const shown = await rig.send();
    rig.follow();
    await within(10_000, () => settled(rig, shown));
    rig.claude.sessions.clear();
    rig.claude.changed();
    await rig.send({ body: 'nobody is there' });
    rig.workspace.pass(299_000);
    const notices = async () => (await rig.workspace.own.mailboxes.peek(ada)).map(({ message }) => message.body);
    expect(await notices()).toEqual([]);
    rig.workspace.pass(2000);
    await within(10_000, async () => (await notices()).length > 0);
    rig.follow();
    rig.workspace.pass(600_000);
    await within(10_000, async () => (await rig.steps(shown)).includes('escalated'));
    expect(await notices()).toEqual([expect.stringContaining(`no answer came to message ${shown.slice(0, 8)}`)]);
  });
});

describe('a captured answer', () => {
  const answers = async (rig: Rig) =>
    (await rig.workspace.own.mailboxes.peek(alice)).map(({ message }) => ({
      body: message.body,
      thread: message.thread,
      captured: message.parley?.captured,
    }));

  /** A later message was dealt with: so was everything before it. */
  async function marked(rig: Rig): Promise<void> {
    rig.claude.endsTurn = true;
    const id = await rig.send({ body: 'a later one' });
    await within(10_000, () => settled(rig, id));
    await within(10_000, async () => rig.claude.texts('s1').join('').includes('a later one'));
  }

  async function asked(draft: Partial<Draft> = {}, beginsTurn = true): Promise<{ rig: Rig; id: MessageId }> {
    const rig = await aRig();
    Object.assign(rig.claude.add('s1'), { beginsTurn, endsTurn: false });
    const id = await rig.send({ intent: 'question', ...draft });
    rig.follow();
    await within(10_000, () => settled(rig, id));
    return { rig, id };
  }

  it('is the final text of the turn that the question began, sent once, and marked', async () => {
    const { rig, id } = await asked();
    rig.claude.show('s1', id, { id: 't1' });
    rig.claude.show('s1', id, { id: 't1', end: { how: 'done', text: 'It is 42.' } });
    await within(10_000, async () => (await answers(rig)).length > 0);
    rig.follow();
    await marked(rig);
    expect(await answers(rig)).toEqual([{ body: 'It is 42.', thread: id, captured: true }]);
  });

  it('is not taken from a turn that the question only joined, nor from one that was interrupted', async () => {
    const joined = await asked({}, false);
    await marked(joined.rig);
    joined.rig.claude.show('s1', joined.id, { id: 'later', end: { how: 'done', text: 'Something else.' } });
    await marked(joined.rig);
    const cut = await asked();
    cut.rig.claude.show('s1', cut.id, { id: 't1', end: { how: 'interrupted', text: 'I would' } });
    await marked(cut.rig);
    expect(await answers(joined.rig)).toEqual([]);
    expect(await answers(cut.rig)).toEqual([]);
  });

  it('is taken also if the follower was started again before the turn ended', async () => {
    const rig = await aRig();
    rig.claude.add('s1').endsTurn = false;
    const id = await rig.send({ intent: 'question' });
    const first = rig.follow();
    await within(10_000, () => settled(rig, id));
    await first.close();
    rig.claude.show('s1', id, { id: 't1', end: { how: 'done', text: 'It is 42.' } });
    rig.follow();
    await within(10_000, async () => (await answers(rig)).length > 0);
    expect(await answers(rig)).toEqual([{ body: 'It is 42.', thread: id, captured: true }]);
  });

  it('is not sent when the agent has answered by itself', async () => {
    const { rig, id } = await asked();
    await send(rig.workspace, BOB, aDraft({ to: '@alice', body: 'mine', thread: id }));
    rig.claude.show('s1', id, { id: 't1', end: { how: 'done', text: 'I have answered.' } });
    await marked(rig);
    expect((await answers(rig)).map(({ body }) => body)).toEqual(['mine']);
  });

  it('is never sent for an answer, also not for one that must be answered', async () => {
    const rig = await aRig();
    rig.claude.add('s1').endsTurn = false;
    const own = (await send(rig.workspace, BOB, aDraft({ to: '@alice', body: 'what?' }))).message;
    const id = await rig.send({ body: 'this', thread: own.id, intent: 'approval' });
    expect((await rig.workspace.own.journal.copy(BOB, id))?.attention.policy).toBe('must_respond');
    rig.follow();
    await within(10_000, () => settled(rig, id));
    rig.claude.show('s1', id, { id: 't1', end: { how: 'done', text: 'Thank you.' } });
    await marked(rig);
    expect((await answers(rig)).map(({ body }) => body)).toEqual(['what?']);
  });

  it('is not sent for an agent for which it is turned off', async () => {
    const rig = await aRig();
    await rig.workspace.own.directory.amend(BOB, () => ({ capture: 'off' }));
    rig.claude.add('s1').endsTurn = false;
    const id = await rig.send({ intent: 'question' });
    rig.follow();
    await within(10_000, () => settled(rig, id));
    rig.claude.show('s1', id, { id: 't1', end: { how: 'done', text: 'It is 42.' } });
    await marked(rig);
    expect(await answers(rig)).toEqual([]);
  });

  it.each([
    ['never goes', false, []],
    ['goes', true, ['It is 42.']],
  ])('%s to a sender behind a relay if captureRemote is %p', async (_what, captureRemote, bodies) => {
    const rig = await aRig();
    await rig.workspace.own.directory.giveToken(alice, 'a hash');
    rig.claude.add('s1').endsTurn = false;
    const id = await rig.send({ intent: 'question' });
    rig.follow({ captureRemote });
    await within(10_000, () => settled(rig, id));
    rig.claude.show('s1', id, { id: 't1', end: { how: 'done', text: 'It is 42.' } });
    await marked(rig);
    await within(10_000, async () => (await answers(rig)).length === bodies.length);
    expect((await answers(rig)).map(({ body }) => body)).toEqual(bodies);
  });

  it('is not sent for a question that the agent put off', async () => {
    const { rig, id } = await asked();
    await defer(rig.workspace, rig.workspace.who(BOB), id, { reason: 'after lunch' });
    rig.claude.show('s1', id, { id: 't1', end: { how: 'done', text: 'I put it off.' } });
    await marked(rig);
    expect((await answers(rig)).map(({ body }) => body)).not.toContain('I put it off.');
  });

  it('comes for each of two questions that waited for an idle session', async () => {
    const rig = await aRig();
    rig.claude.add('s1').endsTurn = false;
    const ids: MessageId[] = [];
    for (const body of ['one?', 'two?']) {
      ids.push(await rig.send({ intent: 'question', body }));
      rig.workspace.pass(1000);
    }
    rig.follow();
    for (const [n, id] of ids.entries()) {
      await within(10_000, () => settled(rig, id));
      expect(rig.claude.texts('s1')).toHaveLength(n + 1);
      rig.claude.show('s1', id, { id: `t${n}`, end: { how: 'done', text: `answer ${n}` } });
    }
    await within(10_000, async () => (await answers(rig)).length === 2);
  });
});
