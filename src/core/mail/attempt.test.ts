import { describe, expect, it } from 'bun:test';
import { aDraft } from '../../../test/support/durable-workspace.ts';
import { temporaryHome } from '../../../test/support/home.ts';
import { alice, anEntry, bob } from '../../../test/support/mail.ts';
import { openHome } from '../../../test/support/maildir.ts';
import { aWorkspace } from '../../../test/support/workspace.ts';
import type { TestWorkspace } from '../../../test/support/workspace.ts';
import { BUSY, HANDED, NEVER, ScriptedWay, TAKEN } from '../../../test/support/ways.ts';
import type { Way } from '../ports/way-in.ts';
import type { MessageId } from '../names.ts';
import { FilesDirectory } from '../../store/directory/files.ts';
import type { Who } from './workspace.ts';
import { attempt } from './attempt.ts';
import type { AttemptOutcome, AttemptOptions, OutgoingCopy } from './attempt.ts';
import { send } from './send.ts';

async function aWorkspaceWithMail(count = 1): Promise<{ workspace: TestWorkspace; who: Who; ids: MessageId[] }> {
  const workspace = await aWorkspace('alice', 'bob');
  const ids: MessageId[] = [];
  for (let n = 1; n <= count; n += 1) {
    ids.push((await send(workspace, alice, aDraft({ body: `letter ${n}` }))).message.id);
    workspace.pass(1000);
  }
  return { workspace, who: workspace.who('bob'), ids };
}

const bodies: AttemptOptions['wrap'] = (outgoing) =>
  outgoing.map(({ message }) => ({ id: message.id, text: message.body }));

async function tried(
  who: Who,
  ids: MessageId[],
  way: Way,
  more: Partial<AttemptOptions> = {},
): Promise<AttemptOutcome> {
  return attempt(who, ids, { way, wrap: bodies, now: Date.now, signal: new AbortController().signal, ...more });
}

async function steps(who: Who, id: MessageId): Promise<string[]> {
  const copy = (await who.home.journal.trace(id))?.copies.find(({ mailbox }) => mailbox === who.name);
  return (copy?.receipts ?? []).map(({ step }) => step);
}

describe('a way in', () => {
  it('is noted before each try, with its name and the number of the try', async () => {
    const { who, ids } = await aWorkspaceWithMail();
    let before: unknown;
    const way = new ScriptedWay('wire', [TAKEN], async ([parcel]) => {
      const receipts = (await who.home.journal.trace(parcel?.id as MessageId))?.copies[0]?.receipts;
      before = receipts?.map(({ step, evidence }) => ({ step, evidence }));
    });
    await tried(who, ids, way);
    expect(before).toEqual([{ step: 'offered', evidence: { way: 'wire', attempt: 1 } }]);
  });

  it('hands over all messages in one try, in the order in which they were sent', async () => {
    const { who, ids } = await aWorkspaceWithMail(3);
    const way = new ScriptedWay('wire', [TAKEN]);
    await tried(who, ids.toReversed(), way);
    expect(way.got.map((parcels) => parcels.map(({ text }) => text))).toEqual([['letter 1', 'letter 2', 'letter 3']]);
  });

  it('ends a copy as acknowledged when the client confirms it, and keeps the client’s evidence', async () => {
    const { who, ids } = await aWorkspaceWithMail();
    expect(await tried(who, ids, new ScriptedWay('wire', [TAKEN]))).toMatchObject({ outcome: 'taken', ids });
    const [copy] = (await who.home.journal.trace(ids[0] as MessageId))?.copies ?? [];
    expect(copy).toMatchObject({ state: 'settled', disposition: 'acknowledged', settledBy: { way: 'wire' } });
    expect(copy?.receipts.find(({ step }) => step === 'accepted')?.evidence).toEqual({
      status: 'finished',
      way: 'wire',
      attempt: 1,
    });
  });

  it('leaves a copy without proof waiting for other ways, and never hands it over again itself', async () => {
    const { who, ids } = await aWorkspaceWithMail();
    const terminal = new ScriptedWay('terminal', [HANDED]);
    expect(await tried(who, ids, terminal)).toMatchObject({ outcome: 'offered', ids });
    expect(await who.home.mailboxes.ids(who.name)).toEqual(ids);
    expect(await tried(who, ids, terminal)).toEqual({ outcome: 'nothing', spent: ids });
    expect(terminal.got).toHaveLength(1);
    expect(await tried(who, ids, new ScriptedWay('wire', [TAKEN]))).toMatchObject({ outcome: 'taken' });
  });

  it('marks a copy that the model may have seen before', async () => {
    const { who, ids } = await aWorkspaceWithMail();
    const marks: boolean[] = [];
    const wrap = (outgoing: readonly OutgoingCopy[]) => {
      marks.push(...outgoing.map(({ redelivered }) => redelivered));
      return bodies(outgoing);
    };
    const wire = new ScriptedWay('wire', [BUSY, HANDED, TAKEN]);
    for (let n = 1; n <= 3; n += 1) await tried(who, ids, wire, { wrap, most: 5 });
    expect(marks).toEqual([false, false, true]);
  });

  it('hands a copy over without proof at most as often as the caller allows', async () => {
    const { who, ids } = await aWorkspaceWithMail();
    const wire = new ScriptedWay('wire', [HANDED]);
    for (let n = 1; n <= 4; n += 1) await tried(who, ids, wire, { most: 3 });
    expect(wire.got).toHaveLength(3);
    expect(await who.home.mailboxes.ids(who.name)).toEqual(ids);
  });

  it('gives a copy that it left back at once, with the reason, and tries again after growing pauses', async () => {
    const { who, ids } = await aWorkspaceWithMail();
    const terminal = new ScriptedWay('terminal', [BUSY]);
    const pauses: (number | null)[] = [];
    for (let n = 1; n <= 11; n += 1) {
      const said = await tried(who, ids, terminal);
      if (said.outcome === 'left') pauses.push(said.againMs);
      expect(await who.home.mailboxes.ids(who.name)).toEqual(ids);
    }
    const SECOND = 1000;
    expect(pauses.slice(0, 4)).toEqual([SECOND, 2 * SECOND, 4 * SECOND, 8 * SECOND]);
    expect(pauses.at(-1)).toBe(300 * SECOND);
    const released = (await who.home.journal.trace(ids[0] as MessageId))?.copies[0]?.receipts.at(-1);
    expect(released).toMatchObject({ step: 'released', evidence: { because: 'the client is busy', way: 'terminal' } });
  });

  it('reports no next try if it can never hand the copy over', async () => {
    const { who, ids } = await aWorkspaceWithMail();
    const said = await tried(who, ids, new ScriptedWay('terminal', [NEVER]));
    expect(said).toEqual({ outcome: 'left', ids, because: 'it has no terminal', againMs: null });
  });

  it('may hand over a copy that it left before', async () => {
    const { who, ids } = await aWorkspaceWithMail();
    const terminal = new ScriptedWay('terminal', [BUSY, HANDED]);
    await tried(who, ids, terminal);
    expect(await tried(who, ids, terminal)).toMatchObject({ outcome: 'offered' });
    expect(await steps(who, ids[0] as MessageId)).toEqual(['offered', 'released', 'offered', 'released']);
  });

  it('that throws counts as a handover, because nobody knows how far it came', async () => {
    const { who, ids } = await aWorkspaceWithMail();
    const broken = new ScriptedWay('terminal', [HANDED], async () => Promise.reject(new Error('broken pipe')));
    await expect(tried(who, ids, broken)).rejects.toThrow('broken pipe');
    expect(await who.home.mailboxes.ids(who.name)).toEqual(ids);
    expect(await tried(who, ids, new ScriptedWay('terminal', [HANDED]))).toEqual({ outcome: 'nothing', spent: ids });
  });

  it('gives all copies back if their text cannot be made, and does not count a handover', async () => {
    const { who, ids } = await aWorkspaceWithMail(2);
    const wrap = (): never => {
      throw new Error('no space left');
    };
    const terminal = new ScriptedWay('terminal', [HANDED]);
    await expect(tried(who, ids, terminal, { wrap })).rejects.toThrow('no space left');
    expect((await who.home.mailboxes.ids(who.name)).toSorted()).toEqual(ids.toSorted());
    expect(await tried(who, ids, terminal)).toMatchObject({ outcome: 'offered' });
  });

  it('gets no copy that another reader holds', async () => {
    const { who, ids } = await aWorkspaceWithMail();
    await who.home.mailboxes.claim(who.name, ids, { ms: 60_000 });
    expect(await tried(who, ids, new ScriptedWay('wire', [TAKEN]))).toEqual({ outcome: 'nothing', spent: [] });
  });

  it('does not hand a copy over again if a process was killed while it handed it over', async () => {
    const root = temporaryHome();
    const { mailboxes, close } = await openHome(root);
    const { message } = await mailboxes.put(anEntry());
    await close();
    const child = Bun.spawn([process.execPath, `${import.meta.dir}/../../../test/support/attempt.child.ts`, root]);
    await child.exited;
    expect(child.signalCode).toBe('SIGKILL');

    const again = await openHome(root);
    const home = {
      label: 'parley' as const,
      root,
      mailboxes: again.mailboxes,
      journal: again.journal,
      directory: new FilesDirectory(root, Date.now),
    };
    const who = { name: bob, home };
    expect(await again.mailboxes.ids(bob)).toEqual([message.id]);
    const terminal = new ScriptedWay('terminal', [HANDED]);
    expect(await tried(who, [message.id], terminal)).toEqual({ outcome: 'nothing', spent: [message.id] });
    expect(await tried(who, [message.id], new ScriptedWay('wire', [TAKEN]))).toMatchObject({ outcome: 'taken' });
    await again.close();
  });
});
