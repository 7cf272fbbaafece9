import { describe, expect, it } from 'bun:test';
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../test/support/home.ts';
import { goOnDuty, whoIsOnDuty } from './daemon-lock.ts';

// The first home clears away what earlier runs left, which can take long: not on a test's time.
temporaryHome();

describe('being on duty', () => {
  it('is for one at a time', async () => {
    const duty = `${temporaryHome()}/daemon`;
    const first = await goOnDuty(duty);
    first?.announce([{ name: 'relay', address: 'http://127.0.0.1:1/' }]);
    expect(await goOnDuty(duty)).toBeNull();
    expect(whoIsOnDuty(duty)).toMatchObject({ pid: process.pid, doors: [{ address: 'http://127.0.0.1:1/' }] });
    first?.leave();
    expect(whoIsOnDuty(duty)).toBeNull();
    const second = await goOnDuty(duty);
    expect(second).not.toBeNull();
    second?.leave();
  });

  it('is noted for the owner only, and the note goes with its writer', async () => {
    const duty = `${temporaryHome()}/made/for/it/daemon`;
    const held = await goOnDuty(duty);
    expect(statSync(`${duty}.json`).mode & 0o777).toBe(0o600);
    expect(statSync(`${duty}.lock`).mode & 0o777).toBe(0o600);
    held?.finishing('requests in hand');
    expect(whoIsOnDuty(duty)?.finishing).toBe('requests in hand');
    held?.leave();
    expect(existsSync(`${duty}.json`)).toBe(false);
  });

  it('is not hindered by what a dead one left', async () => {
    const duty = `${temporaryHome()}/daemon`;
    const own = await goOnDuty(duty);
    const notice = JSON.parse(readFileSync(`${duty}.json`, 'utf8')) as { holder: string };
    own?.leave();
    const [boot, space, pid] = notice.holder.split('.');
    // The same pid, but another process: it started at another time.
    writeFileSync(`${duty}.json`, JSON.stringify({ ...notice, holder: `${boot}.${space}.${pid}.1.x` }));
    expect(whoIsOnDuty(duty)).toBeNull();
    writeFileSync(`${duty}.json`, '{"half":');
    expect(whoIsOnDuty(duty)).toBeNull();
    const next = await goOnDuty(duty);
    expect(next?.afterDeath).toBe(true);
    next?.leave();
    const after = await goOnDuty(duty);
    expect(after?.afterDeath).toBe(false);
    after?.leave();
  });

  it('of somebody whose processes cannot be seen from here is known by the lock', async () => {
    const duty = `${temporaryHome()}/daemon`;
    const held = await goOnDuty(duty);
    const notice = JSON.parse(readFileSync(`${duty}.json`, 'utf8')) as { holder: string };
    const [boot, , pid, start] = notice.holder.split('.');
    writeFileSync(`${duty}.json`, JSON.stringify({ ...notice, holder: `${boot}.elsewhere.${pid}.${start}.x` }));
    expect(whoIsOnDuty(duty)).not.toBeNull();
    held?.leave();
    writeFileSync(`${duty}.json`, JSON.stringify({ ...notice, holder: `${boot}.elsewhere.${pid}.${start}.x` }));
    expect(whoIsOnDuty(duty)).toBeNull();
  });
});
