import { describe, expect, it } from 'bun:test';
import { aRig, BOB, looked, settled } from '../../test/support/followed.ts';
import type { Rig } from '../../test/support/followed.ts';
import { aDraft } from '../../test/support/durable-workspace.ts';
import { alice } from '../../test/support/mail.ts';
import { within } from '../../test/support/within.ts';
import { anOwner } from '../../test/support/workspace.ts';
import { send } from '../core/mail/send.ts';
import type { MessageId } from '../core/names.ts';
import type { Parcel } from '../core/ports/way-in.ts';

/** What went in together, in the order in which it went. */
function handovers(rig: Rig): (readonly Parcel[])[] {
  const all: (readonly Parcel[])[] = [];
  const ways = rig.claude.ways.bind(rig.claude);
  rig.claude.ways = (live) =>
    ways(live).map((way) => ({
      ...way,
      attempt(parcels, signal) {
        all.push(parcels);
        return way.attempt(parcels, signal);
      },
    }));
  return all;
}

async function sendMany(rig: Rig, count: number, body = 'one of many'): Promise<MessageId[]> {
  const ids: MessageId[] = [];
  for (let n = 0; n < count; n += 1) ids.push(await rig.send({ body, intent: 'fyi' }));
  return ids;
}

describe('much mail that waits', () => {
  it('is handed over in parts, oldest first and each message once', async () => {
    const rig = await aRig();
    const together = handovers(rig);
    const ids = await sendMany(rig, 120);
    rig.claude.add('s1');
    rig.follow();
    for (const id of ids) await within(20_000, () => settled(rig, id));
    expect(together.map((parcels) => parcels.length)).toEqual([50, 50, 20]);
    expect(new Set(together.flat().map(({ id }) => id))).toEqual(new Set(ids));
    expect(new Set(together[0]?.map(({ id }) => id))).toEqual(new Set(ids.slice(0, 50)));
  });

  it('is handed over part by part, however often everything is looked at meanwhile', async () => {
    const rig = await aRig();
    const ways = rig.claude.ways.bind(rig.claude);
    let [running, most] = [0, 0];
    rig.claude.ways = (live) =>
      ways(live).map((way) => ({
        ...way,
        async attempt(parcels, signal) {
          running += 1;
          most = Math.max(most, running);
          await looked(rig);
          running -= 1;
          return way.attempt(parcels, signal);
        },
      }));
    const ids = await sendMany(rig, 120);
    rig.claude.add('s1');
    rig.follow();
    for (const id of ids) await within(20_000, () => settled(rig, id));
    expect(most).toBe(1);
  });

  it('is handed over in parts that are not too long', async () => {
    const rig = await aRig();
    const together = handovers(rig);
    const ids = await sendMany(rig, 5, 'x'.repeat(30_000));
    rig.claude.add('s1');
    rig.follow();
    for (const id of ids) await within(10_000, () => settled(rig, id));
    expect(together.map((parcels) => parcels.length)).toEqual([3, 2]);
  });

  it('does not delay an urgent message that came last', async () => {
    const rig = await aRig();
    const together = handovers(rig);
    const ada = await anOwner(rig.workspace, 'ada');
    const ids = await sendMany(rig, 60);
    const urgent = aDraft({ to: `@${BOB}`, body: 'stop', priority: 'urgent' });
    const { message } = await send(rig.workspace, ada, urgent);
    rig.claude.add('s1');
    rig.follow();
    for (const id of ids) await within(10_000, () => settled(rig, id));
    expect(together[0]?.map(({ id }) => id)).toContain(message.id);
  });

  it('does not delay the mail of other sessions while it is judged', async () => {
    const rig = await aRig(({ id }) => (id === 's2' ? alice : BOB));
    const ids = await sendMany(rig, 210);
    const other = await send(rig.workspace, BOB, aDraft({ to: '@alice', body: 'for alice' }));
    const { journal } = rig.workspace.own;
    const record = journal.record.bind(journal);
    let judged = 0;
    let before = -1;
    journal.record = async (mailbox, id, receipt) => {
      if (receipt.step === 'reconsidered' && mailbox === BOB) judged += 1;
      if (receipt.step === 'offered' && mailbox === alice) before = judged;
      return record(mailbox, id, receipt);
    };
    rig.claude.add('s1').add('s2', { status: 'active' });
    rig.follow({ wakesPerHour: 0 });
    await within(20_000, async () => before >= 0);
    expect(before).toBeLessThanOrEqual(200);
    for (const id of ids) await within(20_000, async () => (await rig.reasons(id)).length > 0);
    expect(other.first).toBe(true);
  });
});
