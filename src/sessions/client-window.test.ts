import { afterEach, describe, expect, it, setSystemTime } from 'bun:test';
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../test/support/home.ts';
import { within } from '../../test/support/within.ts';
import { ClientWindow } from './client-window.ts';
import { unseen } from './terminal.ts';
import { TmuxServer } from './tmux.ts';

const tmux = Bun.which('tmux');
const DEADLINE = 20_000;

describe.skipIf(tmux === null)(`windows of a client${tmux === null ? ' (skipped: tmux is not here)' : ''}`, () => {
  const opened: TmuxServer[] = [];
  afterEach(async () => {
    setSystemTime();
    for (const server of opened.splice(0)) await server.run(['kill-server']).catch(() => 'it ended before');
  });

  it('are searched by one process for all sessions without a window, and found when a person opens one', async () => {
    const home = temporaryHome();
    const log = `${home}/runs`;
    mkdirSync(`${home}/bin`);
    writeFileSync(`${home}/bin/tmux`, `#!/bin/sh\necho "$@" >> '${log}'\nexec '${tmux}' "$@"\n`);
    chmodSync(`${home}/bin/tmux`, 0o755);
    const env = { HOME: home, TMUX_TMPDIR: home, PATH: `${home}/bin:${process.env['PATH']}`, TERM: 'xterm' };
    const server = new TmuxServer({ env: { ...env, PATH: process.env['PATH'] } });
    opened.push(server);
    const how = { folder: home, env, variable: 'NONE', composer: unseen, isClient: () => false } as const;
    const windows = Array.from({ length: 20 }, (_, at) => new ClientWindow({ name: `w${at}`, ...how }));
    const start = Date.now();
    for (let ms = 0; ms < 10_000; ms += 500) {
      setSystemTime(new Date(start + ms));
      await Promise.all(windows.map((window) => window.refresh(() => false)));
    }
    const runs = existsSync(log) ? readFileSync(log, 'utf8').trimEnd().split('\n') : [];
    expect(runs).toHaveLength(1);
    await server.create(['new-session', '-d', '-s', 'ccc-w3', '--', 'env', 'sleep', '600']);
    setSystemTime(new Date(start + 20_000));
    const [third] = windows.slice(3);
    await third?.refresh(() => true);
    await within(DEADLINE, async () => typeof third?.pid === 'number');
    expect(windows.filter(({ pid }) => pid !== null)).toHaveLength(1);
  });

  it('count as one while a child of the client has not yet become its own program', async () => {
    const home = temporaryHome();
    const env = { HOME: home, TMUX_TMPDIR: home, PATH: process.env['PATH'], TERM: 'xterm' };
    const server = new TmuxServer({ env });
    opened.push(server);
    const isClient = (words: readonly string[]): boolean => words.some((word) => word.includes(`${home}/forked`));
    // A subshell in parentheses is a fork of the shell that starts it.
    const script = `(touch '${home}/forked'; sleep 600; true); true`;
    await server.create(['new-session', '-d', '-s', 'by-hand', '-c', home, '--', 'sh', '-c', script]);
    await within(DEADLINE, async () => existsSync(`${home}/forked`));
    const window = new ClientWindow({ name: 'one', folder: home, env, variable: 'NONE', composer: unseen, isClient });
    await window.look();
    expect(window.byHand()).not.toBeNull();
  });

  it.each([
    ['it is ended', (window: ClientWindow) => window.end()],
    ['its client ends', (_window: ClientWindow, server: TmuxServer) => server.run(['kill-session', '-t', '=ccc-one'])],
  ])('give their terminal back when %s: the next that is opened may have its number', async (_when, end) => {
    const home = temporaryHome();
    const env = { HOME: home, TMUX_TMPDIR: home, PATH: process.env['PATH'], TERM: 'xterm' };
    const server = new TmuxServer({ env });
    opened.push(server);
    const claims = new Map([['thread', 'one']]);
    const how = { folder: home, env, variable: 'NONE', composer: unseen, isClient: () => false, claims } as const;
    const window = new ClientWindow({ name: 'one', ...how });
    await window.start(['sleep', '600']);
    expect([...claims.values()]).toEqual(['one', 'one']);
    await end(window, server);
    await within(DEADLINE, async () => window.pid === null);
    expect([...claims.keys()]).toEqual(['thread']);
  });
});
