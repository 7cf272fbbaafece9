// A text of ours that stayed in the composer of the real Kimi: it is sent or removed, never joined with another, and a user's is not touched.
import { afterEach, describe, expect } from 'bun:test';
import { HeldKimi } from '../../src/clients/kimi/held.ts';
import { isKimiReady, kimiComposer } from '../../src/clients/kimi/state.ts';
import { AgentName } from '../../src/core/names.ts';
import { askHolder, HeldSessions, TerminalHolder } from '../../src/delivery/held-session.ts';
import type { HolderOptions } from '../../src/delivery/held-session.ts';
import { aParcel } from '../../src/delivery/way.contract.ts';
import { OwnPty } from '../../src/sessions/pty.ts';
import type { Terminal } from '../../src/sessions/terminal.ts';
import { PARLEY } from '../support/program.ts';
import { within } from '../support/within.ts';
import { aModel } from './model/model.ts';
import { aKimi } from './support/kimi.ts';
import { closeAll, opens } from './support/opened.ts';
import { aPlace } from './support/place.ts';
import { endAll } from './support/processes.ts';
import { aTerminal } from './support/terminal.ts';
import { client } from './support/where.ts';

const real = client('kimi');
const DEADLINE = 200_000;
/** Kimi draws many lines as `[paste #1 +30 lines]`. */
const LINES = Array.from({ length: 30 }, (_, n) => `line ${n}`).join('\n');
afterEach(closeAll);

describe(`a text of ours in the composer of Kimi${real.why}`, () => {
  for (const [what, body] of [
    ['a few lines', 'It is red.\nAnd it was green.'],
    ['many lines', LINES],
  ] as const) {
    real.it(`is sent once if Kimi did not take Enter: ${what}`, async () => {
      const { model, type, held } = await aHeldKimi();
      held.lost = 1;
      const [parcel, next] = [aParcel(body), aParcel('green')];
      expect(await type(parcel)).toMatchObject({ typed: 'entered' });
      const asked = await model.saw(parcel.text);
      expect(asked.count(parcel.text)).toBe(1);
      await within(DEADLINE, async () => (await type(next))?.typed === 'entered');
      const second = await model.saw(next.text);
      expect([second.count(parcel.text), second.count(next.text)]).toEqual([1, 1]);
      expect(second.where(next.text)).toMatchObject([{ text: next.text }]);
      expect(model.main).toHaveLength(2);
    });

    real.it(`is removed if Kimi takes no Enter at all, and can be typed again: ${what}`, async () => {
      const { model, type, said, held, seen } = await aHeldKimi();
      held.lost = 3;
      const parcel = aParcel(body);
      expect(await type(parcel)).toMatchObject({ typed: 'entered' });
      await within(DEADLINE, async () => (await said(parcel))?.typed === 'waits');
      expect([await seen(), model.main.length]).toEqual(['empty', 0]);
      await within(DEADLINE, async () => (await type(parcel))?.typed === 'entered');
      expect((await model.saw(parcel.text)).count(parcel.text)).toBe(1);
    });
  }

  real.it("is its user's after a key: nothing is sent or removed", async () => {
    const { model, type, held, pty } = await aHeldKimi();
    held.lost = 1;
    const parcel = aParcel(LINES);
    const typed = type(parcel);
    await within(DEADLINE, async () => held.lost === 0);
    held.press(' and mine');
    expect(await typed).toMatchObject({ typed: 'entered' });
    await Bun.sleep(5000);
    const lines = (await pty.screen())?.lines ?? [];
    expect(lines.some((line) => /> \[paste #1 \+\d+ lines\] and mine/.test(line))).toBe(true);
    expect([await type(aParcel('green')), model.main.length]).toMatchObject([{ typed: 'waits' }, 0]);
  });

  real.it('is gone with a holder that is killed: the next Kimi begins with an empty composer', async () => {
    const { model, place, code } = await aHome();
    const run = () => aTerminal(place, [PARLEY, 'run', 'kimi'], { env: code.env });
    const first = await run();
    await code.ready(first);
    await first.paste(LINES);
    await first.shows('[paste #1');
    await endAll([first.pid]);
    const second = await run();
    await code.ready(second);
    expect(await second.screen()).toMatch(/│ >\s+│/);
    expect(model.main).toHaveLength(0);
  });
});

async function aHome() {
  const model = opens(aModel());
  const place = await aPlace();
  const code = aKimi({ place, model });
  code.trustProject();
  return { model, place, code };
}

/** The real Kimi in a terminal of this process, which loses Enters. */
async function aHeldKimi() {
  const { model, place, code } = await aHome();
  const home = `${place.home}/.parley`;
  let holder: TerminalHolder | null = null;
  const [cwd, env] = [place.project, code.env];
  const pty = opens(new OwnPty([`${place.home}/bin/kimi`], { cwd, env, shown: () => holder?.drew() }));
  const held = new LosingTerminal(pty);
  const own = new HeldKimi({ pid: pty.pid, startedAt: pty.startedAt, folder: cwd, args: [], env });
  const name = AgentName.parse('kimi.project');
  const typing = { own, composer: kimiComposer };
  holder = new TerminalHolder({ home, client: 'kimi', name, folder: cwd, held, typing, enteredMs: 2000 });
  await holder.open();
  opens({ close: async () => holder?.close() });
  await within(DEADLINE, async () => {
    const screen = await pty.screen();
    return screen !== null && isKimiReady(screen) && kimiComposer(screen) === 'empty';
  });
  const sessions = new HeldSessions(home);
  const socket = (): string => sessions.socketOf(sessions.all()[0] as never);
  const type = ({ id, text }: { id: string; text: string }) =>
    askHolder(socket(), { type: { ids: [id], text } }, DEADLINE);
  const said = ({ id }: { id: string }) => askHolder(socket(), { typed: id }, DEADLINE);
  const seen = async () => {
    const screen = await pty.screen();
    return screen && kimiComposer(screen);
  };
  return { model, held, pty, type, said, seen };
}

class LosingTerminal implements Pick<HolderOptions['held'], keyof HolderOptions['held']> {
  /** So many Enters do not arrive. */
  lost = 0;
  keyAt = -Infinity;
  readonly hasWaitingKeys = false;

  constructor(readonly pty: OwnPty) {}

  get quietMs(): number {
    return performance.now() - this.keyAt;
  }

  /** Its user presses keys. */
  press(keys: string): void {
    this.keyAt = performance.now();
    this.pty.type(keys);
  }

  alone<T>(act: (terminal: Terminal) => Promise<T>): Promise<T> {
    const { pty } = this;
    const enter = async (): Promise<void> => {
      if (this.lost === 0) await pty.enter();
      else this.lost -= 1;
    };
    return act({
      name: pty.name,
      tty: pty.tty,
      screen: () => pty.screen(),
      paste: (text) => pty.paste(text),
      erase: () => pty.erase(),
      close: () => pty.close(),
      enter,
    });
  }
}
