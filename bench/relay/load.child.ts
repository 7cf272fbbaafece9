// Drives a relay over some connections until so many sends are answered; says how long they took.
import { summary } from '../measure.ts';
import { sendRequest, Wire } from './wire.ts';

export interface Load {
  port: number;
  /** Each connection speaks for the next of these. */
  tokens: string[];
  to: string[];
  connections: number;
  requests: number;
}

/** What came of it: all sends were answered with 200. */
export interface Loaded {
  perSecond: number;
  median: number;
  p99: number;
}

const BODY = 'x'.repeat(500);
const plan = JSON.parse(process.argv[2] ?? '') as Load;
const wires = await Promise.all(Array.from({ length: plan.connections }, () => Wire.open(plan.port)));
/** What each connection asks for, in turn. Made beforehand: for 1,000 agents they are 64,000, and to write them takes 0.15 s, a fifteenth of a round. */
const asked = wires.map((_, at) => {
  const token = plan.tokens[at % plan.tokens.length] ?? '';
  return plan.to.map((to) => sendRequest(token, to, BODY));
});
const times: number[] = [];
let left = plan.requests;
const start = Bun.nanoseconds();
await Promise.all(wires.map(drive));
const ms = (Bun.nanoseconds() - start) / 1e6;
for (const wire of wires) wire.close();
const { median, p99 } = summary(times);
console.log(JSON.stringify({ perSecond: (plan.requests / ms) * 1000, median, p99 } satisfies Loaded));
process.exit(0);

async function drive(wire: Wire, at: number): Promise<void> {
  const requests = asked[at] ?? [];
  for (let turn = at; left > 0; turn += plan.connections) {
    left -= 1;
    const before = Bun.nanoseconds();
    const status = await wire.ask(requests[turn % requests.length] as Uint8Array);
    times.push((Bun.nanoseconds() - before) / 1e6);
    if (status !== 200) throw new Error(`a send was answered with ${status}`);
  }
}
