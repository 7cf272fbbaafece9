import { notMeasured } from '../figure.ts';
import type { Bench, Row } from '../figure.ts';
import { startPeerRelay } from '../relay/peer.ts';
import { startRelay } from '../relay/process.ts';
import { inTurn, rates } from '../relay/turns.ts';
import type { Rate } from '../relay/turns.ts';

const ORIGINAL = 'the original `bch relay`, which flushes nothing';
/** How many times as fast as the original ours should be, with so many connections and agents. */
const TIMES_AS_FAST = [
  { connections: 16, agents: 1, times: 1.7 },
  { connections: 64, agents: 1, times: 3.5 },
  { connections: 64, agents: 1000, times: 50 },
];
/** Without a pause: three times what our relay lays aside before it begins to enter it. */
const LONG = 60_000;
const LASTING = { connections: 64, requests: LONG, floorRequests: 15_000, rounds: 3 };
const LATER =
  'a burst is answered from the in-tray and entered in the ledger later; in this load, that and the files have to be done meanwhile';

/** Our relay beside the original one, if PEER_BCH names a copy of it. */
export async function relayOriginalFigure(bench: Bench): Promise<Row[]> {
  const title = ({ connections, agents }: (typeof TIMES_AS_FAST)[number]): string =>
    `relay: durable sends, ${connections} connections${agents > 1 ? `, ${agents.toLocaleString('en')} agents` : ''}`;
  const tail = 'relay: p99 of a durable send, 64 connections';
  const long = `relay: ${LONG.toLocaleString('en')} durable sends without a pause, 64 connections`;
  const program = process.env['PEER_BCH'];
  if (!program) {
    const why = 'PEER_BCH names no copy of bch';
    const rows = TIMES_AS_FAST.map((one) => notMeasured(title(one), ORIGINAL, rounded(1 / one.times), why));
    return [...rows, notMeasured(tail, `${ORIGINAL}: its median`, 1, why), notMeasured(long, ORIGINAL, null, why)];
  }
  const rows: Row[] = [];
  for (const one of TIMES_AS_FAST) {
    const { connections, agents, times } = one;
    const ours = await startRelay({ home: bench.fresh(), agents, storage: true });
    const floor = await startPeerRelay(program, bench.fresh(), agents);
    // With a thousand agents it answers some seventy a second.
    const few = agents > 1 ? { floorRequests: 300, rounds: 3 } : { rounds: 9 };
    const [mine, theirs] = await inTurn(bench, { ours, floor, connections, ...few });
    rows.push({ what: title(one), floor: ORIGINAL, ...rates(mine, theirs), limit: rounded(1 / times) });
    if (connections === 64 && agents === 1) {
      rows.push(tailRow(tail, mine, theirs));
      const [lasting, steady] = await inTurn(bench, { ours, floor, ...LASTING });
      rows.push({ what: long, floor: ORIGINAL, ...rates(lasting, steady), limit: null, note: LATER });
    }
    for (const relay of [ours, floor]) await relay.stop();
  }
  return rows;
}

function tailRow(what: string, ours: Rate, original: Rate): Row {
  const ms = (time: number): string => `${time.toFixed(2)} ms`;
  const [mine, theirs] = [ours.p99, original.median];
  return {
    what,
    floor: `${ORIGINAL}: its median`,
    ours: ms(mine),
    beside: ms(theirs),
    ratio: mine / theirs,
    tail: null,
    limit: 1,
  };
}

function rounded(ratio: number): number {
  return Math.floor(ratio * 1000) / 1000;
}
