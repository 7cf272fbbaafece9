// A disk without a byte left: reading frees space, so it must go on.
import { afterAll, describe, expect, it } from 'bun:test';
import {
  closeSync,
  existsSync,
  openSync,
  readdirSync,
  rmSync,
  statfsSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { temporaryHome } from '../support/home.ts';
import { Program } from '../support/program.ts';

const SIZE = '4m';
const mounts: string[] = [];

/** A small disk of its own; null where we may not mount one. */
function smallDisk(): string | null {
  const place = temporaryHome();
  const done = Bun.spawnSync(['mount', '-t', 'tmpfs', '-o', `size=${SIZE}`, 'tmpfs', place]);
  if (!done.success) return null;
  mounts.push(place);
  return place;
}

const canMount = process.platform === 'linux' && process.getuid?.() === 0 && tried();
function tried(): boolean {
  try {
    return smallDisk() !== null;
  } catch {
    return false;
  }
}

afterAll(() => {
  for (const place of mounts) Bun.spawnSync(['umount', place]);
});

/** Fills the disk to the last byte, as another program might. */
function fill(disk: string): string {
  const path = `${disk}/other-program`;
  const fd = openSync(path, 'a');
  try {
    for (const size of [65_536, 4096, 512, 1]) {
      const piece = new Uint8Array(size);
      try {
        for (;;) writeSync(fd, piece);
      } catch {
        // Full for pieces of this size.
      }
    }
  } finally {
    closeSync(fd);
  }
  expect(statfsSync(disk).bavail).toBe(0);
  return path;
}

async function fullHome(letters: number): Promise<{ parley: Program; disk: string }> {
  const disk = smallDisk();
  if (disk === null) throw new Error('no disk of its own');
  const parley = await new Program(disk).init('alice', 'bob');
  for (let n = 0; n < letters; n += 1) await parley.run(['send', '@bob', `letter ${n}`], { as: 'alice' });
  fill(disk);
  return { parley, disk };
}

const on = canMount ? it : it.skip;
const why = canMount ? '' : ' (skipped: no disk can be mounted here)';
const EVENT = { hook_event_name: 'UserPromptSubmit', session_id: 'full-disk', prompt: 'go on' };

describe('on a full disk', () => {
  on(`inbox, take and drain work${why}`, async () => {
    const { parley } = await fullHome(3);
    expect((await parley.run(['inbox'], { as: 'bob' })).out).toContain('letter 2');
    const taken = await parley.run(['take'], { as: 'bob' });
    expect(taken).toMatchObject({ code: 0, err: '' });
    expect(taken.out).toContain('letter 0');
    const drained = await parley.run(['drain'], { as: 'bob' });
    expect(drained).toMatchObject({ code: 0, err: '' });
    expect(drained.out).toContain('letter 1');
    expect(drained.out).toContain('letter 2');
    expect((await parley.run(['drain'], { as: 'bob' })).out).toBe('nothing waits for you here\n');
  });

  on(`a hook says what waits${why}`, async () => {
    const { parley } = await fullHome(1);
    const said = await parley.run(['hook', 'claude', '--as', 'bob'], { stdin: JSON.stringify(EVENT) });
    expect(said.code).toBe(0);
    expect(said.out).toContain('letter 0');
  });

  on(`c2c gives out what waits${why}`, async () => {
    const disk = smallDisk() ?? '';
    const c2c = (session: string, args: string[]) =>
      new Program(disk, { C2C_MCP_BROKER_ROOT: `${disk}/broker`, C2C_MCP_SESSION_ID: session }).run(args, {
        name: 'c2c',
      });
    for (const name of ['alice', 'bob']) await c2c(`s-${name}`, ['register', name]);
    for (let n = 0; n < 3; n += 1) await c2c('s-alice', ['send', 'bob', `letter ${n}`]);
    fill(disk);
    const polled = await c2c('s-bob', ['poll-inbox']);
    expect(polled).toMatchObject({ code: 0, err: '' });
    expect(polled.out).toContain('letter 2');
    expect((await c2c('s-bob', ['poll-inbox'])).out).not.toContain('letter');
  });

  on(`mail that another program left is read${why}`, async () => {
    const { parley, disk } = await fullHome(0);
    rmSync(`${disk}/other-program`);
    for (let n = 0; n < 400; n += 1) {
      const id = `${String(n).padStart(8, '0')}-1111-4111-8111-111111111111`;
      const message = { id, from: 'script', to: '@bob', body: `letter ${n}`, ts: '2026-01-01T00:00:00.000Z' };
      writeFileSync(`${disk}/.parley/spool/bob/new/${id}.json`, JSON.stringify(message));
    }
    fill(disk);
    let read = 0;
    for (let round = 0; round < 50 && read < 400; round += 1) {
      const drained = await parley.run(['drain', '--json'], { as: 'bob' });
      expect(drained).toMatchObject({ code: 0, err: '' });
      read += (JSON.parse(drained.out) as unknown[]).length;
    }
    expect(read).toBe(400);
  });

  on(`a send is refused in one line, and nothing of it is stored${why}`, async () => {
    const { parley, disk } = await fullHome(1);
    const spool = `${disk}/.parley/spool/bob`;
    for (let n = 0; n < 2; n += 1) {
      const refused = await parley.run(['send', '@bob', 'one more'], { as: 'alice' });
      expect(refused).toMatchObject({ code: 74, out: '' });
      expect(refused.err).toMatch(
        /^parley: no space left for .*; nothing was (stored|changed): free some space and run it again\n$/,
      );
    }
    expect(readdirSync(`${spool}/tmp`)).toEqual([]);
    expect(readdirSync(`${spool}/new`)).toHaveLength(1);
    expect((await parley.run(['drain'], { as: 'bob' })).out).not.toContain('one more');
  });

  on(`the room for readers is kept again once there is space${why}`, async () => {
    const { parley, disk } = await fullHome(1);
    const reserve = `${disk}/.parley/ledger.db.reserve`;
    const before = statSync(reserve).size;
    expect((await parley.run(['take'], { as: 'bob' })).code).toBe(0);
    expect(existsSync(reserve) ? statSync(reserve).size : 0).toBeLessThan(before);
    rmSync(`${disk}/other-program`);
    expect((await parley.run(['send', '@bob', 'there is room'], { as: 'alice' })).code).toBe(0);
    expect(statSync(reserve).size).toBe(before);
  });
});
