// Mail that is stored, waits, and would not be seen: each command that looks must see it, or say what stands in its way.
import { describe, expect, it } from 'bun:test';
import { spawnSync } from 'node:child_process';
import { chmodSync, chownSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { MessageId } from '../../src/core/names.ts';
import { bob } from '../support/mail.ts';
import { openHome } from '../support/maildir.ts';
import { PARLEY, Program } from '../support/program.ts';

const NOBODY = 65_534;

interface Findings {
  findings: { level: string; what: string; next?: string }[];
}

describe('a message in a hand that nobody has', () => {
  /** A reader came to its rename when its time was over: the file stands in held/, and by its row it waits. */
  async function stuck(): Promise<{ parley: Program; id: MessageId; held: () => string[] }> {
    const parley = await new Program().init('alice', 'bob');
    const root = `${parley.home}/.parley`;
    const { id } = await parley.json<{ id: MessageId }>(['send', '@bob', 'do not lose me']);
    const { mailboxes, journal, close } = await openHome(root);
    const { owner } = await mailboxes.claim(bob, [id], { ms: 30_000 });
    await journal.release(bob, owner, [id], null, { because: 'test' });
    await close();
    const held = (): string[] => readdirSync(`${root}/spool/bob/held`);
    expect(held()).toEqual([`${id}.json`]);
    return { parley, id, held };
  }

  it('is in the inbox of its reader', async () => {
    const { parley, id, held } = await stuck();
    expect(await parley.json<object[]>(['inbox'], { as: 'bob' })).toMatchObject([{ id, body: 'do not lose me' }]);
    expect(held()).toEqual([]);
  });

  it('is said by the first hook that looks, once', async () => {
    const { parley, held } = await stuck();
    const event = { session_id: 's1', cwd: parley.home, hook_event_name: 'PostToolUse', tool_name: 'Bash' };
    const hook = async (): Promise<string> =>
      (await parley.run(['hook', 'claude'], { as: 'bob', stdin: JSON.stringify(event) })).out;
    expect(await hook()).toContain('do not lose me');
    expect(await hook()).toBe('');
    expect(held()).toEqual([]);
  });

  it('is named by doctor, which says what puts it back and moves nothing', async () => {
    const { parley, id, held } = await stuck();
    const inHand = async (): Promise<object[]> =>
      (await parley.json<Findings>(['doctor'])).findings.filter(({ what }) => what.includes('held/'));
    expect(await inHand()).toMatchObject([
      { level: 'warn', what: expect.stringContaining(id.slice(0, 8)), next: '`parley inbox --as bob` puts it back' },
    ]);
    expect(held()).toHaveLength(1);
    await parley.run(['inbox', '--as', 'bob']);
    expect(await inHand()).toEqual([]);
  });

  it('is not spoken of while a reader really holds it', async () => {
    const parley = await new Program().init('alice', 'bob');
    await parley.run(['send', '@bob', 'mine']);
    await parley.run(['take', '--lease', '10m'], { as: 'bob' });
    const { findings } = await parley.json<Findings>(['doctor']);
    expect(findings.filter(({ what }) => what.includes('held/'))).toEqual([]);
  });
});

describe('a message that may not be read', () => {
  /** Root may read everything: then the home is given to a user without rights, and the program runs as that user. */
  function asWhoMayNot(parley: Program, args: string[]): { status: number | null; stdout: string } {
    const isRoot = process.getuid?.() === 0;
    if (isRoot) {
      chmodSync(parley.home, 0o755);
      for (const name of ['', ...(readdirSync(`${parley.home}/.parley`, { recursive: true }) as string[])])
        chownSync(join(parley.home, '.parley', name), NOBODY, NOBODY);
    }
    return spawnSync(PARLEY, [...args], {
      cwd: '/',
      env: parley.env,
      encoding: 'utf8',
      ...(isRoot && { uid: NOBODY, gid: NOBODY }),
    });
  }

  it('is named by doctor with what to do, loud or quiet, and no other is', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'parley-shut-'));
    try {
      const parley = await new Program(folder).init('alice', 'bob');
      const paths: string[] = [];
      for (const [place, ...args] of [
        ['new', 'loud'],
        ['quiet', 'quiet', '--intent', 'status'],
        ['new', 'open'],
      ]) {
        const { id } = await parley.json<{ id: string }>(['send', '@bob', ...args]);
        paths.push(`${folder}/.parley/spool/bob/${place}/${id}.json`);
      }
      const [loud = '', quiet = '', open = ''] = paths;
      for (const path of [loud, quiet]) chmodSync(path, 0);
      const { status, stdout } = asWhoMayNot(parley, ['doctor', '--json']);
      const { findings } = JSON.parse(stdout) as Findings;
      const bad = findings.filter(({ level }) => level === 'bad');
      expect(status).toBe(1);
      expect(bad).toHaveLength(1);
      expect(bad[0]?.what).toStartWith('2 messages wait for @bob and cannot be read (EACCES)');
      for (const path of [loud, quiet]) expect(bad[0]?.what).toContain(path);
      expect(bad[0]?.what).not.toContain(open);
      expect(bad[0]?.next).toContain(`chmod u+rw ${loud}`);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
