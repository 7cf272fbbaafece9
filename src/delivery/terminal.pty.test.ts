import { afterEach, describe, expect, it } from 'bun:test';
import { lineComposer, LineReader } from '../../test/support/line-reader.ts';
import { ScriptedTui, scriptedComposer, shownBy } from '../../test/support/scripted-tui.ts';
import { TestTmux } from '../../test/support/tmux.ts';
import { within } from '../../test/support/within.ts';
import { OwnPty } from '../sessions/pty.ts';
import { HookStateFile } from '../sessions/client-state.ts';
import type { StateReader } from '../sessions/client-state.ts';
import type { Terminal } from '../sessions/terminal.ts';
import { TmuxServer } from '../sessions/tmux.ts';
import { TerminalWay } from './terminal.ts';
import { aParcel, NEVER, wayContract } from './way.contract.ts';

const QUICK = { enterAfter: 5, proofWithin: 10_000 };
const PLACE = { cwd: '/', env: { PATH: process.env['PATH'], BUN_RUNTIME_TRANSPILER_CACHE_PATH: '0' } };
const MEGABYTE = 1024 * 1024;

const opened: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of opened.splice(0).toReversed()) await one.close();
});
function opens<T extends { close(): Promise<void> }>(one: T): T {
  opened.push(one);
  return one;
}

wayContract('terminal, through a PTY of ours', async () => {
  const tui = new ScriptedTui();
  // The agent can come back in another terminal: this one is whichever it is in.
  let pty = await aPtyWith(tui);
  const terminal: Terminal = {
    name: 'pty',
    get tty() {
      return pty.tty;
    },
    screen: () => pty.screen(),
    paste: (text) => pty.paste(text),
    enter: () => pty.enter(),
    erase: () => pty.erase(),
    close: () => pty.close(),
  };
  return {
    way: new TerminalWay({ terminal, states: new HookStateFile(tui.sign), composer: scriptedComposer, ...QUICK }),
    seen: async () => tui.prompts().join('\n'),
    typed: async () => {
      const screen = await pty.screen();
      return screen && scriptedComposer(screen) === 'draft' ? screen.lines.join('\n') : '';
    },
    leave: () => pty.close(),
    comeBack: async () => {
      tui.forget();
      pty = await aPtyWith(tui);
    },
    close: () => pty.close(),
  };
});

describe('a PTY of ours', () => {
  it.each([
    ['a thousand lines', Array.from({ length: 1000 }, (_, n) => `line ${n}`).join('\n')],
    ['a megabyte', 'ä'.repeat(MEGABYTE / 2)],
    ['a text that starts with a dash', '-x'],
  ])('takes %s byte for byte, as one paste [C2C-32]', async (_what, text) => {
    const tui = new ScriptedTui();
    const pty = opens(await aPtyWith(tui));
    await pty.paste(text);
    await pty.enter();
    const [prompt] = await tui.prompted();
    expect(prompt === text).toBe(true);
    expect(tui.noted().find((noted) => noted.prompt)).toMatchObject({ pastes: 1, keys: 0 });
  });

  it('gives a program that takes no brackets one line, and refuses several', async () => {
    const reader = new LineReader();
    const pty = opens(new OwnPty(reader.command, PLACE));
    await expect(pty.paste('one\ntwo')).rejects.toThrow('each line would be sent alone');
    await pty.paste('only one');
    await pty.enter();
    expect(await reader.got()).toEqual(['only one']);
  });

  it('is gone when its program is', async () => {
    const pty = opens(new OwnPty(['true'], PLACE));
    await pty.exited;
    expect(await pty.screen()).toBeNull();
    await expect(pty.paste('x')).rejects.toThrow('has ended');
  });

  it('ends its program with it, even one that does not want to', async () => {
    const pty = opens(new OwnPty(['sh', '-c', 'trap "" HUP; while :; do sleep 1; done'], PLACE));
    await pty.close();
    expect(() => process.kill(pty.pid, 0)).toThrow();
  });
});

const TERMINALS: [string, (reader: LineReader) => Promise<Terminal>][] = [
  ['a PTY of ours', async (reader) => opens(new OwnPty(reader.command, PLACE))],
  ['tmux', (reader) => inTmux(reader.command)],
];

describe.each(TERMINALS.filter(([name]) => name !== 'tmux' || Bun.which('tmux')))(
  'a line reader in %s',
  (_name, start) => {
    it('gets one line as it is, and nothing while a line is begun [C2C-32]', async () => {
      const reader = new LineReader();
      const terminal = await start(reader);
      const way = new TerminalWay({ terminal, states: idle, composer: lineComposer, enterAfter: 5, proofWithin: 0 });
      await within(20_000, async () => (await shownBy(terminal, lineComposer)) === 'empty');
      const parcel = aParcel('-n $HOME "quoted" \\back');
      expect(await way.attempt([parcel], NEVER)).toMatchObject({ outcome: 'offered' });
      expect(await reader.got()).toEqual([parcel.text]);
      await within(20_000, async () => (await shownBy(terminal, lineComposer)) === 'empty');
      await terminal.paste('begun by its user');
      await within(20_000, async () => (await shownBy(terminal, lineComposer)) === 'draft');
      expect(await way.attempt([aParcel()], NEVER)).toMatchObject({ outcome: 'left' });
      await terminal.enter();
      expect(await reader.got(2)).toEqual([parcel.text, 'begun by its user']);
    });
  },
);

const idle: StateReader = { latest: async () => ({ state: 'idle', at: 1, source: 'event' }) };

async function aPtyWith(tui: ScriptedTui): Promise<OwnPty> {
  const pty = new OwnPty(tui.command, PLACE);
  await tui.ready();
  await within(20_000, async () => (await shownBy(pty)) === 'empty');
  return pty;
}

async function inTmux(command: string[]): Promise<Terminal> {
  const tmux = opens(new TestTmux());
  const pane = await tmux.start('reader', command);
  return opens(await TmuxServer.open({ path: tmux.path })).terminal(pane);
}
