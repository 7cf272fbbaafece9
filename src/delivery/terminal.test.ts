import { afterEach, describe, expect, it } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { temporaryHome } from '../../test/support/home.ts';
import { ScriptedTui, scriptedComposer, shownBy } from '../../test/support/scripted-tui.ts';
import { TestTmux } from '../../test/support/tmux.ts';
import { within } from '../../test/support/within.ts';
import { HookStateFile } from '../sessions/client-state.ts';
import type { ClientState, StateReader } from '../sessions/client-state.ts';
import type { Screen, Terminal } from '../sessions/terminal.ts';
import { TmuxServer } from '../sessions/tmux.ts';
import { TerminalWay, typeInto, type TypingOptions } from './terminal.ts';
import { aParcel, NEVER, wayContract, type OpenWay } from './way.contract.ts';

const hasTmux = Bun.which('tmux') !== null;
const why = hasTmux ? '' : ' (skipped: tmux is not here)';
const QUICK = { enterAfter: 5, proofWithin: 10_000 };

const opened: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of opened.splice(0).toReversed()) await one.close();
});
function opens<T extends { close(): Promise<void> }>(one: T): T {
  opened.push(one);
  return one;
}

if (hasTmux) wayContract('terminal, through tmux', anOpenWay);

describe.skipIf(!hasTmux)(`mail through a terminal${why}`, () => {
  it.each([
    ['a question is open', 'dialog', 'open question'],
    ['the client works', 'busy', 'works'],
    ['the client starts', 'starting', 'no composer'],
    ['there is a draft', 'draft my own words', 'draft'],
  ])('types nothing while %s, and says so [C2C-32]', async (_what, order, because) => {
    const { way, tui } = await anAgent();
    await tui.order(order);
    const said = await way.attempt([aParcel()], NEVER);
    expect(said).toMatchObject({ outcome: 'left', retry: true, because: expect.stringContaining(because) });
    // What was there is there still: the next thing that it takes is a question's answer, or the draft alone.
    expect(tui.noted().filter(({ approved, prompt }) => approved ?? prompt)).toEqual([]);
    if (order.startsWith('draft')) {
      const { pane } = await agentOf(way);
      await pane.enter();
      expect(await tui.prompted()).toEqual(['my own words']);
    }
  });

  it.each([
    ['the client says that it asks something', 'dialog'],
    ['the client says that it works', 'busy'],
    ['the client says that it starts', 'starting'],
    ['the client says nothing that is known', 'unknown'],
    ['the client says nothing', null],
  ] as const)('types nothing when %s, whatever the screen shows [C2C-32]', async (_what, state) => {
    const { options, tui, pane } = await anAgent({ states: says(state) });
    const pasted: string[] = [];
    const paste = async (text: string): Promise<void> => void pasted.push(text);
    const way = new TerminalWay({ ...options, terminal: { ...asTerminal(pane), paste } });
    expect(await way.attempt([aParcel()], NEVER)).toMatchObject({ outcome: 'left', retry: true });
    // Not even to be taken back.
    expect(pasted).toEqual([]);
    await nothingTyped(tui, pane);
  });

  it('types nothing when the state is that of a client in another terminal', async () => {
    const { way, tui, pane } = await anAgent({ states: says('idle', process.pid) });
    expect(await way.attempt([aParcel()], NEVER)).toMatchObject({
      outcome: 'left',
      because: expect.stringContaining('does not run in'),
    });
    await nothingTyped(tui, pane);
  });

  it('does not keep a user waiting for a text that cannot be taken back', async () => {
    const { options, pane } = await anAgent();
    let isPasted = false;
    const terminal = afterPaste(pane, async () => void (isPasted = true));
    const composer = () => (isPasted ? 'busy' : 'empty');
    const limits = { shownWithin: 1_000_000, isAwaited: () => true };
    const way = new TerminalWay({ ...options, terminal, composer, ...limits });
    expect(await way.attempt([aParcel()], NEVER)).toMatchObject({ outcome: 'offered', evidence: { entered: false } });
  });

  it('presses no Enter when a question opens between the paste and it [C2C-32]', async () => {
    const { options, tui, pane } = await anAgent();
    const way = new TerminalWay({ ...options, terminal: afterPaste(pane, () => tui.order('dialog')) });
    const said = await way.attempt([aParcel()], NEVER);
    expect(said).toMatchObject({
      outcome: 'offered',
      evidence: { entered: false, because: expect.stringContaining('question') },
    });
    expect(tui.noted().some(({ approved }) => approved)).toBe(false);
  });

  it.each([
    ['one line', 'one line'],
    ['several lines', 'one\ntwo\nthree'],
  ])('takes back %s that may not be sent any more', async (_what, text) => {
    const { options, tui, pane } = await anAgent();
    let state: ClientState['state'] = 'idle';
    const states: StateReader = { latest: async () => ({ state, at: 1, source: 'hook' }) };
    const terminal = afterPaste(pane, async () => void (state = 'busy'));
    const said = await new TerminalWay({ ...options, states, terminal }).attempt([aParcel(text)], NEVER);
    expect(said).toMatchObject({ outcome: 'left', because: expect.stringContaining('busy') });
    await nothingTyped(tui, pane);
  });

  it('presses Enter only when the screen shows what was pasted, however late that is', async () => {
    const { options, tui, pane } = await anAgent();
    const lag = aLag(pane);
    const typing = new TerminalWay({ ...options, terminal: lag.terminal }).attempt([aParcel()], NEVER);
    await within(20_000, async () => lag.looks() > 5);
    expect(tui.prompts()).toEqual([]);
    lag.end();
    expect(await typing).toMatchObject({ outcome: 'taken' });
  });

  it('does not take a screen that is half drawn for one that shows the paste', async () => {
    const { options, tui, pane } = await anAgent();
    const lag = aLag(pane);
    // One look in three falls into a drawing.
    const flickering = async (): Promise<Screen | null> => {
      const screen = await lag.terminal.screen();
      return screen && lag.looks() % 3 === 1 ? { ...screen, lines: ['> h'], bright: ['> h'] } : screen;
    };
    const terminal = { ...asTerminal(lag.terminal), screen: flickering };
    const typing = new TerminalWay({ ...options, terminal }).attempt([aParcel()], NEVER);
    await within(20_000, async () => lag.looks() > 8);
    expect(tui.prompts()).toEqual([]);
    lag.end();
    expect(await typing).toMatchObject({ outcome: 'taken' });
  });

  it('takes nothing back because a look falls between the clearing of a screen and its drawing', async () => {
    const { options, tui, pane } = await anAgent();
    const seen = { looks: 0, erased: 0 };
    const terminal: Terminal = {
      ...afterPaste(pane, async () => void (seen.looks = 1)),
      screen: async () => (seen.looks > 0 && seen.looks++ < 4 ? BLANK : pane.screen()),
      erase: async () => void (seen.erased += 1),
    };
    expect(await new TerminalWay({ ...options, terminal }).attempt([aParcel()], NEVER)).toMatchObject({
      outcome: 'taken',
    });
    expect(await tui.prompted()).toHaveLength(1);
    expect(seen.erased).toBe(0);
    expect(seen.looks).toBeGreaterThan(3);
  });

  it('presses no key while the screen shows no composer: the text there may be a person’s', async () => {
    const { options, pane } = await anAgent();
    const seen = { pasted: false, erased: 0 };
    const terminal: Terminal = {
      ...afterPaste(pane, async () => void (seen.pasted = true)),
      screen: async () => (seen.pasted ? BLANK : pane.screen()),
      erase: async () => void (seen.erased += 1),
    };
    const way = new TerminalWay({ ...options, terminal, shownWithin: 100 });
    expect(await way.attempt([aParcel()], NEVER)).toMatchObject({
      outcome: 'offered',
      evidence: { entered: false, again: false, because: expect.stringContaining('no composer') },
    });
    expect(seen.erased).toBe(0);
  });

  it('does not say that Enter did not come when pressing it failed and the text is not seen to go', async () => {
    const { options, pane } = await anAgent();
    const enter = async (): Promise<void> => {
      throw new Error('the connection was cut');
    };
    const terminal: Terminal = { ...asTerminal(pane), enter, erase: async () => {} };
    const way = new TerminalWay({ ...options, terminal, shownWithin: 2000 });
    expect(await way.attempt([aParcel()], NEVER)).toMatchObject({
      outcome: 'offered',
      evidence: { entered: 'unknown', again: false },
    });
  });

  it('does not take a screen that is being drawn for one that showed the paste, when it takes that back', async () => {
    const { options, pane } = await anAgent();
    const lag = aLag(pane);
    let state: ClientState['state'] = 'idle';
    const states: StateReader = { latest: async () => ({ state, at: 1, source: 'hook' }) };
    const terminal: Terminal = {
      ...asTerminal(lag.terminal),
      screen: async () => {
        const screen = await lag.terminal.screen();
        if (lag.looks() > 0) state = 'busy';
        return lag.looks() === 2 ? BLANK : screen;
      },
      erase: async () => {},
    };
    expect(
      await new TerminalWay({ ...options, states, terminal, shownWithin: 100 }).attempt([aParcel()], NEVER),
    ).toMatchObject({ outcome: 'offered', evidence: { entered: false, because: expect.stringContaining('busy') } });
  });

  it('does not say that nothing was typed when the screen never showed it', async () => {
    const { options, tui, pane } = await anAgent();
    const way = new TerminalWay({ ...options, terminal: aLag(pane).terminal, shownWithin: 100 });
    expect(await way.attempt([aParcel()], NEVER)).toMatchObject({
      outcome: 'offered',
      evidence: { entered: false, because: expect.stringContaining('does not show') },
    });
    expect(tui.prompts()).toEqual([]);
  });

  it('takes back what it pasted when Enter fails', async () => {
    const { options, tui, pane } = await anAgent();
    const terminal: Terminal = { ...asTerminal(pane), enter: () => Promise.reject(new Error('no Enter today')) };
    expect(await new TerminalWay({ ...options, terminal }).attempt([aParcel()], NEVER)).toMatchObject({
      outcome: 'left',
      because: 'no Enter today',
    });
    await nothingTyped(tui, pane);
  });

  it.each([
    ['the paste', 'paste-buffer', false],
    ['Enter', 'Enter', 'unknown'],
  ])('does not say that nothing was typed when tmux hangs at %s: it may do it later', async (_what, word, entered) => {
    const { options, tmux } = await anAgent();
    const hanging = await hangingTmux(tmux, word);
    const terminal = await hanging.terminal('=agent:');
    expect(await new TerminalWay({ ...options, terminal }).attempt([aParcel()], NEVER)).toMatchObject({
      outcome: 'offered',
      evidence: { entered, again: false, because: expect.stringContaining('did not answer') },
    });
  });

  it('leaves the message when the client dies between the look and the paste', async () => {
    const { options, tui, pane, tmux } = await anAgent();
    await tmux.start('other', ['cat']);
    const states: StateReader = {
      latest: async () => {
        process.kill(tui.pid, 'SIGKILL');
        await within(20_000, async () => (await pane.screen()) === null);
        return { state: 'idle', at: 1, source: 'hook' };
      },
    };
    expect(await new TerminalWay({ ...options, states }).attempt([aParcel()], NEVER)).toMatchObject({
      outcome: 'left',
      retry: true,
    });
    expect(tui.prompts()).toEqual([]);
  });

  it('says `offered`, not `taken`, when the client gives no sign after Enter', async () => {
    const { options, tui } = await anAgent({ states: says('idle') });
    const said = await new TerminalWay({ ...options, proofWithin: 50 }).attempt([aParcel()], NEVER);
    expect(said).toMatchObject({ outcome: 'offered', evidence: { way: 'terminal', entered: true } });
    await tui.prompted();
  });

  it('names the sign by which it knows that the client took the text [C2C-32]', async () => {
    const { way, tui } = await anAgent();
    await tui.order('slow');
    const said = await way.attempt([aParcel()], NEVER);
    expect(said).toMatchObject({
      outcome: 'taken',
      step: 'accepted',
      evidence: { sign: 'busy', source: 'hook', terminal: 'tmux agent:0.0' },
    });
  });

  it('knows that the client took the text when its record has it, although it never reported busy [C2C-32]', async () => {
    const { options, tui } = await anAgent({ states: says('idle') });
    const listen = async () => async (text: string) =>
      tui.prompts().includes(text) ? ({ state: 'busy', at: 2, source: 'transcript' } as const) : null;
    const way = new TerminalWay({ ...options, states: { ...says('idle'), listen } });
    expect(await way.attempt([aParcel()], NEVER)).toMatchObject({
      outcome: 'taken',
      evidence: { source: 'transcript' },
    });
  });

  it.each([
    ['cannot be opened', () => Promise.reject(new Error('no transcript today'))],
    ['cannot be read', async () => () => Promise.reject(new Error('not a file'))],
  ])('types once and says `offered` when what the client writes down %s', async (_what, listen) => {
    const { options, tui } = await anAgent();
    const way = new TerminalWay({ ...options, proofWithin: 50, states: { ...says('idle'), listen } });
    const parcel = aParcel();
    expect(await way.attempt([parcel], NEVER)).toMatchObject({ outcome: 'offered', evidence: { entered: true } });
    expect(await tui.prompted()).toEqual([parcel.text]);
  });

  it('waits between the paste and Enter for as long as the client needs [C2C-32]', async () => {
    const { options, tui, pane } = await anAgent();
    const seen: string[] = [];
    const terminal = afterPaste(pane, async () => {
      await within(20_000, async () => (await shownBy(pane)) === 'draft');
      seen.push(...tui.prompts());
    });
    const since = performance.now();
    await new TerminalWay({ ...options, terminal, enterAfter: 300 }).attempt([aParcel()], NEVER);
    expect(performance.now() - since).toBeGreaterThanOrEqual(300);
    expect(seen).toEqual([]);
    expect(await tui.prompted()).toHaveLength(1);
  });

  it('types only the sentinel in that mode, and never says that the mail was taken [C2C-32]', async () => {
    const { options, tui } = await anAgent();
    const way = new TerminalWay({ ...options, sentinel: 'poll mcp__c2c__poll_inbox' });
    expect(await way.attempt([aParcel('a secret')], NEVER)).toMatchObject({
      outcome: 'offered',
      evidence: { sentinel: true, entered: true },
    });
    expect(await tui.prompted()).toEqual(['poll mcp__c2c__poll_inbox']);
  });

  it('refuses for good a text that could leave its brackets', async () => {
    const { way, tui, pane } = await anAgent();
    for (const text of ['\u001b[201~\rrm -rf /', 'x\ry', 'x\0', '\u0003']) {
      expect(await way.attempt([aParcel(text)], NEVER)).toMatchObject({ outcome: 'left', retry: false });
    }
    await nothingTyped(tui, pane);
  });

  it('lets one writer type at a time, also across processes', async () => {
    const { options, tui, way } = await anAgent();
    const held = await anotherHolds(options.terminal.tty ?? '');
    expect(await way.attempt([aParcel()], NEVER)).toMatchObject({
      outcome: 'left',
      because: expect.stringContaining('somebody else'),
    });
    // The kernel takes a dead writer's turn from it.
    held.kill('SIGKILL');
    await held.exited;
    expect(await way.attempt([aParcel()], NEVER)).toMatchObject({ outcome: 'taken' });
    expect(await tui.prompted()).toHaveLength(1);
  });

  it('never joins two texts when two ways type at once', async () => {
    const { options, tui } = await anAgent();
    const parcels = Array.from({ length: 6 }, (_, n) => aParcel(`number ${n}`));
    await Promise.all(
      parcels.map(async (parcel) => {
        const way = new TerminalWay(options);
        await within(20_000, async () => (await way.attempt([parcel], NEVER)).outcome !== 'left');
      }),
    );
    expect((await tui.prompted(6)).toSorted()).toEqual(parcels.map(({ text }) => text).toSorted());
  });

  it('ends a text as its client needs it', async () => {
    const { options, tui } = await anAgent();
    const ending = (text: string): string => (/\$\w+$/.test(text) ? `${text} ` : text);
    await typeInto({ ...options, ending }, 'ask $skill', NEVER);
    await within(20_000, async () => (await typeInto({ ...options, ending }, 'ask', NEVER)).typed === 'entered');
    expect(await tui.prompted(2)).toEqual(['ask $skill ', 'ask']);
  });
});

/** What is seen of a client that draws its screen again. */
const BLANK: Screen = { lines: [''], bright: [''], cursor: { row: 0, column: 0 } };

interface Agent {
  way: TerminalWay;
  options: TypingOptions;
  tui: ScriptedTui;
  pane: Terminal;
  tmux: TestTmux;
}

/** tmux as it is, but from the first command with this word on it does not answer any more. */
async function hangingTmux(tmux: TestTmux, word: string): Promise<TmuxServer> {
  const bin = temporaryHome();
  const script = `#!/bin/sh
case "$*" in *${word}*) : > '${bin}/hangs' ;; esac
[ -e '${bin}/hangs' ] && exec sleep 600
exec '${Bun.which('tmux')}' "$@"
`;
  writeFileSync(`${bin}/tmux`, script, { mode: 0o755 });
  const env = { ...process.env, PATH: `${bin}:${process.env['PATH']}` };
  return opens(await TmuxServer.open({ path: tmux.path, env, answerMs: 1000 }));
}

async function anAgent(more: Partial<TypingOptions> = {}): Promise<Agent> {
  const tmux = opens(new TestTmux());
  const tui = new ScriptedTui();
  const id = await tmux.start('agent', tui.command);
  await tui.ready();
  const server = opens(await TmuxServer.open({ path: tmux.path }));
  const pane = await server.terminal(id);
  const options = {
    terminal: pane,
    states: new HookStateFile(tui.sign),
    composer: scriptedComposer,
    ...QUICK,
    ...more,
  };
  await within(20_000, async () => (await shownBy(pane)) === 'empty');
  return { way: new TerminalWay(options), options, tui, pane, tmux };
}

const agentOf = async (way: TerminalWay): Promise<{ pane: Terminal }> => ({ pane: way.options.terminal });

/** What the contract sees of it. The agent leaves by its end, and comes back in the same pane. */
async function anOpenWay(): Promise<OpenWay> {
  const { way, tui, tmux, pane } = await anAgent();
  await tmux.run('set-option', '-g', 'remain-on-exit', 'on');
  return {
    way,
    seen: async () => tui.prompts().join('\n'),
    typed: async () => {
      const screen = await pane.screen();
      return screen && scriptedComposer(screen) === 'draft' ? screen.lines.join('\n') : '';
    },
    leave: async () => {
      process.kill(tui.pid, 'SIGKILL');
      await within(20_000, async () => (await pane.screen()) === null);
    },
    comeBack: async () => {
      tui.forget();
      await tmux.run('respawn-pane', '-t', '=agent:', 'env', ...tui.command);
      await tui.ready();
    },
    close: async () => {
      for (const one of opened.splice(0).toReversed()) await one.close();
    },
  };
}

function says(state: ClientState['state'] | null, pid?: number): StateReader {
  const at = Date.now();
  return { latest: async () => (state ? { state, at, source: 'event', ...(pid && { pid }) } : null) };
}

function asTerminal(pane: Terminal): Terminal {
  return {
    name: pane.name,
    get tty() {
      return pane.tty;
    },
    screen: () => pane.screen(),
    paste: (text) => pane.paste(text),
    enter: () => pane.enter(),
    erase: () => pane.erase(),
    close: () => pane.close(),
  };
}

/** The same terminal, with something that happens right after the paste. */
function afterPaste(pane: Terminal, happens: () => Promise<unknown>): Terminal {
  const paste = async (text: string): Promise<void> => {
    await pane.paste(text);
    await happens();
  };
  return { ...asTerminal(pane), paste };
}

/** A terminal that shows for some time after a paste what stood there before it. */
function aLag(pane: Terminal): { terminal: Terminal; looks(): number; end(): void } {
  let [old, looks]: [Screen | null, number] = [null, 0];
  const screen = async (): Promise<Screen | null> => {
    looks += old ? 1 : 0;
    return old ?? pane.screen();
  };
  const paste = async (text: string): Promise<void> => {
    old = await pane.screen();
    await pane.paste(text);
  };
  return { terminal: { ...asTerminal(pane), screen, paste }, looks: () => looks, end: () => void (old = null) };
}

/** A key of ours finds the composer as it was: nothing was typed before it. */
async function nothingTyped(tui: ScriptedTui, pane: Terminal): Promise<void> {
  expect(tui.prompts()).toEqual([]);
  await pane.paste('the next thing typed');
  await pane.enter();
  expect(await tui.prompted()).toEqual(['the next thing typed']);
}

/** Another process, which types into this terminal just now. */
async function anotherHolds(tty: string): Promise<Bun.Subprocess> {
  const module = new URL('../sessions/pty.ts', import.meta.url).pathname;
  const script = `const { takeTurn } = await import(${JSON.stringify(module)}); takeTurn(${JSON.stringify(tty)}); console.log('held'); setInterval(() => {}, 1000);`;
  const child = Bun.spawn([process.execPath, '-e', script], { stdout: 'pipe' });
  opens({
    close: async () => {
      child.kill('SIGKILL');
      await child.exited;
    },
  });
  for await (const _said of child.stdout) break;
  return child;
}
