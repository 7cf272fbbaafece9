import { notMeasured } from '../figure.ts';
import type { Bench, Row } from '../figure.ts';
import { startPeerRelay } from '../relay/peer.ts';
import { startRelay } from '../relay/process.ts';
import { inTurn, rates } from '../relay/turns.ts';

const ORIGINAL = 'the original `bch relay`, which flushes nothing';
/** How many times as fast as the original ours should be. All sends have a key and follow without a pause, so ours writes files meanwhile. */
const TIMES_AS_FAST = [
  { connections: 64, agents: 1, times: 2, requests: 30_000, floorRequests: 10_000 },
  { connections: 16, agents: 1, times: 1.5, requests: 20_000, floorRequests: 10_000 },
  { connections: 1, agents: 1, times: 0.6, requests: 3000, floorRequests: 3000 },
  // Here it answers some seventy a second.
  { connections: 64, agents: 1000, times: 50, requests: 15_000, floorRequests: 300, rounds: 3 },
];

/** Our relay compared with the original one, if PEER_BCH is the path of a copy of it. */
export async function relayOriginalFigure(bench: Bench): Promise<Row[]> {
  const program = process.env['PEER_BCH'];
  const rows: Row[] = [];
  for (const { agents, times, rounds = 9, ...load } of TIMES_AS_FAST) {
    const crowd = agents > 1 ? `, ${agents.toLocaleString('en')} agents` : '';
    const what = `relay: durable sends with a key, ${load.connections} connections${crowd}`;
    const limit = Math.floor(1000 / times) / 1000;
    if (!program) {
      rows.push(notMeasured(what, ORIGINAL, limit, 'PEER_BCH names no copy of bch'));
      continue;
    }
    const ours = await startRelay({ home: bench.fresh(), agents, storage: true });
    const floor = await startPeerRelay(program, bench.fresh(), agents);
    const [mine, theirs] = await inTurn(bench, { ours, floor, rounds, ...load });
    rows.push({ what, floor: ORIGINAL, ...rates(mine, theirs), limit });
    for (const relay of [ours, floor]) await relay.stop();
  }
  return rows;
}
