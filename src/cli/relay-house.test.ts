import { describe, expect, it } from 'bun:test';
import { mkdirSync, readdirSync, readlinkSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../test/support/home.ts';
import { aMessage, bob, LOUD } from '../../test/support/mail.ts';
import { within } from '../../test/support/within.ts';
import type { RoomId } from '../protocol/names.ts';
import { hashOf } from '../protocol/tokens.ts';
import { openRelayHouse } from './wiring.ts';

async function aHouse(afterDeath = false, root = temporaryHome()) {
  const troubles: string[] = [];
  const house = await openRelayHouse(root, 'normal', null, afterDeath, (room, error) =>
    troubles.push(`${room}: ${error instanceof Error ? error.message : String(error)}`),
  );
  return { root, house, troubles };
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
  it('cost no open file before somebody needs their mail, and none after they are closed', async () => {
    const { root, house } = await aHouse();
    const before = openFiles(root);
    const rooms: RoomId[] = [];
    for (let n = 0; n < 10; n += 1) rooms.push((await house.rooms.create()).roomId);
    for (const id of rooms) expect(await house.home(id).directory.byToken(hashOf('garbage'))).toBeNull();
    expect(openFiles(root)).toBe(before);
    for (const id of rooms) await house.home(id).spool.put(aCopy());
    expect(openFiles(root)).toBeGreaterThan(before + 10);
    for (const id of rooms) await house.closeHome(id);
    expect(openFiles(root)).toBe(before);
    // What was accepted has its file, and is there for whoever comes next.
    for (const id of rooms) {
      expect(readdirSync(`${house.rooms.root(id)}/spool/bob/new`)).toHaveLength(1);
      expect(await house.home(id).spool.peek(bob)).toHaveLength(1);
    }
    await house.close();
    expect(openFiles(root)).toBe(0);
  });

  it('are closed again after what a dead relay left there is finished', async () => {
    const first = await aHouse();
    const { roomId } = await first.house.rooms.create();
    await first.house.home(roomId).spool.put(aCopy());
    await first.house.close();
    const { root, house } = await aHouse(true, first.root);
    expect(openFiles(`${root}/rooms`)).toBe(0);
    await house.close();
  });

  it('tell of trouble that nobody waits for', async () => {
    const { house, troubles } = await aHouse();
    const { roomId } = await house.rooms.create();
    // A file stands where bob's mail should be filed.
    mkdirSync(`${house.rooms.root(roomId)}/spool`, { recursive: true });
    writeFileSync(`${house.rooms.root(roomId)}/spool/bob`, '');
    await house.home(roomId).spool.put(aCopy());
    await within(20_000, async () => troubles.length > 0);
    expect(troubles[0]).toStartWith(`${roomId}: `);
    expect(troubles.join()).not.toContain('hello');
    await house.close();
  });
});
