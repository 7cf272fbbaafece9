import { closeSync, fdatasyncSync, openSync, readdirSync, writeSync } from 'node:fs';
import { within } from '../figure.ts';
import type { Bench, Row } from '../figure.ts';
import { summary, timed } from '../measure.ts';
import type { Times } from '../measure.ts';
import { listen } from '../relay/listen.ts';
import { drive, startRelay } from '../relay/process.ts';
import type { Relay } from '../relay/process.ts';
import { inTurn, middle, rates } from '../relay/turns.ts';
import type { Rate } from '../relay/turns.ts';
import { sendRequest, Wire } from '../relay/wire.ts';

const BODY = 'x'.repeat(500);

/** A durable send over HTTP, compared with the same server without storage and with the disk alone. */
export async function relayFigure(bench: Bench): Promise<Row[]> {
  bench.tell('the relay: sends');
  const durable = await startRelay({ home: bench.fresh(), agents: 1, storage: true });
  const bare = await startRelay({ home: bench.fresh(), agents: 1, storage: false });
  const rows = [
    await rateRow(bench, durable, bare, 64, 2),
    await rateRow(bench, durable, bare, 16, 4),
    await aloneRow(bench, durable),
  ];
  for (const relay of [durable, bare]) await relay.stop();
  return [...rows, await crowdRow(bench)];
}

/** The time per send with this many connections. Both relays are measured in turn, and the median round of each counts. */
async function rateRow(bench: Bench, ours: Relay, floor: Relay, connections: number, limit: number): Promise<Row> {
  const [mine, theirs] = await inTurn(bench, { ours, floor, connections });
  return {
    what: `relay: durable sends with a key, ${connections} connections`,
    floor: 'the same server with storage off',
    ...rates(mine, theirs),
    limit,
  };
}

/** How many new relays of each kind are measured: of two identical ones, one can be a tenth slower in all rounds. */
const PAIRS = 15;
const LUCK = `the middle one of ${PAIRS} ratios, each of two fresh relays: of two that are alike, one can be a tenth slower than the other from its start to its end`;

async function crowdRow(bench: Bench): Promise<Row> {
  const pairs: [Rate, Rate][] = [];
  for (let n = 0; n < (bench.quick ? 1 : PAIRS); n += 1) {
    const one = await startRelay({ home: bench.fresh(), agents: 1, storage: true });
    const crowd = await startRelay({ home: bench.fresh(), agents: 1000, storage: true });
    pairs.push(await inTurn(bench, { ours: crowd, floor: one, connections: 64, rounds: 1 }));
    for (const relay of [one, crowd]) await relay.stop();
  }
  const ratios = pairs.map(([mine, theirs]) => rates(mine, theirs));
  return {
    what: 'relay: durable sends with a key, 1,000 agents, 64 connections',
    floor: 'with one agent',
    ...rates(middle(pairs.map(([mine]) => mine)), middle(pairs.map(([, theirs]) => theirs))),
    ratio: summary(ratios.map(({ ratio }) => ratio ?? NaN)).median,
    tail: summary(ratios.map(({ tail }) => tail ?? NaN)).median,
    limit: 1.3,
    note: LUCK,
  };
}

/** Sends on one connection, which wait for every flush, compared with a program that appends the same bytes to a file and flushes it. */
async function aloneRow(bench: Bench, relay: Relay): Promise<Row> {
  const fd = openSync(`${bench.fresh()}/log`, 'a');
  const bytes = new TextEncoder().encode(JSON.stringify({ id: crypto.randomUUID(), to: '@agent-0', body: BODY }));
  const wire = await Wire.open(relay.port);
  const times = { ours: [] as number[], floor: [] as number[] };
  for (let n = -30; n < (bench.quick ? 200 : 1000); n += 1) {
    const request = sendRequest('token-0', '@agent-0', BODY);
    const ours = await timed(async () => {
      await wire.ask(request);
    });
    const floor = await timed(() => {
      writeSync(fd, bytes);
      fdatasyncSync(fd);
    });
    if (n < 0) continue;
    times.ours.push(ours);
    times.floor.push(floor);
  }
  wire.close();
  closeSync(fd);
  const [ours, floor] = [summary(times.ours), summary(times.floor)];
  const spoken = ({ median, p99 }: typeof ours): string => `${median.toFixed(2)} / ${p99.toFixed(2)} ms`;
  return {
    what: 'relay: a durable send with a key, 1 connection',
    floor: 'append + fdatasync',
    ours: spoken(ours),
    beside: spoken(floor),
    ratio: ours.median / floor.median,
    tail: ours.p99 / floor.p99,
    limit: null,
  };
}

/** The time from the request of a send to its event at a listener, and the memory for listeners and messages. */
export async function eventsFigure(bench: Bench): Promise<Row[]> {
  bench.tell('the relay: events');
  const waiting = bench.quick ? 1000 : 10_000;
  const listeners = bench.quick ? 500 : 10_000;
  const flood = bench.quick ? 5000 : 100_000;
  const home = bench.fresh();
  const relay = await startRelay({ home, agents: 2, storage: true });
  const filed = await fileTimes(bench, relay, home, 0, 1);
  const burst = await fileTimes(bench, relay, home, 1, 10);
  const empty = await eventTimes(bench, relay, 0);
  await drive({ ...relay, names: ['agent-1'] }, { connections: 16, requests: waiting });
  const full = await eventTimes(bench, relay, 1);
  await relay.stop();
  const crowd = await startRelay({ home: bench.fresh(), agents: listeners, storage: true });
  const before = crowd.memory();
  const streams = [];
  for (let n = 0; n < listeners; n += 1) streams.push(await listen(crowd, n, () => {}));
  const each = (crowd.memory() - before) / listeners;
  const stays = ((await settled(crowd)) - before) / listeners;
  for (const stream of streams) stream.close();
  await crowd.stop();
  return [
    within('relay: send → file in new/, idle, p99', filed.p99, 100, 'ms'),
    within('relay: ten sends at once → the last file in new/, p99', burst.p99, 100, 'ms'),
    within('relay: send → event, empty inbox, p99', empty.p99, 10, 'ms'),
    within(`relay: send → event, ${waiting.toLocaleString('en')} waiting, p99`, full.p99, 10, 'ms'),
    within(`relay: memory per listener, ${listeners.toLocaleString('en')} of them`, each / 1024, 20, 'KB'),
    within('the same when it has been idle', stays / 1024, 20, 'KB'),
    ...(await floodRows(bench, flood)),
  ];
}

/** The relay's memory after it had time to collect garbage: a single sample may fall before or after a collection. */
async function settled(relay: Relay): Promise<number> {
  let least = relay.memory();
  for (let n = 0; n < 12; n += 1) {
    await Bun.sleep(500);
    least = Math.min(least, relay.memory());
  }
  return least;
}

/** The time from the answer to the last of many sends until its file is there. The next sends begin when all files are there. */
async function fileTimes(bench: Bench, relay: Relay, home: string, agent: number, atOnce: number): Promise<Times> {
  const wires = await Promise.all(Array.from({ length: atOnce }, () => Wire.open(relay.port)));
  const folder = `${home}/spool/agent-${agent}/new`;
  const times: number[] = [];
  for (let n = 1; n <= (bench.quick ? 10 : 101); n += 1) {
    await Promise.all(wires.map((wire) => wire.ask(sendRequest('token-0', `@agent-${agent}`, BODY))));
    const ms = await timed(async () => {
      while (filesIn(folder) < n * atOnce) await Bun.sleep(1);
    });
    // The first message makes the mailbox.
    if (n > 1) times.push(ms);
    // A pause, as between two unrelated sends.
    await Bun.sleep(100);
  }
  for (const wire of wires) wire.close();
  return summary(times);
}

function filesIn(folder: string): number {
  try {
    return readdirSync(folder).length;
  } catch {
    return 0;
  }
}

async function eventTimes(bench: Bench, relay: Relay, agent: number): Promise<{ p99: number }> {
  let heard: (() => void) | undefined;
  let wanted = '';
  let tail = '';
  const stream = await listen(relay, agent, (text) => {
    tail = (tail + text).slice(-2000);
    if (wanted && tail.includes(wanted)) heard?.();
  });
  const wire = await Wire.open(relay.port);
  const times: number[] = [];
  for (let n = -20; n < (bench.quick ? 100 : 500); n += 1) {
    wanted = crypto.randomUUID();
    const request = sendRequest('token-0', `@agent-${agent}`, `${BODY.slice(36)}${wanted}`);
    const ms = await timed(async () => {
      const event = new Promise<void>((resolve) => {
        heard = resolve;
      });
      await Promise.all([wire.ask(request), event]);
    });
    if (n >= 0) times.push(ms);
  }
  wire.close();
  stream.close();
  return summary(times);
}

/** Memory of a relay with one listener that reads all messages: during the last messages compared with the first, and after an idle time. */
async function floodRows(bench: Bench, messages: number): Promise<Row[]> {
  const relay = await startRelay({ home: bench.fresh(), agents: 1, storage: true });
  const stream = await listen(relay, 0, () => {});
  await drive(relay, { connections: 64, requests: messages / 10 });
  const earlyStays = await settled(relay);
  const seen: number[] = [];
  const look = setInterval(() => seen.push(relay.memory()), 50);
  await drive(relay, { connections: 64, requests: messages - messages / 10 });
  clearInterval(look);
  const lateStays = await settled(relay);
  stream.close();
  await relay.stop();
  const tenth = Math.ceil(seen.length / 9);
  // Several samples: at one moment, much or little of the memory may be garbage.
  const [early, late] = [summary(seen.slice(0, tenth)).median, summary(seen.slice(-tenth)).median];
  const mb = (bytes: number): string => `${Math.round(bytes / 2 ** 20)} MB`;
  const row = (what: string, floor: string, after: number, before: number): Row => ({
    what,
    floor,
    ours: mb(after),
    beside: mb(before),
    ratio: after / before,
    tail: null,
    limit: 1.25,
  });
  return [
    row(
      `relay: memory while the last tenth of ${messages.toLocaleString('en')} messages comes, one listener, median`,
      'while the second tenth comes',
      late,
      early,
    ),
    row('the same when it has been idle', 'idle after the first tenth', lateStays, earlyStays),
  ];
}
