import { beforeEach, describe, expect, it } from 'bun:test';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { within } from '../../../test/support/within.ts';
import { RoomId } from '../../core/names.ts';
import { hashOf } from '../../wire/tokens.ts';
import { FilesRooms, DEFAULT_ROOM } from './rooms.ts';
import { roomsContract } from './rooms.contract.ts';

roomsContract('files', async (defaultTokenHash) => ({
  rooms: new FilesRooms(temporaryHome(), { defaultTokenHash }),
  close: async () => {},
}));

describe('the files rooms, beyond the contract,', () => {
  let home: string;
  beforeEach(() => {
    home = temporaryHome();
  });
  function open(defaultTokenHash: string | null = null): FilesRooms {
    return new FilesRooms(home, { defaultTokenHash });
  }
  function plant(id: string, text: string): RoomId {
    mkdirSync(`${home}/rooms/${id}`, { recursive: true });
    writeFileSync(`${home}/rooms/${id}/room.json`, text);
    return RoomId.parse(id);
  }

  it('make no folder by being asked for a room [BC-C4]', async () => {
    const rooms = open();
    expect(await rooms.tokenHash(RoomId.parse('nowhere'))).toBeUndefined();
    expect(await rooms.tokenHash(DEFAULT_ROOM)).toBeNull();
    expect(rooms.root(RoomId.parse('nowhere'))).toBe(`${home}/rooms/nowhere`);
    expect(await rooms.list()).toEqual([DEFAULT_ROOM]);
    expect(readdirSync(home)).toEqual([]);
  });

  it('write room.json as the original does, for their owner only', async () => {
    const { roomId, roomToken } = await open().create();
    const path = `${home}/rooms/${roomId}/room.json`;
    const record = JSON.parse(readFileSync(path, 'utf8'));
    expect(record).toEqual({ tokenHash: hashOf(roomToken), createdAt: expect.stringMatching(/^\d{4}-.*Z$/) });
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(statSync(`${home}/rooms/${roomId}`).mode & 0o777).toBe(0o700);
    expect(statSync(`${home}/rooms`).mode & 0o777).toBe(0o700);
    expect(readdirSync(`${home}/rooms/${roomId}`)).toEqual(['room.json']);
  });

  it('know a room that the original made', async () => {
    const id = plant('aB3_-x9Z', JSON.stringify({ tokenHash: hashOf('t'), createdAt: 'then' }));
    expect(await open().tokenHash(id)).toBe(hashOf('t'));
  });

  it('have the default room in the home itself, unless an original relay has made a folder for it', async () => {
    expect(open().root(DEFAULT_ROOM)).toBe(home);
    mkdirSync(`${home}/rooms/default`, { recursive: true });
    expect(open().root(DEFAULT_ROOM)).toBe(`${home}/rooms/default`);
    expect(await open().tokenHash(DEFAULT_ROOM)).toBeNull();
    expect(await open().list()).toEqual([DEFAULT_ROOM]);
  });

  it('do not move the default room while a relay runs', () => {
    const rooms = open();
    mkdirSync(`${home}/rooms/default`, { recursive: true });
    expect(rooms.root(DEFAULT_ROOM)).toBe(home);
  });

  it('guard the default room by a token that stands in its folder, if the relay was given none', async () => {
    plant('default', JSON.stringify({ tokenHash: hashOf('t') }));
    expect(await open().tokenHash(DEFAULT_ROOM)).toBe(hashOf('t'));
    expect(await open(hashOf('given')).tokenHash(DEFAULT_ROOM)).toBe(hashOf('given'));
  });

  it.each([
    ['half a record', '{"tokenHash": "ab'],
    ['an empty file', ''],
    ['no token', '{}'],
    ['null as a token', '{"tokenHash": null}'],
    ['an empty token', '{"tokenHash": ""}'],
    ['a number as a token', '{"tokenHash": 7}'],
    ['null', 'null'],
  ])('admit nobody to a room whose record is %s, and hide no other', async (_what, text) => {
    const id = plant('broken', text);
    const other = plant('other', JSON.stringify({ tokenHash: hashOf('t') }));
    expect(await open().tokenHash(id)).toBe('');
    expect(await open().tokenHash(other)).toBe(hashOf('t'));
    expect(await open().list()).toEqual([id, DEFAULT_ROOM, other].sort());
  });

  it('admit nobody to the default room either, if its record cannot be read', async () => {
    plant('default', '{ half');
    expect(await open().tokenHash(DEFAULT_ROOM)).toBe('');
  });

  it('neither hang on a pipe nor fail on a folder in place of a record', async () => {
    mkdirSync(`${home}/rooms/folder/room.json`, { recursive: true });
    mkdirSync(`${home}/rooms/pipe`);
    Bun.spawnSync(['mkfifo', `${home}/rooms/pipe/room.json`]);
    for (const id of ['folder', 'pipe']) expect(await open().tokenHash(RoomId.parse(id))).toBe('');
  });

  it('have no room without a room.json, and none whose folder is no room’s name', async () => {
    mkdirSync(`${home}/rooms/empty`, { recursive: true });
    mkdirSync(`${home}/rooms/a b`);
    writeFileSync(`${home}/rooms/file`, '');
    for (const id of ['empty', 'file']) expect(await open().tokenHash(RoomId.parse(id))).toBeUndefined();
    expect(await open().list()).toEqual([DEFAULT_ROOM]);
  });

  it('see that a room was removed or given another token', async () => {
    const rooms = open();
    const { roomId } = await rooms.create();
    expect(await rooms.tokenHash(roomId)).toHaveLength(64);
    plant(roomId, JSON.stringify({ tokenHash: hashOf('another') }));
    await within(20_000, async () => (await rooms.tokenHash(roomId)) === hashOf('another'));
    rmSync(`${home}/rooms/${roomId}`, { recursive: true });
    await within(20_000, async () => (await rooms.tokenHash(roomId)) === undefined);
    expect(existsSync(`${home}/rooms/${roomId}`)).toBe(false);
  });

  it('refuse in one line where no room can be made', async () => {
    writeFileSync(`${home}/rooms`, '');
    await expect(open().create()).rejects.toMatchObject({ code: 'storage_failed' });
  });
});
