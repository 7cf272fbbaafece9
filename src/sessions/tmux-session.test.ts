import { afterEach, describe, expect, it } from 'bun:test';
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../test/support/home.ts';
import { saysAndEnds } from '../../test/support/tmux.ts';
import { within } from '../../test/support/within.ts';
import { isProcessAlive } from '../platform/process.ts';
import { lastLines, paneOn, TmuxSession, tmuxNameOf } from './tmux-session.ts';
import { TmuxServer } from './tmux.ts';

const hasTmux = Bun.which('tmux') !== null;
const opened: TmuxServer[] = [];
afterEach(async () => {
  for (const server of opened.splice(0)) await server.run(['kill-server']).catch(() => 'it ended before');
});

describe('the tmux session of a name', () => {
  it.each([
    ['web', 'ccc-web'],
    ['a_b-c', 'ccc-a_b-c'],
    ['a.b', /^ccc-a_b-[0-9a-f]{6}$/],
    ['msi:backend', /^ccc-msi_backend-[0-9a-f]{6}$/],
    ['päth', /^ccc-p_th-[0-9a-f]{6}$/],
  ])('is its own: %s [CCC-165]', (name, tmux) => {
    expect(tmuxNameOf(name)).toMatch(tmux);
    expect(tmuxNameOf('a.b')).not.toBe(tmuxNameOf('a b'));
    expect(tmuxNameOf('a.b')).toBe('ccc-a_b-2e7336');
    expect(tmuxNameOf('a_b-2e7336')).not.toBe(tmuxNameOf('a.b'));
  });
});

describe.skipIf(!hasTmux)(`a tmux session of ours${hasTmux ? '' : ' (skipped: tmux is not here)'}`, () => {
  it('starts a program in a folder, with its arguments unchanged, and ends it', async () => {
    const { server, folder } = aServer();
    const session = new TmuxSession(server, 'ccc-one');
    expect(await session.pane()).toBeNull();
    const { pid, id, tty } = await session.start(
      ['sh', '-c', 'echo "$PWD|$1|$2"; exec sleep 600', 'x', '$HOME;', "it's"],
      folder,
    );
    await within(20_000, async () => (await lastLines(server, id, 50)).includes('|'));
    expect(await lastLines(server, id, 1)).toBe(`${folder}|$HOME;|it's`);
    expect(await paneOn(server, tty ?? '')).toMatchObject({ id, pid });
    await session.end();
    await within(20_000, async () => !isProcessAlive(pid));
    expect(await session.pane()).toBeNull();
    await session.end();
  });

  it.each(['C#S', '#{pid}', 'x#(cd; touch pwned)', 'a#[b', 'a##[#(cd; touch pwned)', 'x#', '%H##,', 'x;'])(
    'starts in the folder %s itself, and runs nothing that its name says',
    async (name) => {
      const { server, folder } = aServer();
      const session = new TmuxSession(server, 'ccc-one');
      mkdirSync(`${folder}/${name}`);
      const say = ['sh', '-c', 'pwd > "$1"; exec sleep 600', 'x'];
      const first = await session.start([...say, `${folder}/made`], `${folder}/${name}`);
      await isWritten(`${folder}/made`);
      process.kill(first.pid);
      await within(20_000, async () => (await session.pane())?.isDead === true);
      await session.start([...say, `${folder}/again`], `${folder}/${name}`);
      await isWritten(`${folder}/again`);
      expect(readFileSync(`${folder}/made`, 'utf8')).toBe(`${folder}/${name}\n`);
      expect(readFileSync(`${folder}/again`, 'utf8')).toBe(`${folder}/${name}\n`);
      expect(existsSync(`${folder}/pwned`)).toBe(false);
    },
  );

  it('keeps the last screen of a program that ended, until `forget`', async () => {
    const { server, folder } = aServer();
    const session = new TmuxSession(server, 'ccc-one');
    const { id } = await session.start(saysAndEnds('I give up', 3), folder);
    await within(20_000, async () => (await session.pane())?.isDead === true);
    expect(await session.lastLine()).toBe('I give up');
    const again = await session.start(['sh', '-c', 'exec sleep 600'], folder);
    expect(again).toMatchObject({ id, isDead: false });
    await session.forget();
    process.kill(again.pid);
    await within(20_000, async () => (await session.pane()) === null);
  });

  it('finds only the session of exactly that name, not one whose name begins with it [CCC-154]', async () => {
    const { server, folder } = aServer();
    const other = await new TmuxSession(server, 'ccc-app-web').start(['sleep', '600'], folder);
    const session = new TmuxSession(server, 'ccc-app');
    expect(await session.pane()).toBeNull();
    await session.end();
    expect(isProcessAlive(other.pid)).toBe(true);
  });

  it('starts its program in place of a shell, but of no other program', async () => {
    const { server, folder } = aServer();
    const session = new TmuxSession(server, 'ccc-one');
    await server.create(['new-session', '-d', '-s', 'ccc-one', '--', 'env', 'sh']);
    const { id } = await session.start(['sleep', '600'], folder);
    await within(20_000, async () => (await session.pane())?.program === 'sleep');
    expect(await session.pane()).toMatchObject({ id });
    await expect(session.start(['sleep', '601'], folder)).rejects.toThrow('sleep runs in the tmux session ccc-one');
    await expect(new TmuxSession(server, 'ccc-two').start(['sleep', '1'], `${folder}/gone`)).rejects.toThrow(
      'no folder',
    );
  });

  it('gives up a tmux that does not answer', async () => {
    const { env } = aServer();
    mkdirSync(`${env.HOME}/bin`);
    writeFileSync(`${env.HOME}/bin/tmux`, '#!/bin/sh\nexec sleep 600\n');
    chmodSync(`${env.HOME}/bin/tmux`, 0o755);
    const server = new TmuxServer({ env: { ...env, PATH: `${env.HOME}/bin:${env.PATH}` }, answerMs: 300 });
    await expect(new TmuxSession(server, 'ccc-one').pane()).rejects.toThrow('did not answer');
  });
});

async function isWritten(path: string): Promise<void> {
  await within(20_000, async () => existsSync(path) && readFileSync(path, 'utf8') !== '');
}

function aServer() {
  const folder = temporaryHome();
  const env = {
    HOME: folder,
    TMUX_TMPDIR: folder,
    PATH: process.env['PATH'] ?? '',
    LANG: 'C.UTF-8',
    TERM: 'xterm-256color',
  };
  const server = new TmuxServer({ env });
  opened.push(server);
  return { server, folder, env };
}
