import type { Machine, RunningClient } from '../../test/clients/support/reached.ts';
import type { Terminal } from '../../test/clients/support/terminal.ts';
import { notMeasured, spoken, within } from '../figure.ts';
import type { Bench, Row } from '../figure.ts';
import { summary } from '../measure.ts';

const ROUNDS = 20;
const LIMIT_MS = 300;
/** The pause before each round: Parley types nothing within a second after a key of the user, and each round ends with one. */
const QUIET_MS = 1100;
const FLOOR = `a typed prompt + ${LIMIT_MS} ms`;
const NOTE =
  'From the start of `parley send` to the request of the idle client to its model, with the daemon of Parley; and from Enter after a typed prompt to that request. In turns, in one session.';

/** The time from a send to the real client's request to its model, compared with a prompt typed in its window. */
export async function reachedFigure(bench: Bench): Promise<Row[]> {
  // Read when the module of the machine is loaded, so set it before the import.
  process.env['PARLEY_TEST_PROGRAM'] ??= bench.program();
  const { REACHED } = await import('../../test/clients/support/reached-clients.ts');
  const rows: Row[] = [];
  for (const running of REACHED) rows.push(await reached(bench, running));
  return rows;
}

async function reached(bench: Bench, running: RunningClient): Promise<Row> {
  const what = `from \`send\` to the model of the real ${running.title}, beyond a typed prompt, median`;
  if (running.client.why) return notMeasured(what, FLOOR, 1, running.client.why.trim());
  const [{ aMachine }, { closeAll }] = await Promise.all([
    import('../../test/clients/support/reached.ts'),
    import('../../test/clients/support/opened.ts'),
  ]);
  try {
    const machine = await aMachine(running);
    const window = await machine.run();
    const times = { sent: [] as number[], typed: [] as number[] };
    const warmUp = 2;
    for (let round = -warmUp; round < (bench.quick ? 6 : ROUNDS); round += 1) {
      const [sent, typed] = [await bySend(machine, window, round), await byTyping(machine, window, round)];
      if (round < 0) continue;
      times.sent.push(sent);
      times.typed.push(typed);
    }
    const [ours, theirs] = [summary(times.sent), summary(times.typed)];
    const row = within(what, ours.median - theirs.median, LIMIT_MS, 'ms');
    return { ...row, floor: FLOOR, note: `${NOTE} Sent ${spoken(ours)}, typed ${spoken(theirs)}.` };
  } finally {
    await closeAll();
  }
}

async function bySend(machine: Machine, window: Terminal, round: number): Promise<number> {
  const text = `sent in round ${round}.`;
  if (machine.running.isTyped) await Bun.sleep(QUIET_MS);
  const since = Date.now();
  const [id, { at }] = await Promise.all([machine.send(text, { fyi: true }), machine.model.saw(text)]);
  await machine.until(id, 'shown');
  await machine.prepared.ready(window);
  return at - since;
}

async function byTyping(machine: Machine, window: Terminal, round: number): Promise<number> {
  const text = `typed in round ${round}.`;
  await window.paste(text);
  await window.shows(text);
  const since = Date.now();
  const [, { at }] = await Promise.all([window.keys('Enter'), machine.model.saw(text)]);
  await machine.prepared.ready(window);
  return at - since;
}
