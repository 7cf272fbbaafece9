import { openRelayRooms } from '../protocols/backchannel/relay-rooms.ts';
import { lazyHome } from '../store/home.ts';
import { ExportedMaildir as LateMaildir } from '../store/maildir/exported-maildir.ts';
import { describe, expect, it } from 'bun:test';
import { mkdirSync, readdirSync, readlinkSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../test/support/home.ts';
import { LOUD, aMessage, anEntry, bob } from '../../test/support/mail.ts';
import { within } from '../../test/support/within.ts';
import type { RoomId } from '../core/names.ts';
import { hashOf } from '../wire/tokens.ts';
import { FilesDirectory } from '../store/directory/files.ts';

async function relayRooms(afterDeath = false, root = temporaryHome()) {
  const troubles: string[] = [];
  const relay = await openRelayRooms({
    root,
    durability: 'normal',
    defaultTokenHash: null,
    afterDeath,
    onTrouble: (room, error) => troubles.push(`${room}: ${error instanceof Error ? error.message : String(error)}`),
  });
  return { root, relay, troubles };
}

/** How many files of this folder we have open. */
function openFiles(root: string): number {
  return readdirSync('/proc/self/fd').filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).startsWith(root);
    } catch {
      return false;
    }
  }).length;
}

const aCopy = () => ({ message: aMessage(), copies: [{ mailbox: bob, attention: LOUD }] });

describe('the rooms of a relay', () => {
  it('have no open file before their mail is needed, and none after they are closed', async () => {
    const { root, relay } = await relayRooms();
    const before = openFiles(root);
    const rooms: RoomId[] = [];
    for (let n = 0; n < 10; n += 1) rooms.push((await relay.rooms.create()).roomId);
    for (const id of rooms) expect(await relay.home(id).directory.byToken(hashOf('garbage'))).toBeNull();
    expect(openFiles(root)).toBe(before);
    for (const id of rooms) await relay.home(id).mailboxes.put(aCopy());
    expect(openFiles(root)).toBeGreaterThan(before + 10);
    for (const id of rooms) await relay.closeHome(id);
    expect(openFiles(root)).toBe(before);
    // What was accepted has its file, and is there for anyone who comes next.
    for (const id of rooms) {
      expect(readdirSync(`${relay.rooms.root(id)}/spool/bob/new`)).toHaveLength(1);
      expect(await relay.home(id).mailboxes.peek(bob)).toHaveLength(1);
    }
    await relay.close();
    expect(openFiles(root)).toBe(0);
  });

  it('are closed again after what a dead relay left there is finished', async () => {
    const first = await relayRooms();
    const { roomId } = await first.relay.rooms.create();
    await first.relay.home(roomId).mailboxes.put(aCopy());
    await first.relay.close();
    const { root, relay } = await relayRooms(true, first.root);
    expect(openFiles(`${root}/rooms`)).toBe(0);
    await relay.close();
  });

  it('report a failure that no caller waits for', async () => {
    const { relay, troubles } = await relayRooms();
    const { roomId } = await relay.rooms.create();
    // A file stands where bob's mail should be filed.
    mkdirSync(`${relay.rooms.root(roomId)}/spool`, { recursive: true });
    writeFileSync(`${relay.rooms.root(roomId)}/spool/bob`, '');
    await relay.home(roomId).mailboxes.put(aCopy());
    await within(20_000, async () => troubles.length > 0);
    expect(troubles[0]).toStartWith(`${roomId}: `);
    expect(troubles.join()).not.toContain('hello');
    await relay.close();
  });
});

it('a home whose spool cannot finish is closed all the same, and can be opened again', async () => {
  const root = temporaryHome();
  let isFull = true;
  const open = () =>
    lazyHome('bch', root, 'normal', new FilesDirectory(root, Date.now), (parts) => {
      const spool = new LateMaildir(parts);
      const flush = spool.flush.bind(spool);
      spool.flush = () => (isFull ? Promise.reject(new Error('no room')) : flush());
      return spool;
    });
  const first = open();
  await first.home.mailboxes.heal();
  expect(await first.close().catch(String)).toContain('no room');
  isFull = false;
  const second = open();
  await second.home.mailboxes.heal();
  // The first holds nothing any more: here files are written again.
  await second.home.mailboxes.put(anEntry());
  await second.home.mailboxes.flush();
  expect(readdirSync(`${root}/spool/bob/new`)).toHaveLength(1);
  await second.close();
});
