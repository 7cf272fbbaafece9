// One bad file never stops a mailbox.
import { describe, expect, it } from 'bun:test';
import { lutimesSync, mkdirSync, readdirSync, symlinkSync, truncateSync, utimesSync, writeFileSync } from 'node:fs';
import { Program } from '../support/program.ts';

const LONG_AGO = new Date(Date.now() - 60_000);
const idOf = (n: number): string => `${String(n).padStart(8, '0')}-1111-4111-8111-111111111111`;
const message = (id: string, more: string): string =>
  `{"id":"${id}","from":"x","to":"bob","body":"odd","priority":"normal","ts":"2026-01-01T00:00:00Z",${more}}`;
const deep = `${'['.repeat(50_000)}${']'.repeat(50_000)}`;

/** Each leaves something at a path where a message should be; false if this machine does not allow it. */
const ODDITIES: Record<string, (path: string, id: string) => boolean> = {
  'JSON of 50,000 levels': (path, id) => done(() => writeFileSync(path, message(id, `"x":${deep}`))),
  'our own fields of 50,000 levels': (path, id) =>
    done(() => writeFileSync(path, message(id, `"parley":{"v":1,"x":${deep}}`))),
  'a sparse file of 6 GB': (path) =>
    done(() => {
      writeFileSync(path, '');
      truncateSync(path, 6 * 1024 ** 3);
    }),
  'a loop of links': (path) => done(() => symlinkSync(path, path)),
  'a link to a device': (path) => done(() => symlinkSync('/dev/zero', path)),
  'a folder': (path) => done(() => mkdirSync(path)),
  'a pipe': (path) => Bun.spawnSync(['mkfifo', path]).success,
  'a device without end': (path) => Bun.spawnSync(['mknod', path, 'c', '1', '5']).success,
};

function done(act: () => void): boolean {
  act();
  return true;
}

/** A mailbox with a good message and one of each oddity, all of them older than what may still be written. */
async function mailbox(): Promise<{ parley: Program; odd: number }> {
  const parley = await new Program().init('alice', 'bob');
  await parley.run(['send', '@bob', 'the good one'], { as: 'alice' });
  const folder = `${parley.home}/.parley/spool/bob/new`;
  let odd = 0;
  for (const [at, leave] of Object.values(ODDITIES).entries()) {
    const path = `${folder}/${idOf(at + 1)}.json`;
    if (!leave(path, idOf(at + 1))) continue;
    odd += 1;
    try {
      lutimesSync(path, LONG_AGO, LONG_AGO);
    } catch {
      utimesSync(path, LONG_AGO, LONG_AGO);
    }
  }
  return { parley, odd };
}

const EVENT = JSON.stringify({ hook_event_name: 'UserPromptSubmit', session_id: 'odd', prompt: 'go on' });

describe('a mailbox with files in it that are no messages', () => {
  it.each([
    ['inbox', ['inbox'], ''],
    ['take', ['take'], ''],
    ['drain', ['drain'], ''],
    ['hook', ['hook', 'claude', '--as', 'bob'], EVENT],
  ])('is read by %s, and doctor names them', async (_name, args, stdin) => {
    const { parley, odd } = await mailbox();
    const run = await parley.run(args, { as: 'bob', stdin });
    expect(run.code).toBe(0);
    expect(run.out).toContain('the good one');
    expect(run.out).not.toContain('odd\n');
    const aside = readdirSync(`${parley.home}/.parley/aside/bob`);
    expect(aside).toHaveLength(odd);
    expect((await parley.run(['doctor'])).out).toContain(`${odd} files are set aside`);
  });

  it('loses them to `prune --asides` and nothing else', async () => {
    const { parley } = await mailbox();
    await parley.run(['inbox'], { as: 'bob' });
    expect((await parley.run(['prune', '--asides'])).code).toBe(0);
    expect((await parley.run(['doctor'])).out).toContain('no mail is set aside');
    expect((await parley.run(['drain'], { as: 'bob' })).out).toContain('the good one');
  });

  it('keeps of a message only the fields that we know', async () => {
    const parley = await new Program().init('bob');
    const path = `${parley.home}/.parley/spool/bob/new/${idOf(1)}.json`;
    writeFileSync(path, message(idOf(1), '"colour":"red","body":"with a colour"'));
    const [told] = await parley.json<Record<string, unknown>[]>(['drain'], { as: 'bob' });
    expect(told).toMatchObject({ body: 'with a colour' });
    expect(told).not.toHaveProperty('colour');
  });

  it('has a reader whose record is fine, whatever stands in the place of another record', async () => {
    const { parley } = await mailbox();
    const record = `${parley.home}/.parley/agents/carol.json`;
    writeFileSync(
      record,
      `{"name":"carol","kind":"agent","subscriptions":[],"lastSeen":"2026-01-01T00:00:00Z","x":${deep}}`,
    );
    symlinkSync('/dev/zero', `${parley.home}/.parley/agents/dave.json`);
    expect((await parley.run(['agents'])).out).toContain('bob');
    expect((await parley.run(['send', '@bob', 'still'], { as: 'alice' })).code).toBe(0);
    expect((await parley.run(['doctor'])).out).toContain('carol.json cannot be read');
  });
});
