import { describe, expect, it } from 'bun:test';
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { itWithScripts, startScript } from '../../../test/support/c2c-python.ts';
import { temporaryHome } from '../../../test/support/home.ts';
import { within } from '../../../test/support/within.ts';
import { withLock, withLockBehind } from './lock.ts';

/** An inbox with its lock, as scripts name them. */
function aPlace(): { inbox: string; lock: string } {
  const root = temporaryHome();
  return { inbox: `${root}/s.inbox.json`, lock: `${root}/s.inbox.lock` };
}

/** Asked while we hold a lock, so it must not need our event loop. */
function isFreeForScripts(lock: string): boolean {
  const script =
    'import fcntl,sys\nf=open(sys.argv[1],"w")\ntry: fcntl.lockf(f,fcntl.LOCK_EX|fcntl.LOCK_NB)\nexcept OSError: sys.exit(7)';
  return Bun.spawnSync(['python3', '-c', script, lock]).exitCode === 0;
}

describe('a lock of the broker', () => {
  itWithScripts('keeps out a script that uses lockf, and lets it in afterwards [C2C-3]', () => {
    const { lock } = aPlace();
    expect(withLock(lock, () => isFreeForScripts(lock))).toBe(false);
    expect(isFreeForScripts(lock)).toBe(true);
  });

  itWithScripts('waits for a script that holds it [C2C-3]', async () => {
    const { inbox, lock } = aPlace();
    const script = startScript('hold', inbox);
    await script.ready;
    script.go();
    const ours = withLock(lock, () => Date.now() / 1000);
    const released = (await script.told).find((fact) => 'released' in fact)?.['released'] as number;
    expect(ours).toBeGreaterThanOrEqual(released - 0.001);
  });

  itWithScripts('goes on waiting when a signal comes in between', async () => {
    const { inbox, lock } = aPlace();
    const script = startScript('hold', inbox);
    await script.ready;
    const program = `import { withLock } from '${import.meta.dir}/lock.ts';
      process.on('SIGUSR2', () => {});
      console.log('waiting');
      withLock(${JSON.stringify(lock)}, () => console.log('had it'));
      process.exit(0);`;
    const child = Bun.spawn([process.execPath, '-e', program], { stdout: 'pipe' });
    const heard = new Response(child.stdout).text();
    // Until the kernel says that it waits for a lock.
    await within(20_000, async () => readFileSync('/proc/locks', 'utf8').includes(` ${child.pid} `));
    for (let n = 0; n < 5; n += 1) child.kill('SIGUSR2');
    script.go();
    expect(await heard).toBe('waiting\nhad it\n');
    await script.told;
  });

  itWithScripts('is free as soon as a script dies that holds it', async () => {
    const { inbox, lock } = aPlace();
    const script = startScript('hold', inbox);
    await script.ready;
    script.kill();
    expect(withLock(lock, () => 'ours')).toBe('ours');
    await script.told;
  });

  itWithScripts('is never taken twice by one process, under whatever path, and survives the attempt', () => {
    const { lock } = aPlace();
    const other = `${temporaryHome()}/way`;
    symlinkSync(lock.slice(0, lock.lastIndexOf('/')), other);
    withLock(lock, () => {
      expect(() => withLock(lock, () => {})).toThrow('do not nest');
      expect(() => withLock(`${other}/s.inbox.lock`, () => {})).toThrow('do not nest');
      expect(isFreeForScripts(lock)).toBe(false);
    });
    expect(withLock(lock, () => 'free again')).toBe('free again');
  });

  itWithScripts('is let go of when the act fails', () => {
    const { lock } = aPlace();
    expect(() =>
      withLock(lock, () => {
        throw new Error('it failed');
      }),
    ).toThrow('it failed');
    expect(isFreeForScripts(lock)).toBe(true);
  });

  itWithScripts('can be found behind another, which is then free again', () => {
    const { lock } = aPlace();
    const gate = `${lock}.gate`;
    withLockBehind(
      gate,
      () => {
        expect(isFreeForScripts(gate)).toBe(false);
        return lock;
      },
      (path) => {
        expect([path, isFreeForScripts(gate), isFreeForScripts(lock)]).toEqual([lock, true, false]);
      },
    );
    expect([isFreeForScripts(gate), isFreeForScripts(lock)]).toEqual([true, true]);
  });

  it('follows no link, waits for no pipe, and says what to do', () => {
    const { lock } = aPlace();
    const target = `${lock}.target`;
    writeFileSync(target, 'untouched');
    symlinkSync(target, `${lock}.link`);
    Bun.spawnSync(['mkfifo', `${lock}.pipe`]);
    mkdirSync(`${lock}.folder`);
    for (const odd of ['link', 'pipe', 'folder']) {
      expect(() => withLock(`${lock}.${odd}`, () => {})).toThrow('is not a plain file');
    }
    expect(readFileSync(target, 'utf8')).toBe('untouched');
  });
});
