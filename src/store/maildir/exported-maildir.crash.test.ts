// A relay answers before it writes files. Wherever it is killed, no answered message is lost, and none is delivered twice.
import { Database } from 'bun:sqlite';
import { describe, expect, it } from 'bun:test';
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { run, start, stepsOf } from '../../../test/support/crash.ts';
import { temporaryHome } from '../../../test/support/home.ts';
import { openServerHome } from '../../../test/support/server-home.ts';
import { anEntry, bob, carol, LOUD, QUIET } from '../../../test/support/mail.ts';
import { openHome } from '../../../test/support/maildir.ts';
import type { OpenHome } from '../../../test/support/maildir.ts';
import type { AgentName, MessageId } from '../../core/names.ts';
import { SendKey } from '../../core/names.ts';
import { FIRST } from '../../core/ports/journal.ts';
import type { CopyNumber, Entry, MailboxJournal } from '../../core/ports/journal.ts';
import { ExportFiles } from './export-files.ts';
import { MaildirFiles } from './files.ts';
import type { Mailboxes } from '../../core/ports/mailboxes.ts';

const LEASE = { ms: 30_000 };
const DONE = { disposition: 'acknowledged', by: { test: true } } as const;
const COPIES = [
  { mailbox: bob, attention: LOUD },
  { mailbox: carol, attention: QUIET },
];

function entryFor(key: string): Entry {
  return anEntry({ to: '#dev' }, { key: SendKey.parse(key), copies: COPIES });
}

/** A home in which a relay accepted entries under these keys and died before it wrote any file. */
async function homeWithUnexported(...keys: string[]): Promise<{ home: string; ids: MessageId[] }> {
  const home = temporaryHome();
  const { journal, close } = await openHome(home);
  const entries = keys.map(entryFor);
  await journal.acceptTogether(entries);
  await close();
  return { home, ids: entries.map(({ message }) => message.id).toSorted() };
}

function filesOf(home: string, mailbox: AgentName, ...folders: string[]): string[] {
  return folders.flatMap((folder) => {
    const path = `${home}/spool/${mailbox}/${folder}`;
    return existsSync(path) ? readdirSync(path) : [];
  });
}

async function takeAll({ mailboxes }: { mailboxes: Mailboxes }, mailbox: AgentName): Promise<MessageId[]> {
  const claim = await mailboxes.claim(mailbox, await mailboxes.ids(mailbox), LEASE);
  const held = claim.copies.map(({ message }) => message.id);
  return held.length > 0 && (await mailboxes.settle(claim, held, DONE)) ? held.toSorted() : [];
}

/** Makes the journal believe that the machine was restarted. */
function restart(home: string): void {
  const db = new Database(`${home}/ledger.db`);
  db.run("UPDATE meta SET value = 'an earlier start' WHERE name = 'life'");
  db.close();
}

/** Kills a child after it wrote this many lines, and returns its lines. */
async function killedAfter(
  home: string,
  lines: number,
): Promise<{ answered: Map<MessageId, string>; taken: string[] }> {
  const child = Bun.spawn(
    [process.execPath, `${import.meta.dir}/../../../test/support/server-home.child.ts`, home, '16'],
    {
      stdout: 'pipe',
      stderr: 'inherit',
    },
  );
  let heard = '';
  const decoder = new TextDecoder();
  for await (const chunk of child.stdout) {
    heard += decoder.decode(chunk, { stream: true });
    if (heard.split('\n').length > lines) child.kill('SIGKILL');
  }
  await child.exited;
  const said = heard
    .split('\n')
    .filter((line) => line.length > 36)
    .map((line) => line.split(' ') as [string, string]);
  return {
    answered: new Map(said.filter(([id]) => id !== 'taken').map(([id, key]) => [id as MessageId, key])),
    taken: said.filter(([word]) => word === 'taken').map(([, id]) => id),
  };
}

const FILE = await stepsOf({ home: (await homeWithUnexported('k1', 'k2')).home, act: 'heal' });

describe('a relay that is killed', () => {
  it.each([
    [50, 'a command'],
    [400, 'a command'],
    [1500, 'a command'],
    [200, 'the next relay'],
    [900, 'the next relay'],
  ])('after %i answers loses none of them, and %s brings each once [BC-8, BC-10]', async (lines, who) => {
    const home = temporaryHome();
    const { answered, taken } = await killedAfter(home, lines);
    expect(answered.size).toBeGreaterThan(lines / 3);
    const opened = who === 'a command' ? await openHome(home) : await openServerHome(home);
    await opened.mailboxes.flush();
    // One command exports for a second at most; the next command continues.
    while ((await opened.journal.unexportedCount(1)) > 0) await opened.mailboxes.heal();
    for (const [id, key] of [...answered].slice(0, 20)) {
      const retry = await opened.mailboxes.put(entryFor(key));
      expect([retry.first, retry.message.id]).toEqual([false, id]);
    }
    const got = new Set(await takeAll(opened, bob));
    const quiet = new Set(await takeAll(opened, carol));
    expect([...answered.keys()].filter((id) => !quiet.has(id))).toEqual([]);
    const lost = [...answered.keys()].filter((id) => !got.has(id) && !taken.includes(id));
    expect(await settledIn(opened.journal, lost)).toEqual(lost);
    expect(taken.filter((id) => got.has(id as MessageId))).toEqual([]);
    expect([await opened.mailboxes.ids(bob), await opened.mailboxes.ids(carol)]).toEqual([[], []]);
    await opened.close();
    expect(filesOf(home, bob, 'new', 'quiet', 'held')).toEqual([]);
    expect(filesOf(home, carol, 'new', 'quiet', 'held')).toEqual([]);
  });

  it.each(FILE)('during an export, at %s (%i), leaves files that the next process completes', async (step, nth) => {
    const { home, ids } = await homeWithUnexported('k1', 'k2');
    expect((await run({ home, act: 'heal', step, nth })).died).toBe(true);
    const opened = await openHome(home);
    expect((await opened.mailboxes.ids(bob)).toSorted()).toEqual(ids);
    expect(filesOf(home, carol, 'quiet')).toHaveLength(2);
    expect(await takeAll(opened, bob)).toEqual(ids);
    expect(await takeAll(opened, carol)).toEqual(ids);
    expect(await opened.journal.unexportedCount(10)).toBe(0);
    expect(filesOf(home, bob, 'tmp', 'new', 'quiet', 'held')).toEqual([]);
    await opened.close();
  });

  it.each(FILE)('during an export, at %s (%i), leaves copies that can be claimed at once', async (step, nth) => {
    const { home, ids } = await homeWithUnexported('k1', 'k2');
    await run({ home, act: 'heal', step, nth });
    const opened = await openHome(home, { heal: false });
    const claim = await opened.mailboxes.claim(bob, ids, LEASE);
    expect(claim.copies.map(({ message }) => message.id).toSorted()).toEqual(ids);
    await opened.mailboxes.heal();
    expect(await opened.mailboxes.settle(claim, ids, DONE)).toBe(true);
    await opened.mailboxes.heal();
    expect(filesOf(home, bob, 'tmp', 'new', 'quiet', 'held')).toEqual([]);
    expect(await takeAll(opened, carol)).toEqual(ids);
    await opened.close();
  });

  it('goes through every export step at which these tests kill it', () => {
    expect(new Set(FILE.map(([step]) => step))).toEqual(
      new Set(['F1 drafted one', 'F2 drafted', 'F3 published one', 'F4 exported']),
    );
  });
});

/** The ids that bob settled in a take that was killed before it could report them. */
async function settledIn(journal: MailboxJournal, ids: MessageId[]): Promise<MessageId[]> {
  const settled: MessageId[] = [];
  for (const id of ids) if ((await journal.copy(bob, id))?.state === 'settled') settled.push(id);
  return settled;
}

it('a mailbox with only some of its folders still gets its files', async () => {
  const { home, ids } = await homeWithUnexported('k1');
  for (const folder of ['tmp', 'new', 'cur']) mkdirSync(`${home}/spool/carol/${folder}`, { recursive: true });
  const opened = await openHome(home);
  expect(await opened.mailboxes.ids(carol)).toEqual(ids);
  await opened.close();
});

describe('a copy without a file', () => {
  it('that is taken never gets one, even if tmp/ has its draft [BC-10]', async () => {
    const { home, ids } = await homeWithUnexported('k1');
    const opened = await openHome(home, { heal: false });
    const [id] = ids as [MessageId];
    const claim = await opened.mailboxes.claim(bob, [id], LEASE);
    expect(claim.copies[0]?.message.id).toBe(id);
    await opened.mailboxes.heal();
    expect(filesOf(home, bob, 'tmp', 'new', 'quiet', 'held')).toEqual([]);
    expect(await opened.mailboxes.settle(claim, [id], DONE)).toBe(true);
    await opened.mailboxes.heal();
    expect(filesOf(home, bob, 'tmp', 'new', 'quiet', 'held', 'cur')).toEqual([]);
    expect(filesOf(home, carol, 'quiet')).toEqual([`${id}.json`]);
    await opened.close();
  });

  it('that is put back gets one', async () => {
    const { home, ids } = await homeWithUnexported('k1');
    const opened = await openHome(home, { heal: false });
    const claim = await opened.mailboxes.claim(bob, ids, LEASE);
    await opened.mailboxes.release(claim, ids, { because: 'busy' });
    expect(await opened.mailboxes.ids(bob)).toEqual(ids);
    expect(filesOf(home, bob, 'new')).toHaveLength(1);
    expect(await takeAll(opened, bob)).toEqual(ids);
    await opened.close();
  });

  it('that a dead reader held waits again, marked, and gets one [BC-6]', async () => {
    const { home, ids } = await homeWithUnexported('k1');
    const reader = start({ home, act: 'holdAll', keys: ids, env: { HEAL: 'no' } });
    await reader.saying('held');
    const early = await openHome(home);
    expect(await early.mailboxes.ids(bob)).toEqual([]);
    await early.close();
    reader.kill();
    await reader.ended;
    const next = await run({ home, act: 'take' });
    expect(next.shown).toEqual([{ id: ids[0] as MessageId, attempt: 1 }]);
    expect(filesOf(home, bob, 'tmp', 'new', 'held')).toEqual([]);
  });

  it('that is kept after reading is written to cur/ [BC-9]', async () => {
    const { home, ids } = await homeWithUnexported('k1');
    const opened = await openHome(home, { heal: false });
    const claim = await opened.mailboxes.claim(bob, ids, LEASE);
    await opened.mailboxes.settle(claim, ids, { ...DONE, keep: true });
    expect(filesOf(home, bob, 'cur')).toEqual([`${ids[0] ?? ''}.json`]);
    await opened.close();
  });

  it('is not mistaken for a copy that another program took', async () => {
    const { home, ids } = await homeWithUnexported('k1');
    const opened = await openHome(home, { heal: false });
    await opened.mailboxes.adopt(bob);
    expect((await opened.journal.copy(bob, ids[0] as MessageId))?.state).toBe('stored');
    expect(await opened.mailboxes.withdraw(ids[0] as MessageId, { test: true })).toMatchObject([
      { mailbox: bob, state: 'stored' },
      { mailbox: carol, state: 'stored' },
    ]);
    await opened.mailboxes.heal();
    expect(filesOf(home, bob, 'tmp', 'new', 'quiet', 'held')).toEqual([]);
    await opened.close();
  });
});

describe('after a restart of the machine', () => {
  /** A home of which a relay has written all files, none of them flushed. */
  async function homeWithFiles(count: number): Promise<{ home: string; ids: MessageId[] }> {
    const home = temporaryHome();
    const { mailboxes, close } = await openServerHome(home);
    const ids = await Promise.all(
      Array.from({ length: count }, async (_, n) => (await mailboxes.put(entryFor(`k${n}`))).message.id),
    );
    await close();
    expect(filesOf(home, bob, 'new')).toHaveLength(count);
    return { home, ids: ids.toSorted() };
  }
  async function everythingWaitsOnce(home: string, ids: MessageId[], open: (root: string) => Promise<OpenHome>) {
    const opened = await open(home);
    await opened.mailboxes.flush();
    expect(filesOf(home, bob, 'new').toSorted()).toEqual(ids.map((id) => `${id}.json`));
    expect(await takeAll(opened, bob)).toEqual(ids);
    expect(await takeAll(opened, carol)).toEqual(ids);
    await opened.mailboxes.heal();
    expect(filesOf(home, bob, 'tmp', 'new', 'quiet', 'held')).toEqual([]);
    expect(await opened.mailboxes.asides()).toEqual([]);
    await opened.close();
  }

  it('files that were lost, or lost their text, are written again [BC-8]', async () => {
    const { home, ids } = await homeWithFiles(6);
    const [gone, empty, garbage, held] = ids as [MessageId, MessageId, MessageId, MessageId];
    rmSync(`${home}/spool/bob/new/${gone}.json`);
    truncateSync(`${home}/spool/bob/new/${empty}.json`, 0);
    rmSync(`${home}/spool/bob/new/${garbage}.json`);
    writeFileSync(`${home}/spool/bob/new/${garbage}.json`, '\0'.repeat(300));
    // A claim whose rename reached the disk, but whose row did not.
    mkdirSync(`${home}/spool/bob/held`, { recursive: true });
    renameSync(`${home}/spool/bob/new/${held}.json`, `${home}/spool/bob/held/${held}.json`);
    restart(home);
    await everythingWaitsOnce(home, ids, openHome);
  });

  it('a file whose row lost its `drafted` mark is found, not written again [BC-10]', async () => {
    const { home, ids } = await homeWithFiles(3);
    const db = new Database(`${home}/ledger.db`);
    db.run("INSERT INTO unfiled SELECT seq, mailbox, 0 FROM copies WHERE mailbox = 'bob'");
    db.close();
    restart(home);
    await everythingWaitsOnce(home, ids, openHome);
  });

  it('a draft whose rename was lost is published', async () => {
    const { home, ids } = await homeWithFiles(2);
    for (const id of ids) renameSync(`${home}/spool/bob/new/${id}.json`, `${home}/spool/bob/tmp/${id}.late`);
    restart(home);
    await everythingWaitsOnce(home, ids, openHome);
  });

  it('a copy that another program took before the restart is not written again, if that was recorded [BC-1]', async () => {
    const { home, ids } = await homeWithFiles(2);
    rmSync(`${home}/spool/bob/new/${ids[0] as MessageId}.json`);
    const noticing = await openHome(home);
    await noticing.mailboxes.adopt(bob);
    await noticing.close();
    restart(home);
    const opened = await openHome(home);
    expect(await opened.mailboxes.ids(bob)).toEqual(ids.slice(1));
    await opened.close();
  });
});

describe('one file with two links: published for one recipient, a draft for another', () => {
  const onTrouble = (error: unknown): void => expect(error).toBeNull();

  /** Runs F1 for all of these, and no later step. */
  async function draftAndDie(home: string, journal: MailboxJournal): Promise<void> {
    const folders = new MaildirFiles(home);
    // Drafts are linked only into a mailbox that exists.
    for (const mailbox of [bob, carol]) folders.begin(mailbox);
    const files = new ExportFiles(folders, (step) => {
      if (step === 'F2 drafted') throw new Error('killed');
    });
    await expect(files.exportBatch(journal, await journal.unexported(FIRST, 10), onTrouble)).rejects.toThrow('killed');
  }

  /** Killed while it writes the draft again, before the first byte. */
  async function dieInTheWrite(home: string, journal: MailboxJournal, after: CopyNumber): Promise<void> {
    const [copy, ...others] = await journal.unexported(after, 10);
    if (!copy) throw new Error('no copy without a file');
    expect([copy.mailbox, others]).toEqual([carol, []]);
    const files = new ExportFiles(new MaildirFiles(home), () => {
      throw new Error('killed');
    });
    await files.exportBatch(journal, [{ ...copy, text: '' }], () => {});
  }

  async function bothGetIt(home: string, ids: MessageId[]): Promise<void> {
    // Before the draft is written again.
    const opened = await openHome(home, { heal: false });
    expect(await takeAll(opened, bob)).toEqual(ids);
    await opened.mailboxes.heal();
    expect(await takeAll(opened, carol)).toEqual(ids);
    expect(await opened.mailboxes.asides()).toEqual([]);
    expect(filesOf(home, bob, 'tmp', 'new', 'quiet', 'held')).toEqual([]);
    expect(filesOf(home, carol, 'tmp', 'new', 'quiet', 'held')).toEqual([]);
    await opened.close();
  }

  it('survives a kill in F1 that splits the copies into two batches, and a second kill in F1 [BC-8]', async () => {
    const { home, ids } = await homeWithUnexported('k1');
    const { journal, close } = await openHome(home, { heal: false });
    const drafted = journal.drafted.bind(journal);
    journal.drafted = async (copies) => copies.map(() => false);
    await draftAndDie(home, journal);
    journal.drafted = drafted;
    const [first] = await journal.unexported(FIRST, 1);
    if (!first) throw new Error('no copy without a file');
    await new ExportFiles(new MaildirFiles(home)).exportBatch(journal, [first], onTrouble);
    expect([filesOf(home, bob, 'new'), filesOf(home, carol, 'tmp')]).toEqual([[`${ids[0]}.json`], [`${ids[0]}.late`]]);
    await dieInTheWrite(home, journal, first);
    await close();
    await bothGetIt(home, ids);
  });

  it('survives a kill in F2 while a reader holds one copy, and a second kill in F1 after its release [BC-8]', async () => {
    const { home, ids } = await homeWithUnexported('k1');
    const { journal, mailboxes, close } = await openHome(home, { heal: false });
    const drafted = journal.drafted.bind(journal);
    let owner = '';
    journal.drafted = async (copies) => {
      ({ owner } = await mailboxes.claim(carol, ids, LEASE));
      return drafted(copies);
    };
    await draftAndDie(home, journal);
    journal.drafted = drafted;
    await new ExportFiles(new MaildirFiles(home)).finishDrafts(journal, onTrouble);
    expect([filesOf(home, bob, 'new'), filesOf(home, carol, 'tmp')]).toEqual([[`${ids[0]}.json`], [`${ids[0]}.late`]]);
    await journal.release(carol, owner, ids, null, { because: 'test' });
    await dieInTheWrite(home, journal, FIRST);
    await close();
    await bothGetIt(home, ids);
  });
});

describe('files that a reader left in tmp/ when it died after its settle', () => {
  /** A draft is written, its copy is claimed before F2, and the exporter dies. */
  async function homeWithDraft(): Promise<{ home: string; ids: MessageId[] }> {
    const made = await homeWithUnexported('k1');
    expect((await run({ home: made.home, act: 'heal', step: 'F1 drafted one', nth: 2 })).died).toBe(true);
    return made;
  }
  const tmp = (home: string): string[] => filesOf(home, bob, 'tmp');

  it.each(['the next claim', 'a restart of the machine'])('a draft is removed by %s', async (what) => {
    const { home, ids } = await homeWithDraft();
    const reader = await openHome(home, { heal: false });
    const claim = await reader.mailboxes.claim(bob, ids, LEASE);
    // T3 without T4.
    await reader.journal.settle(bob, claim.owner, ids, DONE);
    await reader.close();
    expect(tmp(home)).toEqual([`${ids[0]}.late`]);
    if (what !== 'the next claim') restart(home);
    const next = await openHome(home);
    if (what === 'the next claim') await next.mailboxes.claim(bob, [], LEASE);
    expect(tmp(home)).toEqual([]);
    expect(await takeAll(next, carol)).toEqual(ids);
    await next.close();
  });

  it('a draft of a copy that waits or is held stays', async () => {
    const { home, ids } = await homeWithDraft();
    const opened = await openHome(home, { heal: false });
    await opened.mailboxes.claim(bob, [], LEASE);
    expect(tmp(home)).toEqual([`${ids[0]}.late`]);
    const other = await openHome(home, { heal: false });
    const claim = await other.mailboxes.claim(bob, ids, LEASE);
    expect(tmp(home)).toEqual([`${ids[0]}.late`]);
    expect(await other.mailboxes.settle(claim, ids, DONE)).toBe(true);
    expect(tmp(home)).toEqual([]);
    await other.close();
    await opened.close();
  });

  it('a kept copy is moved to cur/ by the next claim [BC-9]', async () => {
    const { home, ids } = await homeWithUnexported('k1');
    const reader = await run({ home, act: 'keep', keys: ids, step: 'T4 kept', env: { HEAL: 'no' } });
    expect(reader.died).toBe(true);
    expect([tmp(home), filesOf(home, bob, 'cur')]).toEqual([[`${ids[0]}.keep`], []]);
    const next = await openHome(home);
    await next.mailboxes.claim(bob, [], LEASE);
    expect([tmp(home), filesOf(home, bob, 'cur')]).toEqual([[], [`${ids[0]}.json`]]);
    await next.close();
  });
});

it('a copy that is kept after reading is moved to cur/ even if an exporter deletes its draft meanwhile [BC-9]', async () => {
  const { home, ids } = await homeWithUnexported('k1');
  const files = new MaildirFiles(home);
  const { mailboxes, close } = await openHome(home, {
    heal: false,
    // F3 for a copy that a reader took meanwhile.
    onStep: (step) => step === 'T4 kept' && files.delete(files.draft(bob, ids[0] as MessageId)),
  });
  const claim = await mailboxes.claim(bob, ids, LEASE);
  expect(await mailboxes.settle(claim, ids, { ...DONE, keep: true })).toBe(true);
  expect(filesOf(home, bob, 'cur')).toEqual([`${ids[0]}.json`]);
  await close();
});

it('a copy that a reader claims and releases between F1 and F2 still gets its file', async () => {
  const { home, ids } = await homeWithUnexported('k1');
  const { journal, mailboxes, close } = await openHome(home);
  const drafted = journal.drafted.bind(journal);
  journal.drafted = async (copies) => {
    // The reader acts while the exporter waits for the journal.
    const claim = await mailboxes.claim(bob, ids, LEASE);
    await journal.release(bob, claim.owner, ids, null, { because: 'test' });
    return drafted(copies);
  };
  const batch = await journal.unexported(FIRST, 10);
  await new ExportFiles(new MaildirFiles(home)).exportBatch(journal, batch, (error) => expect(error).toBeNull());
  expect(filesOf(home, bob, 'new', 'tmp')).toEqual(ids.map((id) => `${id}.json`));
  expect(await takeAll({ mailboxes }, bob)).toEqual(ids);
  await close();
});
