// What stands in a broker directory, who may read it, and what happens when the disk says no.
import { afterAll, describe, expect, it } from 'bun:test';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { inboxOf, listAt, openBrokerHome } from '../../../test/support/c2c-broker.ts';
import type { OpenBroker } from '../../../test/support/c2c-broker.ts';
import { temporaryHome } from '../../../test/support/home.ts';
import { aMessage, anEntry, bob, carol, copiesFor } from '../../../test/support/mail.ts';
import { TinyDisk } from '../../../test/support/tiny-disk.ts';
import type { MessageId } from '../../core/names.ts';

const LEASE = { ms: 30_000 };
const DONE = { disposition: 'acknowledged', by: { test: true } } as const;

async function take({ mailboxes }: OpenBroker, ids: MessageId[]): Promise<MessageId[]> {
  const claim = await mailboxes.claim(bob, ids, LEASE);
  const held = claim.copies.map(({ message }) => message.id);
  return held.length > 0 && (await mailboxes.settle(claim, held, DONE)) ? held : [];
}

describe('in a broker directory', () => {
  it('every file is readable by its owner only, and every folder too', async () => {
    const before = process.umask(0o000);
    try {
      const home = temporaryHome();
      const opened = await openBrokerHome(home);
      await opened.mailboxes.put({ message: aMessage({ to: '#dev' }), copies: copiesFor(bob, carol) });
      await take(opened, await opened.mailboxes.ids(bob));
      await opened.mailboxes.claim(carol, await opened.mailboxes.ids(carol), LEASE);
      writeFileSync(inboxOf(home, bob), '[{"half');
      await opened.mailboxes.put(anEntry());
      await opened.close();
      const all = readdirSync(home, { recursive: true }) as string[];
      expect(all).toContain('repaired/untold.jsonl');
      const open = all.filter((name) => {
        const { mode } = statSync(`${home}/${name}`);
        return (mode & 0o777) !== ((mode & 0o170000) === 0o040000 ? 0o700 : 0o600);
      });
      expect(open).toEqual([]);
    } finally {
      process.umask(before);
    }
  });

  it('what is said in a room stands once in its history, and in each member’s inbox under the room’s name', async () => {
    const home = temporaryHome();
    const opened = await openBrokerHome(home);
    const message = aMessage({ to: '#dev', ts: '2026-01-02T03:04:05.000Z', body: 'all' });
    for (let n = 0; n < 2; n += 1) await opened.mailboxes.put({ message, copies: copiesFor(bob, carol) });
    expect(readFileSync(`${home}/rooms/dev/history.jsonl`, 'utf8')).toBe(
      `{"ts":1767323045.0,"from_alias":"alice","content":"all","message_id":"${message.id}"}\n`,
    );
    expect([bob, carol].map((name) => listAt(inboxOf(home, name))[0]?.['to_alias'])).toEqual(['bob#dev', 'carol#dev']);
    await opened.close();
  });

  it('a send that was answered leaves nothing but the inbox and the locks', async () => {
    const home = temporaryHome();
    const opened = await openBrokerHome(home);
    await opened.mailboxes.put(anEntry());
    await take(opened, await opened.mailboxes.ids(bob));
    const files = (readdirSync(home, { recursive: true }) as string[]).filter((name) => !name.startsWith('ledger.db'));
    expect(files.filter((name) => !name.endsWith('.lock')).toSorted()).toEqual([
      'archive',
      'archive/session-of-bob.jsonl',
      'held',
      'session-of-bob.inbox.json',
    ]);
    expect(readFileSync(inboxOf(home, bob), 'utf8')).toBe('[]');
    await opened.close();
  });
});

describe('in a broker directory on a full disk', () => {
  const disk = new TinyDisk();
  afterAll(() => disk.close());
  const why = disk.why && ` (skipped: ${disk.why})`;
  const onTinyDisk = disk.isExpected ? it : it.skip;

  onTinyDisk(`a send is refused in one line, and nothing that was stored is lost${why}`, async () => {
    const home = disk.home('full');
    const opened = await openBrokerHome(home);
    const body = 'x'.repeat(20_000);
    const stored: MessageId[] = [];
    for (let n = 0; n < 5; n += 1) stored.push((await opened.mailboxes.put(anEntry({ body }))).message.id);
    const refusals: string[] = [];
    // Every amount of free space from none upwards, so that each step in turn is the one that finds the disk full.
    for (let free = 0; free <= 60; free += 3) {
      disk.fill(free * 4096, home);
      try {
        stored.push((await opened.mailboxes.put(anEntry({ body }))).message.id);
      } catch (error) {
        refusals.push((error as { code: string }).code);
        expect((error as Error).message).toMatch(/no space left.*nothing was stored/);
      }
    }
    expect(refusals.length).toBeGreaterThan(3);
    expect(new Set(refusals)).toEqual(new Set(['storage_failed']));
    expect(stored.length).toBeGreaterThan(8);
    disk.empty();
    await opened.mailboxes.heal();
    const waiting = await opened.mailboxes.peek(bob);
    expect(waiting.map(({ message }) => message.id).toSorted()).toEqual(stored.toSorted());
    expect(readdirSync(home).filter((name) => name.includes('.tmp.'))).toEqual([]);
    await opened.close();
  });

  onTinyDisk(`a take may be refused, and the messages wait on${why}`, async () => {
    const home = disk.home('take');
    const opened = await openBrokerHome(home);
    const body = 'x'.repeat(20_000);
    const ids: MessageId[] = [];
    for (let n = 0; n < 5; n += 1) ids.push((await opened.mailboxes.put(anEntry({ body }))).message.id);
    const taken: MessageId[] = [];
    for (let free = 0; free <= 90; free += 3) {
      disk.fill(free * 4096, home);
      taken.push(
        ...(await take(opened, ids).catch((error: { code: string }) => {
          expect(error.code).toBe('storage_failed');
          return [];
        })),
      );
    }
    disk.empty();
    await opened.close();
    const again = await openBrokerHome(home, { now: () => Date.now() + LEASE.ms });
    await again.mailboxes.adopt(bob);
    expect([...taken, ...(await take(again, ids))].toSorted()).toEqual(ids.toSorted());
    await again.close();
  });
});
