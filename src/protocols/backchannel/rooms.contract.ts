import { afterEach, beforeEach, describe, expect, it } from 'bun:test';
import { RoomId } from '../../core/names.ts';
import { hashOf } from '../../wire/tokens.ts';
import { DEFAULT_ROOM } from './rooms.ts';
import type { Rooms } from './rooms.ts';

export interface OpenRooms {
  rooms: Rooms;
  close(): Promise<void>;
}

/** The contract of `Rooms`. Each sentence of its comments is a test here. */
export function roomsContract(name: string, open: (defaultTokenHash: string | null) => Promise<OpenRooms>): void {
  describe(`the ${name} rooms`, () => {
    let here: OpenRooms;
    let rooms: Rooms;
    beforeEach(async () => {
      here = await open(null);
      ({ rooms } = here);
    });
    afterEach(() => here.close());

    it('have a default room from the start, which is open if it has no token', async () => {
      expect(await rooms.list()).toEqual([DEFAULT_ROOM]);
      expect(await rooms.tokenHash(DEFAULT_ROOM)).toBeNull();
    });

    it('admit to the default room by the token that the relay was given', async () => {
      const guarded = await open(hashOf('secret'));
      expect(await guarded.rooms.tokenHash(DEFAULT_ROOM)).toBe(hashOf('secret'));
      await guarded.close();
    });

    it('are made with an id and a token of their own, of which only the hash is kept [BC-B5.21]', async () => {
      const { roomId, roomToken } = await rooms.create();
      expect(roomId).toMatch(/^[A-Za-z0-9_-]{8}$/);
      expect(roomToken).toMatch(/^[A-Za-z0-9_-]{32}$/);
      expect(await rooms.tokenHash(roomId)).toBe(hashOf(roomToken));
      expect(await rooms.list()).toEqual([roomId, DEFAULT_ROOM].sort());
    });

    it('are all different, however many are made at once', async () => {
      const made = await Promise.all(Array.from({ length: 50 }, () => rooms.create()));
      expect(new Set(made.map(({ roomId }) => rooms.root(roomId))).size).toBe(50);
      expect(new Set(made.map(({ roomToken }) => roomToken)).size).toBe(50);
      expect(await rooms.list()).toHaveLength(51);
      expect(rooms.root(DEFAULT_ROOM)).not.toBe(rooms.root(made[0]?.roomId ?? DEFAULT_ROOM));
    });

    it('are not there until they are made', async () => {
      expect(await rooms.tokenHash(RoomId.parse('nowhere'))).toBeUndefined();
      expect(await rooms.list()).toEqual([DEFAULT_ROOM]);
    });
  });
}
