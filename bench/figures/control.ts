import { statSync, statfsSync } from 'node:fs';
import { ControlHome, LineServer } from '../control/server.ts';
import { fillFiles, fillJournal } from '../control/history.ts';
import { beside, notMeasured, spoken, within } from '../figure.ts';
import type { Bench, Row } from '../figure.ts';
import { interleave, summary, timed } from '../measure.ts';
import type { Times } from '../measure.ts';

const SESSIONS = 50;
const HISTORY_BYTES = 2 ** 30;
const IDLE_MS = 20_000;
const LOOK_MS = 1;

/** Control of sessions of the stand-in for Claude Code: the time that the server adds to the client's own time. */
export async function controlFigure(bench: Bench): Promise<Row[]> {
  if (!Bun.which('tmux') || process.platform !== 'linux')
    return [notMeasured('control: ping while 50 asks wait', BARE, null, 'tmux is not installed, or this is not Linux')];
  return [...(await manySessions(bench)), ...(await oneSession(bench)), ...(await longHistory(bench))];
}

const BARE = 'a bare line server';
const MEMORY = 'about 45 MB of it are pages of the program itself, which all its processes share';

async function manySessions(bench: Bench): Promise<Row[]> {
  bench.tell(`control: ${SESSIONS} sessions`);
  const home = new ControlHome(bench.fresh(), bench.program(), bench.quick ? 10 : SESSIONS);
  const count = home.names.length;
  const server = await home.listen();
  const bare = await LineServer.bare(bench.fresh());
  try {
    for (const session of home.names) await server.ask({ cmd: 'ask', session, text: 'hello' });
    const idleMs = bench.quick ? IDLE_MS / 4 : IDLE_MS;
    const before = server.processorMs();
    await Bun.sleep(idleMs);
    const share = (100 * (server.processorMs() - before)) / idleMs;
    const atRest = server.memory();

    const caller = await server.caller();
    const listed = await times(bench.quick ? 20 : 200, () => caller.ask({ cmd: 'sessions' }));
    const asks = home.names.map((session) => server.ask({ cmd: 'ask', session, text: 'wait @@{"hold":true}@@' }));
    await home.claude.prompted(2 * count);
    const bareCaller = await bare.caller();
    const pings = await interleave(bench.quick ? 200 : 2000, {
      ours: async () => void (await caller.ask({ cmd: 'ping' })),
      bare: async () => void (await bareCaller.ask({ cmd: 'ping' })),
    });
    const atWork = server.memory();
    for (const { pid } of home.claude.running()) await home.claude.order({ finish: 'done' }, pid);
    await Promise.all(asks);
    return [
      beside(`control: ping while ${count} asks wait`, BARE, null, pings.ours, pings.bare),
      within(
        `control: the p99 of that, beside twice the p99 of ${BARE}`,
        pings.ours.p99,
        round(2 * pings.bare.p99),
        'ms',
      ),
      bounded(`control: \`sessions\`, ${count} of them`, listed, 5),
      within(`control: processor time with ${count} sessions at rest, % of a core`, share, 2, '%'),
      within(`control: memory of the server with ${count} sessions at rest`, atRest, 80, 'MB'),
      { ...within('control: the same after the pings', atWork, 80, 'MB'), note: MEMORY },
    ];
  } finally {
    await bare.stop();
    await server.stop();
    await home.claude.close();
  }
}

async function oneSession(bench: Bench): Promise<Row[]> {
  bench.tell('control: one session');
  const home = new ControlHome(bench.fresh(), bench.program(), 1);
  const [session = ''] = home.names;
  const server = await home.listen();
  const rounds = bench.quick ? 5 : 40;
  try {
    await server.ask({ cmd: 'ask', session, text: 'hello' });
    const [typed, stored]: [number[], number[]] = [[], []];
    for (let n = 0; n < rounds; n += 1) {
      const before = linesSize(home);
      const start = performance.now();
      const sent = server.ask({ cmd: 'send', session, text: `send ${n} @@{"delay":0}@@` });
      while (linesSize(home) === before) await Bun.sleep(LOOK_MS);
      stored.push(performance.now() - start);
      if ((await sent)['status'] === 'submitted') typed.push(performance.now() - start);
      await emptied(server);
    }
    const asked = await times(rounds, (n) => server.ask({ cmd: 'ask', session, text: `ask ${n} @@{"delay":0}@@` }));
    const changes = await statusChanges(home, server, rounds);
    const starts = await interleave(
      bench.quick ? 2 : 8,
      {
        continued: async () => void (await server.ask({ cmd: 'continue', session })),
        own: () => startOfItsOwn(home),
      },
      1,
    );
    return [
      bounded('control: `send` until its line is in the history file', summary(stored), 50),
      bounded(
        `control: \`send\` until the client has it (${typed.length} of ${rounds} answered so)`,
        summary(typed),
        300,
      ),
      bounded('control: `ask` of a client that answers at once', asked, 300),
      bounded('control: change of status until a subscriber has it', changes, 50),
      {
        ...within(
          'control: `continue` beyond the start of the client',
          starts.continued.median - starts.own.median,
          500,
          'ms',
        ),
        note: `\`continue\` ${spoken(starts.continued)}, the start of the client ${spoken(starts.own)}`,
      },
    ];
  } finally {
    await server.stop();
    await home.claude.close();
  }
}

/** The time from a status change in the client's own record to our event. */
async function statusChanges(home: ControlHome, server: LineServer, rounds: number): Promise<Times> {
  const caller = await server.caller();
  let event = await caller.ask({ cmd: 'subscribe', sessions: home.names });
  while (event['status'] !== 'idle') event = await caller.next();
  const changes: number[] = [];
  for (let n = 0; n < rounds; n += 1) {
    for (const [status, shown] of [
      ['busy', 'active'],
      ['idle', 'idle'],
    ] as const) {
      // A random pause, so that the changes are not in step with the server's polls.
      await Bun.sleep(200 + Math.random() * 500);
      const start = performance.now();
      const ordered = home.claude.order({ status });
      while (event['status'] !== shown) event = await caller.next();
      changes.push(performance.now() - start);
      await ordered;
    }
  }
  caller.close();
  return summary(changes);
}

/** Starts the client in tmux without a server, and waits until it reports that it is at its prompt. */
async function startOfItsOwn({ claude, home }: ControlHome): Promise<void> {
  const pane = await claude.tmux(
    'new-session',
    '-d',
    '-P',
    '-F',
    '#{pane_pid}',
    '-c',
    home,
    '--',
    'env',
    claude.program,
  );
  const pid = Number(pane.trim());
  while (claude.registered(pid)?.['status'] !== 'idle') await Bun.sleep(LOOK_MS);
  process.kill(pid);
}

async function longHistory(bench: Bench): Promise<Row[]> {
  const bytes = bench.quick ? HISTORY_BYTES / 16 : HISTORY_BYTES;
  const empty = new ControlHome(bench.fresh(), bench.program(), 10);
  const full = new ControlHome(bench.fresh(), bench.program(), 10);
  const { bavail, bsize } = statfsSync(full.home);
  const what = 'control: `ccc listen` until the first ping';
  if (bavail * bsize < 4 * bytes) return [notMeasured(what, '300 ms', 1, 'there is too little room on the disk')];
  bench.tell(`control: ${bytes / 2 ** 20} MB of history`);
  fillFiles(full.home, full.names.length, bytes);
  // Not measured: only the first start looks for the ids of the earlier ccc.
  const first = await firstPing(full);
  await firstPing(empty);
  const rounds = bench.quick ? 3 : 15;
  const [none, earlier, own]: [number[], number[], number[]] = [[], [], []];
  for (let n = 0; n < rounds; n += 1) {
    none.push(await firstPing(empty));
    earlier.push(await firstPing(full));
  }
  const earlierActivity = await activityOf(full, bench);
  fillJournal(full.home, full.names, bytes);
  for (let n = 0; n < rounds; n += 1) own.push(await firstPing(full));
  const ownActivity = await activityOf(full, bench);
  for (const home of [empty, full]) await home.claude.close();
  const size = `${bytes / 2 ** 20} MB`;
  return [
    bounded(`${what}, no history`, summary(none), 300),
    within(`${what}, ${size} of an earlier ccc, the very first time`, first, 300, 'ms'),
    bounded(`${what}, ${size} of an earlier ccc`, summary(earlier), 300),
    bounded(`${what}, ${size} of our own besides`, summary(own), 300),
    bounded(`control: \`activity\` over ${size} of an earlier ccc`, earlierActivity, 5),
    bounded(`control: \`activity\` over ${size} of our own besides`, ownActivity, 5),
  ];
}

/** The time from the start of a server to its first answer. Then stops the server, which is not counted. */
async function firstPing(home: ControlHome): Promise<number> {
  const start = performance.now();
  const server = await home.listen();
  await server.ask({ cmd: 'ping' });
  const taken = performance.now() - start;
  await server.stop();
  return taken;
}

async function activityOf(home: ControlHome, bench: Bench): Promise<Times> {
  const server = await home.listen();
  const caller = await server.caller();
  const taken = await times(bench.quick ? 20 : 200, () => caller.ask({ cmd: 'activity' }));
  await server.stop();
  return taken;
}

async function times(rounds: number, act: (n: number) => Promise<unknown>): Promise<Times> {
  const taken: number[] = [];
  for (let n = 0; n < rounds; n += 1) taken.push(await timed(async () => void (await act(n))));
  return summary(taken);
}

/** A row for times with an absolute limit, which the median must keep. */
function bounded(what: string, taken: Times, limit: number): Row {
  return { ...within(what, taken.median, limit, 'ms'), ours: spoken(taken), tail: taken.p99 / limit };
}

const round = (ms: number): number => Math.round(10 * ms) / 10;

async function emptied(server: LineServer): Promise<void> {
  while (((await server.ask({ cmd: 'queue' }))['queue'] as unknown[]).length > 0) await Bun.sleep(10);
}

/** The size of all history files of the session. */
function linesSize({ home }: ControlHome): number {
  const root = `${home}/.ccc/history`;
  const names = [...new Bun.Glob('*/messages/*.jsonl').scanSync(root)];
  return names.reduce((sum, name) => sum + statSync(`${root}/${name}`).size, 0);
}
