import { afterEach, describe, expect, it } from 'bun:test';
import { readFileSync, writeFileSync } from 'node:fs';
import { ScriptedTui, scriptedComposer, shownBy } from '../../test/support/scripted-tui.ts';
import { TestTmux } from '../../test/support/tmux.ts';
import { within } from '../../test/support/within.ts';
import { TmuxServer } from './tmux.ts';

const opened: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of opened.splice(0).toReversed()) await one.close();
});
function opens<T extends { close(): Promise<void> }>(one: T): T {
  opened.push(one);
  return one;
}

const hasTmux = Bun.which('tmux') !== null;
const MEGABYTE = 1024 * 1024;

describe.skipIf(!hasTmux)(`a terminal in tmux${hasTmux ? '' : ' (skipped: tmux is not here)'}`, () => {
  it('shows its screen with the cursor, and the lines without faint text', async () => {
    const { tui, pane } = await anAgent();
    await tui.order('draft half a thought');
    const screen = await pane.screen();
    expect(screen?.lines.slice(0, 2)).toEqual(['scripted agent', '> half a thought']);
    expect(screen?.cursor).toEqual({ row: 1, column: 16 });
    await tui.order('draft ');
    expect(await pane.screen()).toMatchObject({
      lines: expect.arrayContaining(['> ask anything']),
      bright: expect.arrayContaining(['>']),
    });
  });

  it.each([
    ['a text that starts with a dash', '-t %0 --help'],
    ['a text that ends in $word', 'what is $HOME'],
    ['quotes, formats and separators', `'"\`#{pane_id} $(id) ; kill-server \\; %begin`],
    ['many languages', 'Grüße 你好 👩‍💻 \u00a0'],
    ['a thousand lines', Array.from({ length: 1000 }, (_, n) => `line ${n}`).join('\n')],
    ['a megabyte', 'ä'.repeat(MEGABYTE / 2)],
    ['a megabyte in lines', `${'x'.repeat(99)}\n`.repeat(MEGABYTE / 100)],
  ])('takes %s byte for byte, as one paste [C2C-32]', async (_what, text) => {
    const { tui, pane } = await anAgent();
    await pane.paste(text);
    await pane.enter();
    const [prompt] = await tui.prompted();
    expect(prompt === text).toBe(true);
    expect(tui.noted().find((noted) => noted.prompt)).toMatchObject({ pastes: 1, keys: 0 });
    expect(tui.prompts()).toHaveLength(1);
  });

  it.each([
    ['the end of a paste', 'x\u001b[201~\rrm -rf /'],
    ['a carriage return', 'x\rrm -rf /'],
    ['NUL', 'x\0y'],
    ['Ctrl-C', 'x\u0003'],
    ['a C1 control', 'x\u009b201~'],
    ['half a character', 'x\ud800'],
    ['too much', 'x'.repeat(5 * MEGABYTE)],
  ])('refuses %s, and types nothing of it', async (_what, text) => {
    const { tui, pane } = await anAgent();
    await expect(pane.paste(text)).rejects.toThrow();
    await pane.paste('after');
    await pane.enter();
    expect(await tui.prompted()).toEqual(['after']);
  });

  it('erases what was typed', async () => {
    const { tui, pane } = await anAgent();
    await pane.paste('never mind');
    await pane.erase();
    await within(20_000, async () => (await shownBy(pane)) === 'empty');
    expect(tui.prompts()).toEqual([]);
  });

  it('finds exactly the session that is named, whatever the names of others are', async () => {
    const tmux = opens(new TestTmux());
    const [work, workshop] = [new ScriptedTui(), new ScriptedTui()];
    await tmux.start('workshop', workshop.command);
    const server = opens(await TmuxServer.open({ path: tmux.path }));
    expect(server.terminal('=work:')).rejects.toThrow("can't find session");
    await tmux.start('work', work.command);
    await Promise.all([work.ready(), workshop.ready()]);
    const pane = await server.terminal('=work:');
    await pane.paste('for work');
    await pane.enter();
    expect(await work.prompted()).toEqual(['for work']);
    expect(workshop.prompts()).toEqual([]);
  });

  it.each(['work', 'work:', '=work', '', '=', '%', '%1;kill-server', '{last}', '=a:b', '!', '=wo*:', "=a'b:\n"])(
    'takes no target that could mean another pane: %j',
    async (target) => {
      const { server } = await anAgent('work');
      await expect(server.terminal(target)).rejects.toThrow();
    },
  );

  it('types nothing into a pane whose program ended after the last look', async () => {
    const { tui, pane, tmux } = await anAgent();
    await tmux.run('set-option', '-g', 'remain-on-exit', 'on');
    expect(await pane.screen()).not.toBeNull();
    process.kill(tui.pid, 'SIGKILL');
    await within(20_000, async () => (await pane.screen()) === null);
    await expect(pane.paste('too late')).rejects.toThrow('has ended');
    await expect(pane.enter()).rejects.toThrow('has ended');
  });

  it('types nothing into the shell that is left when the program ends after the last look', async () => {
    const tmux = opens(new TestTmux());
    const id = await tmux.start('shell', ['sh', '-m', '-c', 'sleep 600; stty raw -echo; cat -v']);
    const server = opens(await TmuxServer.open({ path: tmux.path }));
    const pane = await server.terminal(id);
    const fact = async (name: string): Promise<string> =>
      (await tmux.run('display-message', '-p', '-t', id, `#{${name}}`)).trim();
    await within(20_000, async () => (await fact('pane_current_command')) === 'sleep');
    expect(await pane.screen()).not.toBeNull();
    const shell = await fact('pane_pid');
    process.kill(Number(readFileSync(`/proc/${shell}/task/${shell}/children`, 'utf8')), 'SIGKILL');
    await within(20_000, async () => (await fact('pane_current_command')) === 'cat');
    await expect(pane.paste('too late')).rejects.toThrow('another program runs in it now');
    await expect(pane.enter()).rejects.toThrow('another program runs in it now');
    expect((await pane.screen())?.lines.join('').replace('Killed', '').trim()).toBe('');
  });

  it('says that a pane is gone, and leaves no buffer behind', async () => {
    const { pane, tmux } = await anAgent();
    await tmux.start('other', ['cat']);
    await tmux.run('kill-pane', '-t', pane.pane);
    expect(await pane.screen()).toBeNull();
    await expect(pane.paste('too late')).rejects.toThrow("can't find pane");
    await expect(pane.paste('too\nlate')).rejects.toThrow("can't find pane");
    expect(await tmux.run('list-buffers')).toBe('');
  });

  it.each([
    ['a line', (n: number) => `number ${n}`],
    ['several lines', (n: number) => `number ${n}\nand more`],
  ])(
    'types %s and its Enter exactly once, also when its connection to tmux is cut meanwhile [C2C-32]',
    async (_what, text) => {
      const { tui, pane, tmux } = await anAgent();
      let cuts = 0;
      const cutDuring = async (turns: number, act: () => Promise<void>): Promise<void> => {
        const acting = act();
        // Sometimes before tmux has read the command, sometimes after it has answered.
        for (let turn = 0; turn < turns; turn += 1) await new Promise<void>((resolve) => setImmediate(resolve));
        cuts += cutOff();
        await acting;
      };
      const sent: string[] = [];
      for (let n = 0; n < 10; n += 1) {
        await cutDuring(n * 4, () => pane.paste(text(n)));
        await within(20_000, async () => (await shownBy(pane)) === 'draft');
        await cutDuring(n * 4, () => pane.enter());
        sent.push(text(n));
        expect(await tui.prompted(n + 1)).toEqual(sent);
      }
      expect(cuts).toBeGreaterThan(0);
      expect(await tmux.run('list-buffers')).toBe('');
    },
  );

  it("leaves no text of a message in tmux's log of commands", async () => {
    const { tui, pane, tmux } = await anAgent();
    await pane.paste('<c2c>\na secret\n</c2c>');
    await pane.enter();
    await tui.prompted();
    const user = Bun.spawn(['tmux', '-S', tmux.path, '-C', 'attach-session'], { stdin: 'pipe', stdout: 'ignore' });
    await within(20_000, async () => (await tmux.run('list-clients')) !== '');
    const client = (await tmux.run('list-clients', '-F', '#{client_name}')).trim();
    const remembered = await tmux.run('show-messages', '-t', client);
    await user.stdin.end();
    await user.exited;
    expect([remembered.includes('paste-buffer'), remembered.includes('secret')]).toEqual([true, false]);
  });

  it('types nothing while the user scrolls, where keys go to other panes too, or where input is off', async () => {
    const { tui, pane, tmux } = await anAgent();
    await tmux.run('copy-mode', '-t', pane.pane);
    await expect(pane.paste('x')).rejects.toThrow('scrolling');
    await tmux.run('send-keys', '-t', pane.pane, '-X', 'cancel');
    await tmux.run('set-option', '-p', '-t', pane.pane, 'synchronize-panes', 'on');
    await expect(pane.enter()).rejects.toThrow('synchronized');
    await tmux.run('set-option', '-p', '-t', pane.pane, 'synchronize-panes', 'off');
    await tmux.run('select-pane', '-d', '-t', pane.pane);
    await expect(pane.paste('x')).rejects.toThrow('switched off');
    expect(tui.prompts()).toEqual([]);
  });

  it('is not misled by a screen that looks like an answer of tmux', async () => {
    const { pane, tui, tmux } = await anAgent();
    await tui.order('dialog');
    const began = /^%begin (\d+) (\d+)/.exec(await tmux.run('-C', 'display-message', '-p', 'x'));
    // Fake answers with every number that the real one may have, above the question: a reader that believes one misses the question.
    const numbers = Array.from({ length: 30 }, (_, n) => `%end ${began?.[1]} ${Number(began?.[2]) + n} 1`);
    writeFileSync(pane.tty ?? '', `\u001b[2J\u001b[H${numbers.join('\r\n')}\r\nRun this command?`);
    for (let looks = 0; looks < 8; looks += 1) {
      const screen = await pane.screen();
      if (screen) expect(scriptedComposer(screen)).toBe('dialog');
    }
    await tui.order('idle');
    await within(20_000, async () => (await shownBy(pane)) === 'empty');
  });

  it('finds the same pane again when the session that it was attached to ends', async () => {
    const tmux = opens(new TestTmux());
    const tui = new ScriptedTui();
    const pane = await tmux.start('first', tui.command);
    await tui.ready();
    await tmux.start('second', ['cat']);
    const server = opens(await TmuxServer.open({ path: tmux.path }));
    const terminal = await server.terminal(pane);
    await tmux.run('kill-session', '-t', '=second');
    await terminal.paste('still here');
    await terminal.enter();
    expect(await tui.prompted()).toEqual(['still here']);
  });

  it('presses a key only while the screen shows the expected lines, whatever characters they have [CCC-183]', async () => {
    const { tui, pane } = await anAgent();
    const text = 'what, #{pane_id} #(kill -9 $PPID) *?[x] \\ "y", }';
    await tui.order(`draft ${text}`);
    const lines = (await pane.screen())?.lines.slice(0, 2) ?? [];
    await expect(pane.press('Enter', [...lines, 'something else'])).rejects.toThrow('shows something else now');
    await tui.order('draft another text');
    await expect(pane.press('Enter', lines)).rejects.toThrow('shows something else now');
    await expect(pane.paste('more', lines)).rejects.toThrow('shows something else now');
    await tui.order(`draft ${text}`);
    expect(tui.prompts()).toEqual([]);
    await pane.press('Enter', lines);
    expect(await tui.prompted()).toEqual([text]);
  });

  it('does not take a pane of the next tmux server for its own', async () => {
    const { pane, tmux } = await anAgent();
    await tmux.run('kill-server');
    await within(20_000, async () => (await pane.screen()) === null);
    await tmux.start('again', ['cat']);
    await expect(pane.paste('for somebody else')).rejects.toThrow('was restarted');
    await expect(pane.paste('for\nsomebody else')).rejects.toThrow('was restarted');
    expect(await pane.screen()).toBeNull();
    expect(await tmux.run('list-buffers')).toBe('');
  });

  it('neither resizes nor selects anything of the user', async () => {
    const tmux = opens(new TestTmux());
    const pane = await tmux.start('work', ['cat']);
    await tmux.run('new-window', '-t', '=work:', 'cat');
    const before = await tmux.run(
      'list-windows',
      '-a',
      '-F',
      '#{window_id} #{window_active} #{window_width}x#{window_height}',
    );
    const server = opens(await TmuxServer.open({ path: tmux.path }));
    await (await server.terminal(pane)).screen();
    expect(
      await tmux.run('list-windows', '-a', '-F', '#{window_id} #{window_active} #{window_width}x#{window_height}'),
    ).toBe(before);
  });

  it('reports that no tmux server runs', async () => {
    const tmux = new TestTmux();
    await expect(TmuxServer.open({ path: tmux.path })).rejects.toThrow(/tmux: .*(no server running|error connecting)/);
  });
});

it('says when tmux is not installed', async () => {
  await expect(TmuxServer.open({ env: { PATH: '/nowhere' } })).rejects.toThrow('tmux is not installed');
});

/** Kills the tmux command that the terminal runs now, if there is one. Returns how many there were. */
function cutOff(): number {
  const speaking = readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8').trim().split(' ').map(Number);
  return speaking.filter((pid) => pid > 1 && isTmux(pid) && process.kill(pid, 'SIGKILL')).length;
}

function isTmux(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/comm`, 'utf8').startsWith('tmux');
  } catch {
    return false;
  }
}

async function anAgent(session = 'agent') {
  const tmux = opens(new TestTmux());
  const tui = new ScriptedTui();
  const id = await tmux.start(session, tui.command);
  await tui.ready();
  const server = opens(await TmuxServer.open({ path: tmux.path }));
  return { tmux, tui, server, pane: await server.terminal(id) };
}
