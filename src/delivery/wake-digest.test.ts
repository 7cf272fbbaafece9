import { describe, expect, it } from 'bun:test';
import { aDraft } from '../../test/support/durable-workspace.ts';
import { aRig, BOB, looked, settled } from '../../test/support/followed.ts';
import type { Rig } from '../../test/support/followed.ts';
import { alice } from '../../test/support/mail.ts';
import { within } from '../../test/support/within.ts';
import { anOwner } from '../../test/support/workspace.ts';
import { send } from '../core/mail/send.ts';
import { settle, withdraw } from '../core/mail/settle.ts';
import type { MessageId } from '../core/names.ts';
import { claim } from '../core/obligations/claim.ts';
import { endObligation } from '../core/obligations/obligation.ts';
import { owe } from '../core/obligations/owed.ts';
import type { Follower } from './follower.ts';
import { whyWaiting } from './wake-budget.ts';

describe('a wake', () => {
  it('does not happen for mail over the budget of a session: it comes with its next turn, and the trace says why', async () => {
    const rig = await aRig();
    rig.claude.add('s1');
    rig.follow({ wakesPerHour: 2 });
    for (const body of ['one', 'two']) {
      const id = await rig.send({ body });
      await within(10_000, () => settled(rig, id));
    }
    const third = await rig.send({ body: 'three' });
    await within(10_000, async () => (await rig.steps(third)).includes('reconsidered'));
    expect(await rig.reasons(third)).toEqual([
      'the session was woken 2 times in the last hour; it comes with the next turn',
    ]);
    expect(await whyWaiting(rig.workspace.who(BOB))).toContain('woken 2 times in the last hour');
    expect(await rig.state(third)).toBe('stored');
    rig.claude.add('s1', { status: 'active' });
    await within(10_000, () => settled(rig, third));
    rig.claude.add('s1');
    const fourth = await rig.send({ body: 'four' });
    await within(10_000, async () => (await rig.steps(fourth)).includes('reconsidered'));
    rig.workspace.pass(60 * 60 * 1000);
    await within(10_000, () => settled(rig, fourth));
  });

  it('does not happen for a message whose deadline has passed', async () => {
    const rig = await aRig();
    rig.claude.add('s1');
    const late = await rig.send({ deadline: new Date(rig.workspace.now() + 1000).toISOString() });
    rig.workspace.pass(2000);
    rig.follow();
    await within(10_000, async () => (await rig.steps(late)).includes('reconsidered'));
    expect(rig.claude.texts('s1')).toEqual([]);
    rig.claude.add('s1', { status: 'active' });
    await within(10_000, () => settled(rig, late));
  });

  it('does not happen for a message that was withdrawn', async () => {
    const rig = await aRig();
    const id = await rig.send();
    await withdraw(alice, rig.workspace.own, id);
    const next = await rig.send({ body: 'the next' });
    rig.claude.add('s1');
    rig.follow();
    await within(10_000, () => settled(rig, next));
    expect(rig.claude.texts('s1')).toEqual([expect.stringContaining('the next')]);
  });

  it('does not happen for mail that is not owed any more; the next turn shows it, and does not call it owed', async () => {
    const rig = await aRig();
    rig.claude.add('s1');
    const who = rig.workspace.who(BOB);
    const id = await rig.send({ intent: 'question' });
    await owe(who, { limit: 1 });
    await endObligation(who.home, BOB, id, 'responded', {}, rig.workspace.now());
    rig.follow();
    await within(10_000, async () =>
      (await rig.reasons(id)).includes('no answer is owed any more; it comes with the next turn'),
    );
    rig.claude.add('s1', { status: 'active' });
    await within(10_000, () => settled(rig, id));
    expect(rig.claude.texts('s1')).toEqual([expect.stringMatching(/question · may respond/)]);
  });

  it('waits for the end of a quiet time, also for mail that came in it; an urgent message of a person does not wait', async () => {
    const rig = await aRig();
    rig.claude.add('s1');
    const ada = await anOwner(rig.workspace, 'ada');
    const before = await rig.send({ body: 'before' });
    await rig.workspace.own.directory.amend(BOB, () => ({ quiet: { on: true } }));
    const during = await rig.send({ body: 'during' });
    const urgent = aDraft({ to: `@${BOB}`, body: 'urgent', priority: 'urgent' });
    const { message } = await send(rig.workspace, ada, urgent);
    rig.follow();
    await within(10_000, () => settled(rig, message.id));
    await within(10_000, async () => (await rig.steps(before)).includes('reconsidered'));
    expect(rig.claude.texts('s1')).toEqual([expect.stringContaining('urgent')]);
    await rig.workspace.own.directory.amend(BOB, () => ({ quiet: undefined }));
    for (const id of [before, during]) await within(10_000, () => settled(rig, id));
  });
});

describe('a wake, by the record of the client,', () => {
  /** A message that was handed over once, and whose claim has ended; no follower runs. */
  async function inDoubt(): Promise<{ rig: Rig; id: MessageId }> {
    const rig = await aRig();
    rig.claude.mode = 'silent';
    rig.claude.add('s1');
    const id = await rig.send();
    const first = rig.follow();
    await within(10_000, async () => rig.claude.texts('s1').length === 1);
    await first.close();
    rig.workspace.pass(2 * 60 * 60 * 1000);
    await rig.workspace.own.mailboxes.heal();
    expect(await rig.state(id)).toBe('stored');
    return { rig, id };
  }

  it('is one for all messages that wait, and is noted before it is tried', async () => {
    const rig = await aRig();
    const ids = [
      await rig.send({ intent: 'fyi' }),
      await rig.send({ intent: 'fyi' }),
      await rig.send({ intent: 'fyi' }),
    ];
    const noted: string[][] = [];
    const ways = rig.claude.ways.bind(rig.claude);
    rig.claude.ways = (live) =>
      ways(live).map((way) => ({
        ...way,
        async attempt(parcels, signal) {
          for (const { id } of parcels) noted.push(await rig.steps(id));
          return way.attempt(parcels, signal);
        },
      }));
    rig.claude.add('s1');
    rig.follow({ wakesPerHour: 1 });
    for (const id of ids) await within(10_000, () => settled(rig, id));
    expect(noted).toEqual([['offered'], ['offered'], ['offered']]);
  });

  it('is not repeated while nothing says what became of it, also when its claim has ended, and the trace says so', async () => {
    const rig = await aRig();
    rig.claude.mode = 'silent';
    rig.claude.proof = () => Promise.reject(new Error('file is not a database'));
    rig.claude.add('s1');
    const id = await rig.send();
    const first = rig.follow();
    await within(10_000, async () => rig.claude.texts('s1').length === 1);
    await first.close();
    rig.workspace.pass(2 * 60 * 60 * 1000);
    rig.follow();
    await within(10_000, async () => (await rig.state(id)) === 'stored');
    await within(10_000, async () => (await rig.steps(id)).includes('reconsidered'));
    expect(rig.claude.texts('s1')).toHaveLength(1);
    expect(await rig.reasons(id)).toContain(
      'it was handed to this session, and nothing shows what became of it; it comes with the next turn',
    );
  });

  it('is settled, and not repeated, when the record shows it after its claim has ended', async () => {
    const { rig, id } = await inDoubt();
    rig.claude.show('s1', id);
    rig.follow();
    await within(10_000, () => settled(rig, id));
    expect([rig.claude.texts('s1').length, await rig.steps(id)]).toEqual([1, ['offered', 'released', 'shown']]);
  });

  it('is kept from hooks again if the client still has it after its claim has ended', async () => {
    const { rig, id } = await inDoubt();
    rig.claude.accept('s1', id);
    rig.follow();
    await within(10_000, async () => (await rig.state(id)) === 'held');
    rig.claude.show('s1', id);
    await within(10_000, () => settled(rig, id));
    expect(rig.claude.texts('s1')).toHaveLength(1);
  });

  it('is over if the user of the client declined it after its claim has ended', async () => {
    const { rig, id } = await inDoubt();
    rig.claude.proof = async () => ({ step: 'declined', because: 'the user said no' });
    rig.follow();
    await within(10_000, () => settled(rig, id));
    expect((await rig.workspace.own.journal.copy(BOB, id))?.disposition).toBe('ignored');
  });

  it('stays with the client over a long sleep of the machine', async () => {
    const rig = await aRig();
    rig.claude.mode = 'silent';
    rig.claude.add('s1');
    const id = await rig.send();
    rig.claude.accept('s1', id);
    rig.follow();
    await within(10_000, async () => rig.claude.texts('s1').length === 1);
    const list = rig.claude.list.bind(rig.claude);
    // It sleeps before each look.
    rig.claude.list = async () => {
      rig.workspace.pass(2 * 60 * 60 * 1000);
      return list();
    };
    const { mailboxes } = rig.workspace.own;
    const heal = mailboxes.heal.bind(mailboxes);
    let healed = 0;
    mailboxes.heal = () => {
      healed += 1;
      return heal();
    };
    await within(10_000, async () => healed > 1);
    await looked(rig);
    expect([await rig.state(id), await rig.steps(id)]).toEqual(['held', ['offered']]);
  });
});

describe('mail over the wake budget', () => {
  /** A follower whose session was woken twice and may not be woken again this hour; and one message that waits for that. */
  async function spent(): Promise<{ rig: Rig; first: MessageId; follower: Follower }> {
    const rig = await aRig();
    rig.claude.add('s1');
    const follower = rig.follow({ wakesPerHour: 2 });
    for (const body of ['one', 'two']) {
      const id = await rig.send({ body, intent: 'fyi' });
      await within(10_000, () => settled(rig, id));
      rig.workspace.pass(1000);
    }
    const first = await rig.send({ body: 'is the port 4711?', intent: 'question' });
    await within(10_000, async () => (await rig.reasons(first)).length > 0);
    return { rig, first, follower };
  }

  /** Each of these is in the digest that waits. */
  async function listed(rig: Rig, ...ids: MessageId[]): Promise<void> {
    await within(10_000, async () => {
      const digests = await digestsIn(rig);
      return digests.length === 1 && ids.every((id) => digests[0]?.body.includes(`- ${id.slice(0, 8)} from @alice`));
    });
  }

  const digestsIn = async (rig: Rig) =>
    (await rig.workspace.own.mailboxes.peek(BOB)).map(({ message }) => message).filter(({ from }) => from !== alice);

  const texts = (rig: Rig): string => rig.claude.texts('s1').join('\n');

  it('comes as one digest when the hour allows a wake again: who wrote, how many, first words, how to read', async () => {
    const { rig, first } = await spent();
    const second = await rig.send({ body: `${'long '.repeat(50)}end`, intent: 'fyi' });
    await listed(rig, first, second);
    const third = await rig.send({ body: 'three' });
    await listed(rig, first, second, third);
    expect(rig.claude.texts('s1')).toHaveLength(2);
    rig.workspace.pass(60 * 60 * 1000);
    await within(10_000, async () => rig.claude.texts('s1').length === 3);
    const digest = rig.claude.texts('s1')[2] ?? '';
    expect(digest).toContain('3 messages wait for you.');
    expect(digest).toContain(`- ${first.slice(0, 8)} from @alice · question · must respond: is the port 4711?`);
    expect(digest).toContain('parley read <id>');
    expect(digest).not.toContain('end\n');
    await looked(rig);
    expect(rig.claude.texts('s1')).toHaveLength(3);
  });

  it('comes as that digest with the next turn of the session, if that is sooner', async () => {
    const { rig, first } = await spent();
    const second = await rig.send({ body: 'two more' });
    await listed(rig, first, second);
    rig.claude.add('s1', { status: 'active' });
    await within(10_000, async () => texts(rig).includes('2 messages wait for you.'));
  });

  it('still waits after the digest, is owed, and is answered by its id', async () => {
    const { rig, first } = await spent();
    const second = await rig.send({ body: 'two more', intent: 'fyi' });
    await listed(rig, first, second);
    rig.claude.add('s1', { status: 'active' });
    await within(10_000, async () => texts(rig).includes('2 messages wait for you.'));
    expect([await rig.state(first), await rig.state(second)]).toEqual(['stored', 'stored']);
    const who = rig.workspace.who(BOB);
    expect((await owe(who, { limit: 9 })).obligations.map(({ id }) => id)).toContain(first);
    await send(rig.workspace, BOB, aDraft({ to: '@alice', body: 'yes', thread: first }));
    await settle(who, first, 'responded', { reply: 'r1' });
    expect((await owe(who, { limit: 9 })).obligations.map(({ id }) => id)).not.toContain(first);
  });

  it('is left out of the digest if it was withdrawn or answered before the digest was shown', async () => {
    const { rig, first } = await spent();
    const [second, third] = [await rig.send({ body: 'two more' }), await rig.send({ body: 'stale' })];
    await listed(rig, first, second, third);
    await withdraw(alice, rig.workspace.own, third);
    await settle(rig.workspace.who(BOB), second, 'responded', { reply: 'r1' });
    rig.claude.changed();
    await within(10_000, async () => (await digestsIn(rig))[0]?.body.startsWith('1 message waits') === true);
    rig.workspace.pass(60 * 60 * 1000);
    await within(10_000, async () => texts(rig).includes('1 message waits'));
    expect(texts(rig)).not.toContain('stale');
  });

  it('is one digest also after a restart, and the budget is as spent as before', async () => {
    const { rig, first, follower } = await spent();
    const second = await rig.send({ body: 'two more' });
    await listed(rig, first, second);
    await follower.close();
    rig.follow({ wakesPerHour: 2 });
    const third = await rig.send({ body: 'three' });
    await listed(rig, first, second, third);
    expect(rig.claude.texts('s1')).toHaveLength(2);
  });

  it('is in another digest if the reader claims it after the first was shown', async () => {
    const { rig, first } = await spent();
    const second = await rig.send({ body: 'is the host up?', intent: 'question' });
    await listed(rig, first, second);
    rig.claude.add('s1', { status: 'active' });
    await within(10_000, async () => texts(rig).includes('2 messages wait for you.'));
    rig.claude.add('s1');
    await looked(rig);
    for (const id of [first, second]) await claim(rig.workspace, rig.workspace.who(BOB), id);
    rig.claude.changed();
    await listed(rig, first, second);
  });

  it('is counted once if the reader claims it while the digest waits', async () => {
    const { rig, first } = await spent();
    const second = await rig.send({ body: 'two more' });
    await listed(rig, first, second);
    await claim(rig.workspace, rig.workspace.who(BOB), first);
    rig.claude.changed();
    await within(10_000, async () => (await rig.reasons(first)).length > 2);
    expect((await digestsIn(rig)).map(({ body }) => body)).toEqual([expect.stringMatching(/^2 messages wait/)]);
  });

  it('stays in the digest after a restart, also where many quiet messages wait', async () => {
    const { rig, first, follower } = await spent();
    for (let n = 0; n < 130; n += 1) await rig.send({ body: `built ${n}`, intent: 'status' });
    const [second, third] = [await rig.send({ body: 'two more' }), await rig.send({ body: 'three' })];
    await listed(rig, first, second, third);
    await follower.close();
    rig.follow({ wakesPerHour: 2 });
    const fourth = await rig.send({ body: 'four' });
    await listed(rig, first, second, third, fourth);
  });

  it('is in the next digest too if its receipt could not be written', async () => {
    const { rig, first } = await spent();
    const { journal } = rig.workspace.own;
    const record = journal.record.bind(journal);
    let failed = 0;
    journal.record = async (mailbox, id, receipt) => {
      if (id !== first && 'digest' in receipt.evidence && failed++ === 0) throw new Error('killed here');
      return record(mailbox, id, receipt);
    };
    const second = await rig.send({ body: 'two more' });
    await within(10_000, async () => failed > 0);
    await looked(rig);
    const third = await rig.send({ body: 'three' });
    await listed(rig, first, second, third);
  });

  it('is noted once, however often its digest is replaced, and stays in it after a restart', async () => {
    const { rig, first, follower } = await spent();
    const ids = [first];
    for (const body of ['two', 'three', 'four', 'five']) {
      ids.push(await rig.send({ body }));
      await listed(rig, ...ids);
    }
    // Once because it is over the budget, and once with the digest.
    expect(await rig.steps(first)).toEqual(['reconsidered', 'reconsidered']);
    await follower.close();
    rig.follow({ wakesPerHour: 2 });
    const last = await rig.send({ body: 'six' });
    await listed(rig, ...ids, last);
  });

  it('is not read message by message while nothing changes', async () => {
    const { rig, first } = await spent();
    // What is owed is looked at once a minute all the same.
    const [second, third] = [await rig.send({ intent: 'fyi' }), await rig.send({ intent: 'fyi' })];
    await listed(rig, first, second, third);
    await looked(rig);
    const { journal } = rig.workspace.own;
    const copy = journal.copy.bind(journal);
    const asked = new Set<MessageId>();
    journal.copy = async (mailbox, id) => {
      asked.add(id);
      return copy(mailbox, id);
    };
    await looked(rig);
    expect([asked.has(second), asked.has(third)]).toEqual([false, false]);
  });

  it('stays in the digest while its reader holds it for a moment', async () => {
    const { rig, first } = await spent();
    const second = await rig.send({ body: 'two more' });
    await listed(rig, first, second);
    const { mailboxes } = rig.workspace.own;
    const held = await mailboxes.claim(BOB, [second], { ms: 60_000 });
    await looked(rig);
    await mailboxes.release(held, [second], { because: 'not now' });
    await looked(rig);
    await listed(rig, first, second);
  });

  it('comes whole, and without the digest, if the follower dies before it is noted and the budget is free again', async () => {
    const { rig, first, follower } = await spent();
    const { journal } = rig.workspace.own;
    const record = journal.record.bind(journal);
    const died = Promise.withResolvers<void>();
    let isDead = false;
    journal.record = async (mailbox, id, receipt) => {
      if (!('digest' in receipt.evidence) || isDead) return record(mailbox, id, receipt);
      isDead = true;
      died.resolve(follower.close());
      throw new Error('killed here');
    };
    const second = await rig.send({ body: 'two more', intent: 'fyi' });
    await died.promise;
    expect(await digestsIn(rig)).toHaveLength(1);
    rig.follow({ wakesPerHour: 30 });
    for (const id of [first, second]) await within(10_000, () => settled(rig, id));
    await looked(rig);
    expect(texts(rig)).not.toContain('2 messages wait');
  });

  it('stays in one digest that could not be shown and waits again', async () => {
    const { rig, first } = await spent();
    const second = await rig.send({ body: 'two more' });
    await listed(rig, first, second);
    const [digest] = await digestsIn(rig);
    const { mailboxes } = rig.workspace.own;
    const held = await mailboxes.claim(BOB, digest ? [digest.id] : [], { ms: 60_000 });
    await looked(rig);
    await mailboxes.release(
      held,
      held.copies.map(({ message }) => message.id),
      { because: 'not now' },
    );
    const third = await rig.send({ body: 'three' });
    await listed(rig, first, second, third);
  });

  it('comes whole with the next turn where mail never wakes a session', async () => {
    const rig = await aRig();
    rig.claude.add('s1');
    rig.follow({ wakesPerHour: 0 });
    const ids = [await rig.send({ body: 'one' }), await rig.send({ body: 'two' })];
    for (const id of ids) await within(10_000, async () => (await rig.reasons(id)).length > 0);
    rig.claude.add('s1', { status: 'active' });
    for (const id of ids) await within(10_000, () => settled(rig, id));
  });
});
