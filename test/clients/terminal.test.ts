import { afterEach, describe, expect } from 'bun:test';
import { existsSync } from 'node:fs';
import { claudeComposer, ClaudeStateReader } from '../../src/clients/claude/state.ts';
import { openCodeComposer } from '../../src/clients/opencode/state.ts';
import { TerminalWay } from '../../src/delivery/terminal.ts';
import { aParcel, NEVER } from '../../src/delivery/way.contract.ts';
import type { Composer } from '../../src/sessions/terminal.ts';
import type { StateReader } from '../../src/sessions/client-state.ts';
import { TmuxServer, type TmuxPane } from '../../src/sessions/tmux.ts';
import { shownBy } from '../support/scripted-tui.ts';
import { within } from '../support/within.ts';
import { aModel } from './model/model.ts';
import { bash, call, gate, say, type Step } from './model/steps.ts';
import { aClaude, type ClaudeSession } from './support/claude.ts';
import { anOpenCode } from './support/opencode.ts';
import { closeAll, opens } from './support/opened.ts';
import { aPlace } from './support/place.ts';
import { client } from './support/where.ts';

const claude = client('claude');
const openCode = client('opencode');

/** As the loops do it: Enter waits for the screen, and for hardly anything else. */
const ENTER_MS = 5;

/** What a client draws differently: a line as it is, several as a mark, and one that takes its time. */
const TEXTS: [string, string][] = [
  ['one line', 'New messages wait for you.'],
  ['thirty lines', Array.from({ length: 30 }, (_, n) => `line ${n}`).join('\n')],
  ['a kilobyte in one line', 'word '.repeat(205).trim()],
  ['64 KB', Array.from({ length: 1024 }, (_, n) => `line ${n} `.padEnd(63, 'x')).join('\n')],
];

afterEach(closeAll);

describe(`mail through the terminal of Claude Code${claude.why}`, () => {
  claude.it('is put before the model of an idle session, whole and once [C2C-32]', async () => {
    const { way, model, session } = await aSession([say('read it'), say('read that too')]);
    const parcels = [aParcel('-n several\nlines\n\n$HOME'), aParcel('and a second one')];
    // On a machine with too much to do its register can sleep through the whole turn; its transcript does not.
    expect(await way.attempt(parcels, NEVER)).toMatchObject({
      outcome: 'taken',
      step: 'accepted',
      evidence: { source: expect.stringMatching(/^(registry|transcript)$/) },
    });
    const asked = await model.saw(parcels[1]?.text ?? '');
    expect(parcels.map((parcel) => asked.count(parcel.text))).toEqual([1, 1]);
    expect(asked.where(parcels[0]?.text ?? '')).toMatchObject([{ role: 'user' }]);
    await session.until('idle');
    const long = aParcel(Array.from({ length: 1000 }, (_, n) => `line ${n}`).join('\n'));
    await offered(way, long);
    expect((await model.saw(long.text)).count(long.text)).toBe(1);
  });

  claude.it('is sent by an Enter that comes as soon as the screen shows it, however long it is [C2C-32]', async () => {
    const { way, model, session } = await aSession([]);
    for (const [what, text] of [...TEXTS, ...TEXTS]) {
      const [parcel, read] = [aParcel(text), gate()];
      model.script(say('read it', read.opened));
      await offered(way, parcel);
      const asked = await model.saw(parcel.text);
      expect([what, asked.count(parcel.text)]).toEqual([what, 1]);
      read.open();
      await session.until('idle');
    }
  });

  claude.it(
    'types nothing while it asks for a permission, and the command is not approved by it [C2C-32]',
    async () => {
      const { way, session, place, pane } = await aSession([bash('touch made'), say('done')]);
      await session.terminal.submit('make it');
      await session.until('waiting');
      await within(20_000, async () => (await shownBy(pane, claudeComposer)) === 'dialog');
      expect(await way.attempt([aParcel()], NEVER)).toMatchObject({ outcome: 'left', retry: true });
      // By its own word alone, too, whatever its screen shows.
      const blind = new TerminalWay({ ...way.options, composer: () => 'empty' });
      expect(await blind.attempt([aParcel()], NEVER)).toMatchObject({
        outcome: 'left',
        because: expect.stringContaining('permission'),
      });
      expect(await shownBy(pane, claudeComposer)).toBe('dialog');
      expect(session.registered()?.status).toBe('waiting');
      expect(existsSync(`${place.project}/made`)).toBe(false);
      // The question is still the user's to answer: an Enter does approve it, as soon as the client listens to one.
      await within(20_000, async () => {
        if (session.registered()?.status === 'waiting') await session.terminal.keys('Enter');
        return existsSync(`${place.project}/made`);
      });
    },
  );

  claude.it('types nothing into a draft, and leaves it as it is [C2C-32]', async () => {
    const { way, session, model, pane } = await aSession([say('yes')]);
    await session.terminal.type('half a thought');
    await within(20_000, async () => (await shownBy(pane, claudeComposer)) === 'draft');
    expect(await way.attempt([aParcel()], NEVER)).toMatchObject({
      outcome: 'left',
      retry: true,
      because: expect.stringContaining('draft'),
    });
    await session.terminal.keys('Enter');
    const asked = await model.saw('half a thought');
    expect(asked.pieces.filter(({ role, kind }) => role === 'user' && kind !== 'tool result').at(-1)?.text).toBe(
      'half a thought',
    );
  });

  claude.it('types nothing while it works [C2C-32]', async () => {
    const done = gate();
    const { way, session, model } = await aSession([say('done', done.opened)]);
    await session.terminal.submit('work');
    await session.until('busy');
    const parcel = aParcel();
    expect(await way.attempt([parcel], NEVER)).toMatchObject({ outcome: 'left', retry: true });
    done.open();
    await session.until('idle');
    expect(model.last.has(parcel.id)).toBe(false);
    await offered(way, parcel);
    expect((await model.saw(parcel.text)).count(parcel.text)).toBe(1);
  });

  claude.it('takes back what it pasted when Enter cannot follow', async () => {
    const { way, session, model, pane } = await aSession([say('yes')]);
    const terminal = { ...asTerminal(pane), enter: () => Promise.reject(new Error('no Enter today')) };
    const broken = new TerminalWay({ ...way.options, terminal });
    expect(await broken.attempt([aParcel('one\ntwo\nthree')], NEVER)).toMatchObject({
      outcome: 'left',
      because: 'no Enter today',
    });
    expect(await shownBy(pane, claudeComposer)).toBe('empty');
    await session.terminal.submit('what the user wrote');
    const asked = await model.saw('what the user wrote');
    expect(asked.has('three')).toBe(false);
  });

  claude.it('types nothing when it has ended', async () => {
    const { way, session } = await aSession([]);
    process.kill(session.terminal.pid, 'SIGKILL');
    await within(20_000, async () => (await way.options.states.latest()) === null);
    expect(await way.attempt([aParcel()], NEVER)).toMatchObject({ outcome: 'left', retry: true });
  });
});

describe(`mail through the terminal of OpenCode${openCode.why}`, () => {
  openCode.it(
    'is put before the model of an idle session, and nothing is typed into a draft or a question [C2C-32]',
    async () => {
      const { way, terminal, model, place } = await anOpenSession([
        say('read it'),
        call('bash', { command: 'touch made', description: 'x' }),
      ]);
      await terminal.type('half a thought');
      await seen(way, 'draft');
      expect(await way.attempt([aParcel()], NEVER)).toMatchObject({
        outcome: 'left',
        because: expect.stringContaining('draft'),
      });
      await terminal.keys('C-u');
      await seen(way, 'empty');
      const parcel = aParcel('-n several\nlines $HOME');
      expect(await way.attempt([parcel], NEVER)).toMatchObject({ outcome: 'offered', evidence: { entered: true } });
      expect((await model.saw(parcel.text)).count(parcel.text)).toBe(1);
      await seen(way, 'empty');
      await terminal.submit('make it');
      await seen(way, 'dialog');
      expect(await way.attempt([aParcel()], NEVER)).toMatchObject({
        outcome: 'left',
        because: expect.stringContaining('question'),
      });
      expect(existsSync(`${place.project}/made`)).toBe(false);
    },
  );
});

/** OpenCode in a terminal. Its sign says idle throughout: here it is the screen that forbids. */
async function anOpenSession(steps: Step[]) {
  const model = opens(aModel(steps));
  const place = await aPlace();
  const code = await anOpenCode({ place, model, settings: { permission: { bash: 'ask' } } });
  const terminal = await code.terminal();
  const server = opens(await TmuxServer.open({ socket: terminal.socket, env: terminal.env }));
  const pane = await server.terminal(terminal.pane);
  const states: StateReader = { latest: async () => ({ state: 'idle', at: 1, source: 'event' }) };
  const way = new TerminalWay({
    terminal: pane,
    states,
    composer: openCodeComposer,
    enterAfter: ENTER_MS,
    proofWithin: 0,
  });
  await seen(way, 'empty');
  return { model, place, terminal, way };
}

async function seen({ options }: TerminalWay, what: Composer): Promise<void> {
  await within(60_000, async () => {
    const screen = await options.terminal.screen();
    return screen !== null && options.composer(screen) === what;
  });
}

async function aSession(steps: Step[]) {
  const model = opens(aModel(steps));
  const place = await aPlace();
  const code = aClaude({ place, model, permissions: 'ask' });
  const session = await code.interactive(['--permission-mode', 'default']);
  const server = opens(await TmuxServer.open({ socket: session.terminal.socket, env: session.terminal.env }));
  const pane = await server.terminal(session.terminal.pane);
  await within(20_000, async () => (await shownBy(pane, claudeComposer)) === 'empty');
  return { model, place, session, pane, way: aWay(code.folder, session, pane) };
}

function aWay(folder: string, session: ClaudeSession, terminal: TmuxPane): TerminalWay {
  const states = new ClaudeStateReader(folder, session.registered()?.sessionId ?? '');
  return new TerminalWay({ terminal, states, composer: claudeComposer, enterAfter: ENTER_MS, proofWithin: 20_000 });
}

/** Until the screen of an idle session shows its composer again, nothing is typed. */
async function offered(way: TerminalWay, parcel: ReturnType<typeof aParcel>): Promise<void> {
  await within(20_000, async () => (await way.attempt([parcel], NEVER)).outcome !== 'left');
}

function asTerminal(pane: TmuxPane) {
  return {
    name: pane.name,
    tty: pane.tty,
    screen: () => pane.screen(),
    paste: (text: string) => pane.paste(text),
    enter: () => pane.enter(),
    erase: () => pane.erase(),
    close: () => pane.close(),
  };
}
