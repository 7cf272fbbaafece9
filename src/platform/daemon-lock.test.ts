import { describe, expect, it } from 'bun:test';
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../test/support/home.ts';
import { takeDaemonLock, daemonNotice } from './daemon-lock.ts';

// The first home deletes what earlier runs left, which can take long: do it outside a test's time limit.
temporaryHome();

describe('the lock of a daemon', () => {
  it('can be held by one process at a time', async () => {
    const path = `${temporaryHome()}/daemon`;
    const first = await takeDaemonLock(path);
    first?.announce([{ name: 'relay', address: 'http://127.0.0.1:1/' }]);
    expect(await takeDaemonLock(path)).toBeNull();
    expect(daemonNotice(path)).toMatchObject({ pid: process.pid, doors: [{ address: 'http://127.0.0.1:1/' }] });
    first?.release();
    expect(daemonNotice(path)).toBeNull();
    const second = await takeDaemonLock(path);
    expect(second).not.toBeNull();
    second?.release();
  });

  it('has a notice that only the owner can read, and that is removed with the lock', async () => {
    const path = `${temporaryHome()}/made/for/it/daemon`;
    const held = await takeDaemonLock(path);
    expect(statSync(`${path}.json`).mode & 0o777).toBe(0o600);
    expect(statSync(`${path}.lock`).mode & 0o777).toBe(0o600);
    held?.finishing('open requests');
    expect(daemonNotice(path)?.finishing).toBe('open requests');
    held?.release();
    expect(existsSync(`${path}.json`)).toBe(false);
  });

  it('can be taken after its holder died', async () => {
    const path = `${temporaryHome()}/daemon`;
    const own = await takeDaemonLock(path);
    const notice = JSON.parse(readFileSync(`${path}.json`, 'utf8')) as { holder: string };
    own?.release();
    const [boot, space, pid] = notice.holder.split('.');
    // The same pid, but another process: it started at another time.
    writeFileSync(`${path}.json`, JSON.stringify({ ...notice, holder: `${boot}.${space}.${pid}.1.x` }));
    expect(daemonNotice(path)).toBeNull();
    writeFileSync(`${path}.json`, '{"half":');
    expect(daemonNotice(path)).toBeNull();
    const next = await takeDaemonLock(path);
    expect(next?.afterDeath).toBe(true);
    next?.release();
    const after = await takeDaemonLock(path);
    expect(after?.afterDeath).toBe(false);
    after?.release();
  });

  it('is seen as held although the holder’s processes cannot be seen from here', async () => {
    const path = `${temporaryHome()}/daemon`;
    const held = await takeDaemonLock(path);
    const notice = JSON.parse(readFileSync(`${path}.json`, 'utf8')) as { holder: string };
    const [boot, , pid, start] = notice.holder.split('.');
    writeFileSync(`${path}.json`, JSON.stringify({ ...notice, holder: `${boot}.elsewhere.${pid}.${start}.x` }));
    expect(daemonNotice(path)).not.toBeNull();
    held?.release();
    writeFileSync(`${path}.json`, JSON.stringify({ ...notice, holder: `${boot}.elsewhere.${pid}.${start}.x` }));
    expect(daemonNotice(path)).toBeNull();
  });
});
