// The folder of a raised copy: hooks look only in new/.
import { describe, expect, it } from 'bun:test';
import { readdirSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { openServerHome } from '../../../test/support/server-home.ts';
import { anEntry, bob, QUIET } from '../../../test/support/mail.ts';
import { openHome } from '../../../test/support/maildir.ts';
import type { Entry } from '../../core/ports/journal.ts';
import { FIRST } from '../../core/ports/journal.ts';
import { ExportFiles } from './export-files.ts';
import { MaildirFiles } from './files.ts';

function aQuietEntry(): Entry {
  return anEntry({}, { copies: [{ mailbox: bob, attention: QUIET }] });
}

function fail(error: unknown): void {
  throw error;
}

function filesIn(home: string, folder: 'new' | 'quiet'): string[] {
  return readdirSync(`${home}/spool/bob/${folder}`);
}

describe('a raised copy', () => {
  it('is in new/ and no longer in quiet/', async () => {
    const home = temporaryHome();
    const { mailboxes, close } = await openHome(home);
    const { message } = await mailboxes.put(aQuietEntry());
    expect(filesIn(home, 'quiet')).toEqual([`${message.id}.json`]);
    await mailboxes.raise(bob, message.id);
    expect(filesIn(home, 'new')).toEqual([`${message.id}.json`]);
    expect(filesIn(home, 'quiet')).toEqual([]);
    await close();
  });

  it('of a relay is in new/, whether it had its file before or gets it later', async () => {
    const home = temporaryHome();
    const { mailboxes, close } = await openServerHome(home);
    const early = (await mailboxes.put(aQuietEntry())).message;
    await mailboxes.flush();
    const late = (await mailboxes.put(aQuietEntry())).message;
    for (const { id } of [early, late]) expect(await mailboxes.raise(bob, id)).toBe(true);
    await mailboxes.flush();
    expect(filesIn(home, 'new').toSorted()).toEqual([early, late].map(({ id }) => `${id}.json`).toSorted());
    expect(filesIn(home, 'quiet')).toEqual([]);
    await close();
  });

  it('of a relay is in new/ even if its file was just being written into quiet/', async () => {
    const home = temporaryHome();
    const { mailboxes, journal, close } = await openHome(home);
    const entry = aQuietEntry();
    await journal.acceptTogether([entry]);
    const copies = await journal.unexported(FIRST, 10);
    expect(copies).toMatchObject([{ quiet: true }]);
    // Not there yet, so nothing is moved.
    expect(await mailboxes.raise(bob, entry.message.id)).toBe(false);
    await new ExportFiles(new MaildirFiles(home)).exportBatch(journal, copies, fail);
    expect(filesIn(home, 'new')).toEqual([`${entry.message.id}.json`]);
    expect(filesIn(home, 'quiet')).toEqual([]);
    await close();
  });
});
