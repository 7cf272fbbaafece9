// Where the file of a raised copy stands: hooks look nowhere but in new/.
import { describe, expect, it } from 'bun:test';
import { readdirSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { openLateHome } from '../../../test/support/late.ts';
import { anEntry, bob, QUIET } from '../../../test/support/mail.ts';
import { openHome } from '../../../test/support/maildir.ts';
import type { Entry } from '../ledger/ledger.ts';
import { FIRST } from '../ledger/late.ts';
import { LateFiles } from './late-files.ts';
import { LateRaised } from './late-raised.ts';
import type { LateWatchers } from './late-watchers.ts';
import { MaildirFiles } from './maildir-files.ts';

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
  it('stands in new/ and no longer in quiet/', async () => {
    const home = temporaryHome();
    const { spool, close } = await openHome(home);
    const { message } = await spool.put(aQuietEntry());
    expect(filesIn(home, 'quiet')).toEqual([`${message.id}.json`]);
    await spool.raise(bob, message.id);
    expect(filesIn(home, 'new')).toEqual([`${message.id}.json`]);
    expect(filesIn(home, 'quiet')).toEqual([]);
    await close();
  });

  it('of a relay stands in new/, whether it had its file before or gets it later', async () => {
    const home = temporaryHome();
    const { spool, close } = await openLateHome(home);
    const early = (await spool.put(aQuietEntry())).message;
    await spool.flush();
    const late = (await spool.put(aQuietEntry())).message;
    for (const { id } of [early, late]) expect(await spool.raise(bob, id)).toBe(true);
    await spool.flush();
    expect(filesIn(home, 'new').toSorted()).toEqual([early, late].map(({ id }) => `${id}.json`).toSorted());
    expect(filesIn(home, 'quiet')).toEqual([]);
    await close();
  });

  it('of a relay stands in new/ also if its file was just being written into quiet/', async () => {
    const home = temporaryHome();
    const { spool, ledger, close } = await openHome(home);
    const told: string[] = [];
    const watchers = { tellOf: async (_mailbox, ids) => void told.push(...ids) } as LateWatchers;
    const raised = new LateRaised(ledger, spool, watchers);
    const entry = aQuietEntry();
    await ledger.acceptTogether([entry]);
    const copies = await ledger.unfiled(FIRST, 10);
    expect(await raised.raise(bob, entry.message.id)).toBe(true);
    const writer = new LateFiles(new MaildirFiles(home));
    const mine = await ledger.drafted(writer.draft(copies, fail));
    await ledger.filed(writer.publish(copies, mine, fail));
    expect(filesIn(home, 'quiet')).toEqual([`${entry.message.id}.json`]);
    await raised.filed(copies);
    expect(filesIn(home, 'new')).toEqual([`${entry.message.id}.json`]);
    expect(filesIn(home, 'quiet')).toEqual([]);
    expect(told).toEqual([entry.message.id, entry.message.id]);
    await close();
  });
});
