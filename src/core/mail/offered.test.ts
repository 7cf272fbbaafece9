import { describe, expect, it } from 'bun:test';
import { temporaryHome } from '../../../test/support/home.ts';
import { anEntry, bob } from '../../../test/support/mail.ts';
import { openHome } from '../../../test/support/maildir.ts';
import type { MessageId } from '../names.ts';
import type { Receipt } from '../receipt.ts';
import type { Home, Who } from './workspace.ts';
import { OFFERED_MS, claimForSession, settleOffered, putBack } from './offered.ts';
import { release } from './settle.ts';

const OFFERED: Receipt = { step: 'offered', at: new Date().toISOString(), evidence: { by: 'hook' } };
const LEASE = { ms: OFFERED_MS, bearer: 'session-7' };
const OWNER = 'bearer.session-7';

/** Bob, with one waiting message. `fail` makes the next transaction fail that reaches this step. */
async function aReader() {
  let failing = '';
  const home = await openHome(temporaryHome(), {
    onStep: (step) => {
      if (step !== failing) return;
      failing = '';
      throw new Error('ENOSPC');
    },
  });
  const { message } = await home.mailboxes.put(anEntry());
  const opened = { ...home, mailboxes: home.mailboxes, journal: home.journal };
  const who: Who = { name: bob, home: opened as unknown as Home };
  return { who, id: message.id, fail: (step: string) => (failing = step) };
}

const standing = async ({ home }: Who, id: MessageId) => {
  await home.mailboxes.heal();
  return home.journal.copy(bob, id);
};

describe('a copy that is offered to a session', () => {
  it('is held in the name of the session until it is settled', async () => {
    const { who, id } = await aReader();
    const shown: string[] = [];
    await claimForSession(
      who,
      [id],
      LEASE,
      (copies) => shown.push(...copies.map(({ message }) => message.id)),
      OFFERED,
    );
    expect(shown).toEqual([id]);
    expect(await standing(who, id)).toMatchObject({ state: 'held', owner: OWNER, bearer: true, attempt: 0 });
    await settleOffered(who, OWNER, [id], { by: 'hook' });
    expect(await standing(who, id)).toMatchObject({ state: 'settled', settledBy: { by: 'hook' } });
  });

  it('waits again, unmarked, if it could not be printed', async () => {
    const { who, id } = await aReader();
    const broken = (): never => {
      throw new Error('EPIPE');
    };
    await expect(claimForSession(who, [id], LEASE, broken, OFFERED)).rejects.toThrow('EPIPE');
    expect(await standing(who, id)).toMatchObject({ state: 'stored', attempt: 0 });
  });

  it('waits again, marked as a redelivery, when it is put back', async () => {
    const { who, id } = await aReader();
    await claimForSession(who, [id], LEASE, () => {}, OFFERED);
    await putBack(who, OWNER, { because: 'nothing proves it' });
    expect(await standing(who, id)).toMatchObject({ state: 'stored', attempt: 1 });
    const receipts = (await who.home.journal.trace(id))?.copies[0]?.receipts;
    expect(receipts?.at(-1)).toMatchObject({ step: 'released', evidence: { because: 'nothing proves it' } });
  });

  it('waits again, marked as a redelivery, if it could not be settled', async () => {
    const { who, id, fail } = await aReader();
    await claimForSession(who, [id], LEASE, () => {}, OFFERED);
    fail('T3 shown');
    await expect(settleOffered(who, OWNER, [id], { by: 'hook' })).rejects.toThrow('ENOSPC');
    expect(await standing(who, id)).toMatchObject({ state: 'stored', attempt: 1 });
    await settleOffered(who, OWNER, [id], { by: 'hook' });
    expect(await standing(who, id)).toMatchObject({ state: 'settled' });
  });

  it('is settled also after its lease ended, if nobody else has claimed it', async () => {
    const { who, id } = await aReader();
    await claimForSession(who, [id], LEASE, () => {}, OFFERED);
    await who.home.mailboxes.renew({ mailbox: bob, owner: OWNER }, { ms: -1 });
    expect(await standing(who, id)).toMatchObject({ state: 'stored', attempt: 1 });
    await settleOffered(who, OWNER, [id], { by: 'hook' });
    expect(await standing(who, id)).toMatchObject({ state: 'settled' });
  });

  it('waits again, marked as a redelivery, if its reader releases it: later proof does not settle it', async () => {
    const { who, id } = await aReader();
    await claimForSession(who, [id], LEASE, () => {}, OFFERED);
    await release(who, id, { by: 'release' });
    await settleOffered(who, OWNER, [id], { by: 'hook' });
    expect(await standing(who, id)).toMatchObject({ state: 'stored', attempt: 1 });
  });

  it('does not change if its reader or another session has already ended it', async () => {
    const { who, id } = await aReader();
    await claimForSession(who, [id], LEASE, () => {}, OFFERED);
    await who.home.mailboxes.settle({ mailbox: bob, owner: OWNER }, [id], {
      disposition: 'responded',
      by: { reply: 'r' },
    });
    await settleOffered(who, OWNER, [id], { by: 'hook' });
    await putBack(who, OWNER, {});
    expect(await standing(who, id)).toMatchObject({ state: 'settled', disposition: 'responded' });
  });
});
