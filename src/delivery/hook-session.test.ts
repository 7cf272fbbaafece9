import { beforeEach, describe, expect, it } from 'bun:test';
import { existsSync, mkdirSync, readdirSync, readlinkSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../test/support/home.ts';
import { bob } from '../../test/support/mail.ts';
import { forgetOldSessions, HookSessionFolder } from './hook-session.ts';
import type { Binding } from './hook-session.ts';

const BINDING: Binding = { v: 1, by: 'claude', agent: bob, match: 'github.com/me/proj', cwd: '/proj' };

let home: string;
let inbox: string;
let session: HookSessionFolder;

beforeEach(() => {
  home = temporaryHome();
  inbox = `${home}/spool/bob/new`;
  const opened = HookSessionFolder.open(home, 's1');
  if (!opened) throw new Error('s1 is a name');
  session = opened;
  session.bind(BINDING, `${home}/spool/bob`);
});

function arrive(name: string): void {
  writeFileSync(`${inbox}/${name}`, '');
}

/** Would the script think that nothing changed? Both bounds, as it tests them. */
function isStamped(kind = 'seen'): boolean {
  const time = (path: string): bigint => statSync(path, { bigint: true }).mtimeNs;
  const [lo, hi] = [`${home}/sessions/s1/${kind}.lo`, `${home}/sessions/s1/${kind}.hi`];
  return existsSync(hi) && !(time(inbox) > time(hi)) && !(time(inbox) < time(lo));
}

function age(ms: number): void {
  const then = new Date(Date.now() - ms);
  utimesSync(inbox, then, then);
}

describe('a session', () => {
  it('remembers what it is bound to, and links to the mailbox', () => {
    expect(HookSessionFolder.open(home, 's1')?.binding()).toEqual(BINDING);
    expect(readlinkSync(`${home}/sessions/s1/box`)).toBe(`${home}/spool/bob`);
    expect(statSync(`${home}/sessions/s1/session.json`).mode & 0o777).toBe(0o600);
    expect(readdirSync(`${home}/sessions/s1`).sort()).toEqual(['box', 'session.json']);
  });

  it.each(['', '.', '..', '.x', 'a/b', '../a', 'ä', 'a b', 'x'.repeat(129)])('may not be called %j', (id) => {
    expect(HookSessionFolder.open(home, id)).toBeNull();
  });

  it('has no binding if its file makes no sense', () => {
    writeFileSync(`${home}/sessions/s1/session.json`, '{"v":2}');
    expect(session.binding()).toBeNull();
  });

  it('is forgotten after a month of silence', () => {
    for (let n = 2; n <= 201; n += 1) mkdirSync(`${home}/sessions/s${n}`);
    const then = new Date(Date.now() - 31 * 24 * 3600 * 1000);
    utimesSync(`${home}/sessions/s1`, then, then);
    forgetOldSessions(home);
    const left = readdirSync(`${home}/sessions`).filter((name) => !name.startsWith('.'));
    expect([left.length, left.includes('s1')]).toEqual([200, false]);
  });

  it('is remembered while it is among the last two hundred, however far the clock jumps', () => {
    const then = new Date(Date.now() - 200 * 24 * 3600 * 1000);
    utimesSync(`${home}/sessions/s1`, then, then);
    forgetOldSessions(home);
    expect(session.binding()).not.toBeNull();
  });
});

describe('that nothing is left', () => {
  it('is noted as soon as later arrivals must have another time', () => {
    arrive('elsewhere.json');
    expect(session.noteSeen('seen', inbox, new Set(['elsewhere.json']), true)).toBe(true);
    expect(isStamped()).toBe(true);
    expect(isStamped('sub')).toBe(false);
  });

  it('is noted of a time only after a file system’s clock must have moved on', () => {
    arrive('elsewhere.json');
    session.noteSeen('seen', inbox, new Set(['elsewhere.json']), true);
    expect(Date.now() - statSync(inbox).mtimeMs).toBeGreaterThanOrEqual(25);
  });

  it('is not noted if something else is there', () => {
    arrive('elsewhere.json');
    arrive('unknown.json');
    expect(session.noteSeen('seen', inbox, new Set(['elsewhere.json']), true)).toBe(false);
    expect(isStamped()).toBe(false);
  });

  it('is noted only after two seconds where times are coarse', () => {
    arrive('elsewhere.json');
    const known = new Set(['elsewhere.json']);
    age(1000);
    expect(session.noteSeen('seen', inbox, known, false)).toBe(false);
    age(2100);
    expect(session.noteSeen('seen', inbox, known, false)).toBe(true);
    expect(isStamped()).toBe(true);
  });

  it('is noted only after two seconds where the folder’s own times are whole seconds', () => {
    arrive('elsewhere.json');
    const second = Math.floor(Date.now() / 1000);
    utimesSync(inbox, second, second);
    expect(session.noteSeen('seen', inbox, new Set(['elsewhere.json']), true)).toBe(false);
  });

  it('is not noted of a time that has not come yet', () => {
    arrive('elsewhere.json');
    age(-60_000);
    expect(session.noteSeen('seen', inbox, new Set(['elsewhere.json']), true)).toBe(false);
  });

  it('needs no note if nothing is there', () => {
    expect(session.noteSeen('seen', inbox, new Set(), true)).toBe(true);
    expect(existsSync(`${home}/sessions/s1/seen.hi`)).toBe(false);
  });

  it('never outlives an arrival, however soon it comes', () => {
    const known = new Set<string>();
    for (let n = 0; n < 40; n++) {
      arrive(`elsewhere-${n}.json`);
      known.add(`elsewhere-${n}.json`);
      expect(session.noteSeen('seen', inbox, known, true)).toBe(true);
      arrive(`arrival-${n}.json`);
      expect(isStamped()).toBe(false);
      known.add(`arrival-${n}.json`);
    }
  });

  it('is void when the session is bound again', () => {
    arrive('elsewhere.json');
    session.noteSeen('seen', inbox, new Set(['elsewhere.json']), true);
    mkdirSync(`${home}/spool/carol/new`, { recursive: true });
    session.bind(BINDING, `${home}/spool/carol`);
    expect(existsSync(`${home}/sessions/s1/seen.hi`)).toBe(false);
  });

  it('is void for the shared mailbox too: what matches the session there may have changed', () => {
    const shared = `${home}/spool/claude`;
    session.share(shared);
    writeFileSync(`${shared}/new/elsewhere.json`, '');
    expect(session.noteSeen('group.seen', `${shared}/new`, new Set(['elsewhere.json']), true)).toBe(true);
    session.bind({ ...BINDING, match: 'github.com/me/other' }, `${home}/spool/bob`);
    session.share(shared);
    expect(existsSync(`${home}/sessions/s1/group.seen.hi`)).toBe(false);
  });
});
