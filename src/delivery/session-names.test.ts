import { describe, expect, it } from 'bun:test';
import { utimesSync } from 'node:fs';
import type { AgentName } from '../core/names.ts';
import { temporaryHome } from '../../test/support/home.ts';
import { startedByClient } from '../platform/authority.ts';
import { bindClient, sharedMailbox } from './client-bindings.ts';
import { HookSessionFolder } from './hook-session.ts';
import { isShown, SessionNames } from './session-names.ts';
import type { NamedSession } from './session-names.ts';

const nobody = (): boolean => false;
const GONE = 2 ** 22 - 1;

function names(): SessionNames {
  return new SessionNames(temporaryHome());
}

describe('the name of a session', () => {
  it('is the client and the folder, in lower-case ASCII', () => {
    const all = names();
    const nameIn = (folder: string): string => all.take({ client: 'claude', folder, pid: GONE }, nobody).name;
    expect(nameIn('/src/API Server')).toBe('claude.api-server' as AgentName);
    expect(nameIn('/src/Büro')).toBe('claude.bu-ro' as AgentName);
    expect(nameIn('/')).toBe('claude.home' as AgentName);
  });

  it('stays with its folder: the next session there has it, and another folder of that name gets a number', () => {
    const all = names();
    const nameIn = (folder: string): string => all.take({ client: 'codex', folder, pid: GONE }, nobody).name;
    expect(nameIn('/a/api')).toBe('codex.api');
    expect(nameIn('/b/api')).toBe('codex.api.2');
    expect(nameIn('/a/api')).toBe('codex.api');
    expect(nameIn('/b/api')).toBe('codex.api.2');
  });

  it('is the next number while a session of that folder runs', () => {
    const all = names();
    const one = { client: 'claude', folder: '/a/api', pid: process.pid };
    expect(all.take(one, nobody).name).toBe('claude.api' as AgentName);
    expect(all.take({ ...one, pid: process.ppid }, nobody).name).toBe('claude.api.2' as AgentName);
  });

  it('that was asked for is refused only while a session has it, and the refusal says which', () => {
    const all = names();
    const wanted = 'reviewer' as AgentName;
    const one = { client: 'claude', folder: '/a/api', wanted };
    all.take({ ...one, pid: process.pid }, nobody);
    expect(() => all.take({ ...one, pid: process.ppid }, nobody)).toThrow(
      `@reviewer is a running session (claude in /a/api, pid ${process.pid})`,
    );
    expect(all.take({ ...one, pid: process.pid }, nobody).name).toBe(wanted);
  });

  it('shares the mailbox of its client, unless somebody asked for it, also where it goes on', () => {
    const all = names();
    bindClient(all.home, 'claude', 'claude' as AgentName);
    const one = { client: 'claude', folder: '/a/api', pid: GONE };
    const wanted = 'claude.review' as AgentName;
    expect(sharedMailbox(all.home, all.take(one, nobody).name)).toBe('claude' as AgentName);
    expect(sharedMailbox(all.home, all.take({ ...one, wanted }, nobody).name)).toBeUndefined();
    expect(sharedMailbox(all.home, all.take({ ...one, before: wanted }, nobody).name)).toBeUndefined();
    all.bind(wanted, 's-1');
    expect(sharedMailbox(all.home, all.give({ ...one, session: 's-1' }, nobody).name)).toBeUndefined();
  });

  it('is not one that another agent has', () => {
    const taken = names().take({ client: 'claude', folder: '/a/api', pid: GONE }, (name) => name === 'claude.api');
    expect(taken.name).toBe('claude.api.2' as AgentName);
  });

  it('is found by the process of a running session, and by its id', () => {
    const all = names();
    const { name } = all.take({ client: 'codex', folder: '/a/api', pid: process.pid }, nobody);
    const live = { client: 'codex', id: 't-1', folder: '/a/api', status: 'idle' } as const;
    expect(all.nameOf(live)).toBeNull();
    expect(all.nameOf({ ...live, pid: process.pid })).toBe(name);
    all.bind(name, 't-1');
    expect(all.nameOf(live)).toBe(name);
    expect(all.nameOf({ ...live, client: 'claude' })).toBeNull();
  });

  it('does not count while its window opens: neither by process, nor by id, nor as a hook bound it', () => {
    const all = names();
    const { name } = all.take({ client: 'codex', folder: '/a/api', pid: process.pid }, nobody);
    const live = { client: 'codex', id: 't-1', folder: '/a/api', status: 'idle' } as const;
    const before = { ...live, id: 't-0' };
    for (const { id } of [live, before])
      HookSessionFolder.open(all.home, id)?.bind({ v: 1, by: 'init', agent: name, match: '', cwd: '/a/api' }, '/box');
    const found = (): unknown[] =>
      [live, before, { ...live, id: 't-2', pid: process.pid }].map((one) => all.nameOf(one));
    all.bind(name, 't-1', { isOpening: true });
    expect(found()).toEqual([null, null, null]);
    all.opened(name, process.ppid);
    expect(found()).toEqual([null, null, null]);
    all.opened(name, process.pid);
    expect(found()).toEqual([name, name, name]);
  });

  it('does not stay opening when its process ends', () => {
    const all = names();
    const { name } = all.take({ client: 'codex', folder: '/a/api', pid: GONE }, nobody);
    all.bind(name, 't-1', { isOpening: true });
    HookSessionFolder.open(all.home, 't-1')?.bind({ v: 1, by: 'init', agent: name, match: '', cwd: '/a/api' }, '/box');
    expect(all.nameOf({ client: 'codex', id: 't-1', folder: '/a/api', status: 'idle' })).toBe(name);
    all.take({ client: 'codex', folder: '/a/api', pid: process.pid }, nobody);
    all.bind(name, 't-1');
    expect(all.all()).toMatchObject([{ name, session: 't-1' }]);
    expect(all.all()[0]).not.toHaveProperty('isOpening');
  });
});

describe('the name of a session that people start by themselves', () => {
  const acting = { client: 'claude', folder: '/a/api', pid: process.pid, session: 's-1' };

  it('belongs to its process, whatever conversation that has', () => {
    const all = names();
    expect(all.give({ ...acting, session: null }, nobody).name).toBe('claude.api' as AgentName);
    expect(all.give(acting, nobody)).toMatchObject({ name: 'claude.api', session: 's-1' });
    expect(all.give({ ...acting, session: 's-2' }, nobody)).toMatchObject({ session: 's-2', earlier: ['s-1'] });
    expect(all.of({ ...acting, session: null })?.name).toBe('claude.api' as AgentName);
  });

  it('is inherited in its folder once its session does not run, and has a number until then', () => {
    const all = names();
    all.give(acting, nobody);
    expect(all.give({ ...acting, pid: process.ppid, session: 's-2' }, nobody).name).toBe('claude.api.2' as AgentName);
    const ended = (): boolean => false;
    const next = { ...acting, pid: 1, session: 's-3' };
    expect(all.give(next, nobody, ended)).toMatchObject({ name: 'claude.api', earlier: ['s-1'], session: 's-3' });
    expect(all.give({ ...acting, folder: '/b/api', pid: GONE, session: 's-4' }, nobody, ended).name).toBe(
      'claude.api.3' as AgentName,
    );
  });

  it('comes back with its conversation, unless another session has it', () => {
    const all = names();
    all.give({ ...acting, pid: GONE }, nobody);
    all.give({ ...acting, pid: GONE, session: 's-2' }, nobody);
    expect(all.all().map(({ name }) => name)).toEqual(['claude.api' as AgentName]);
    all.give({ ...acting, folder: '/a/web', pid: GONE, session: 's-3' }, nobody);
    expect(all.give({ ...acting, pid: process.pid, session: 's-3' }, nobody)).toMatchObject({
      name: 'claude.web',
      folder: '/a/web',
    });
    expect(all.give({ ...acting, pid: process.ppid, session: 's-3' }, nobody).name).toBe('claude.api' as AgentName);
  });

  it('belongs to its conversation where one process has many', () => {
    const all = names();
    const isLoaded = (): boolean => true;
    const one = { client: 'codex', folder: '/a/api', pid: 0, session: 't-1' };
    expect(all.give(one, nobody, isLoaded).name).toBe('codex.api' as AgentName);
    expect(all.give({ ...one, session: 't-2' }, nobody, isLoaded).name).toBe('codex.api.2' as AgentName);
    expect(all.give(one, nobody, isLoaded).name).toBe('codex.api' as AgentName);
    expect(all.above({ CODEX_THREAD_ID: 't-2' })).toEqual({
      name: 'codex.api.2' as AgentName,
      from: 'CODEX_THREAD_ID',
    });
  });

  it('stays that of the window when its process becomes known, and is free when that ends', () => {
    const all = names();
    const one = { client: 'codex', folder: '/a/api', pid: 0, session: 't-1' };
    const shown = (...ids: string[]): ((named: NamedSession) => boolean) => {
      const live = ids.map((id) => ({ client: 'codex', id, folder: '/a/api', status: 'idle' as const }));
      return (named) => isShown(named, live);
    };
    expect(all.give(one, nobody, shown('t-1')).name).toBe('codex.api' as AgentName);
    expect(all.give({ ...one, pid: process.pid }, nobody, shown('t-1'))).toMatchObject({
      name: 'codex.api',
      pid: process.pid,
    });
    // The window shows another conversation: the same name.
    const later = { ...one, pid: process.pid, session: 't-2' };
    expect(all.give(later, nobody, shown('t-2'))).toMatchObject({ name: 'codex.api', session: 't-2' });
    expect(all.give({ ...one, session: 't-3' }, nobody, shown('t-2', 't-3')).name).toBe('codex.api.2' as AgentName);
    // Codex keeps t-3 loaded for a while, but no window shows it.
    expect(all.give({ ...one, session: 't-4' }, nobody, shown('t-2', 't-4')).name).toBe('codex.api.2' as AgentName);
  });

  it("is not that of a person's own shell, also below a process that has a name", () => {
    const all = names();
    all.give({ ...acting, pid: process.ppid }, nobody);
    const own = { CLAUDECODE: '1' };
    expect(all.above(own)?.name).toBe('claude.api' as AgentName);
    if (startedByClient({}) === null) expect(all.above({})).toBe(null);
  });

  it('was last seen when its session was; now, if that session runs', () => {
    const all = names();
    const { name } = all.give({ ...acting, pid: GONE }, nobody);
    const then = new Date('2026-01-01T00:00:00Z');
    utimesSync(`${all.home}/names/${name}.json`, then, then);
    expect(all.lastSeen(name, 42)?.at).toBe(then.getTime());
    all.give({ ...acting, session: 's-2' }, nobody);
    expect(all.lastSeen(name, 42)?.at).toBe(42);
    expect(all.lastSeen('nobody' as AgentName, 42)).toBe(null);
  });
});
