// A relay of an older version answered mail before it was in the journal. Mail that it left in `ledger.db.tray` when it died is not lost.
import { describe, expect, it, spyOn } from 'bun:test';
import { Database } from 'bun:sqlite';
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { openServerHome } from '../../../test/support/server-home.ts';
import { anEntry, bob, carol, copiesFor } from '../../../test/support/mail.ts';
import { openHome } from '../../../test/support/maildir.ts';
import type { MessageId } from '../../core/names.ts';
import { SendKey } from '../../core/names.ts';
import type { Entry } from '../../core/ports/journal.ts';
import { JournalConnection } from './connection.ts';
import { exportLock } from './log.ts';
import { openSqliteJournal } from './sqlite.ts';

const DONE = { disposition: 'acknowledged', by: { test: true } } as const;

/** A batch of entries as the older relay wrote it. */
function batch(life: string, round: number, ...entries: Entry[]): Buffer {
  const lines = entries.map(
    ({ message, ...rest }) => `${JSON.stringify(message)}\n${JSON.stringify({ ...rest, fresh: true })}\n`,
  );
  const body = Buffer.from(lines.join(''));
  const sum = Bun.hash.crc32(body, Bun.hash.crc32(`${life} ${round}`));
  const head = `${String(round).padStart(12)} ${String(body.length).padStart(10)} ${sum.toString(16).padStart(8, '0')}\n`;
  return Buffer.concat([Buffer.from(head), body]);
}

/** A home with a journal, and the generation id of that journal. */
async function aHome(): Promise<{ root: string; file: string; life: string }> {
  const root = temporaryHome();
  await (await openHome(root)).close();
  const db = new Database(`${root}/ledger.db`);
  const life = db.query<{ value: string }, []>("SELECT value FROM meta WHERE name = 'generation'").get()?.value ?? '';
  db.close();
  return { root, file: `${root}/ledger.db.tray`, life };
}

function idsOf(...entries: Entry[]): MessageId[] {
  return entries.map(({ message }) => message.id);
}

describe('mail that an older relay left in its tray', () => {
  it.each(['a command', 'a relay'])('is entered once and in order by %s that opens the home [BC-8]', async (who) => {
    const { root, file, life } = await aHome();
    const key = SendKey.parse('k1');
    const first = [anEntry({ body: 'Grüße\nzwei Zeilen' }), anEntry({}, { key })];
    const second = [anEntry({}, { copies: copiesFor(bob, carol) })];
    const torn = batch(life, 1, anEntry()).subarray(0, -5);
    writeFileSync(file, Buffer.concat([batch(life, 1, ...first), batch(life, 1, ...second), torn, Buffer.alloc(4096)]));
    for (let n = 0; n < 2; n += 1) {
      const { mailboxes, journal, close } = await (who === 'a command' ? openHome(root) : openServerHome(root));
      expect((await journal.openCopies(bob, 0, 10)).map(({ id }) => id)).toEqual(idsOf(...first, ...second));
      expect((await mailboxes.ids(carol)).toSorted()).toEqual(idsOf(...second));
      expect((await mailboxes.put(anEntry({}, { key }))).first).toBe(false);
      expect(existsSync(file)).toBe(false);
      await close();
    }
    expect(readdirSync(`${root}/spool/bob/new`)).toHaveLength(3);
  });

  it('is not entered again if the older relay had entered it, even if it was read and forgotten since', async () => {
    const { root, file, life } = await aHome();
    const [known, news, next] = [anEntry(), anEntry(), anEntry()];
    const before = batch(life, 4, known);
    const { mailboxes, journal, close } = await openHome(root);
    await journal.acceptTogether([known]);
    const db = new Database(`${root}/ledger.db`);
    db.run('INSERT INTO meta VALUES (?, ?)', ['tray', `4 ${before.length}`]);
    await mailboxes.settle(await mailboxes.claim(bob, idsOf(known), { ms: 30_000 }), idsOf(known), DONE);
    await journal.prune({ bodies: Infinity, facts: Infinity });
    await close();
    writeFileSync(file, Buffer.concat([before, batch(life, 4, news)]));
    const opened = await openHome(root);
    expect(await opened.mailboxes.ids(bob)).toEqual(idsOf(news));
    await opened.close();
    // The next round of the file starts at its beginning.
    writeFileSync(file, batch(life, 5, next));
    const again = await openHome(root);
    expect((await again.mailboxes.ids(bob)).toSorted()).toEqual(idsOf(news, next).toSorted());
    await again.close();
    db.close();
  });

  it.each(['a command', 'a relay'])(
    'is entered by the next heal of %s that found the disk full when it opened the home [BC-8]',
    async (who) => {
      const { root, file, life } = await aHome();
      const entry = anEntry();
      writeFileSync(file, batch(life, 1, entry));
      const full = Object.assign(new Error('full'), { code: 'ENOSPC' });
      const write = spyOn(JournalConnection.prototype, 'writeFlushed').mockImplementation(() => {
        throw full;
      });
      const { mailboxes, close } = await (who === 'a command' ? openHome(root) : openServerHome(root));
      expect([await mailboxes.ids(bob), existsSync(file)]).toEqual([[], true]);
      write.mockRestore();
      await mailboxes.heal();
      expect([await mailboxes.ids(bob), existsSync(file)]).toEqual([idsOf(entry), false]);
      await close();
    },
  );

  it('leaves no journal open if the tray cannot be read', async () => {
    const { root, file } = await aHome();
    mkdirSync(file);
    const closed = spyOn(JournalConnection.prototype, 'close');
    expect(() => openSqliteJournal({ path: `${root}/ledger.db`, durability: 'normal' })).toThrow('EISDIR');
    expect(closed).toHaveBeenCalledTimes(1);
    closed.mockRestore();
  });

  it('is left alone while its relay lives', async () => {
    const { root, file, life } = await aHome();
    writeFileSync(file, batch(life, 1, anEntry()));
    const lock = exportLock(`${root}/ledger.db`);
    const journal = openSqliteJournal({ path: `${root}/ledger.db`, durability: 'normal' });
    expect([await journal.newest(), existsSync(file)]).toEqual([0, true]);
    lock?.release();
    await journal.close();
  });

  it('is kept aside if it belongs to another journal or a part cannot be entered; the other parts are entered', async () => {
    const { root, file, life } = await aHome();
    const kept = (): number => readdirSync(root).filter((name) => name.startsWith('ledger.db.tray.damaged-')).length;
    writeFileSync(file, batch('another ledger', 1, anEntry()));
    await (await openHome(root)).close();
    expect([kept(), existsSync(file)]).toEqual([1, false]);
    const whole = anEntry();
    writeFileSync(file, batch(life, 1, anEntry({}, { copies: copiesFor(bob, bob) }), whole));
    const { mailboxes, close } = await openHome(root);
    expect(await mailboxes.ids(bob)).toEqual(idsOf(whole));
    expect([kept(), existsSync(file)]).toEqual([2, false]);
    await close();
  });
});
