// Sends to a relay over several connections until all sends are answered, and prints how long they took.
import type { AgentName } from '../../src/core/names.ts';
import { newSenderId } from '../../src/core/names.ts';
import { summary } from '../measure.ts';
import { keyLines, sendHead, sendRest, Wire } from './wire.ts';

export interface Load {
  port: number;
  /** The senders' tokens. Each connection uses the next one. */
  tokens: string[];
  to: string[];
  connections: number;
  requests: number;
  /** Unmeasured requests at the start: they give Bun time to compile this program, which must be faster than the server that it measures. */
  warmUp?: number;
}

/** The result. All sends were answered with 200. */
export interface Loaded {
  perSecond: number;
  median: number;
  p99: number;
}

const BODY = 'x'.repeat(500);
const plan = JSON.parse(process.argv[2] ?? '') as Load;
const wires = await Promise.all(Array.from({ length: plan.connections }, () => Wire.open(plan.port)));
/**
 * The requests are made beforehand, in two parts: as whole texts, those of 64 connections to 1,000 agents would be 45 MB, more than a
 * processor's cache. There are as many for one agent as for a thousand, so that the cost of reading them is the same.
 */
const heads = wires.map((_, at) => sendHead(plan.tokens[at % plan.tokens.length] ?? ''));
const rests = Array.from({ length: 1000 }, (_, at) => sendRest(plan.to[at % plan.to.length] ?? '', BODY));
/** A key and an id of the sender's own for each request, as our clients send them. The original relay ignores both. */
const lines = wires.map((_, at) => {
  const from = (plan.to[at % plan.to.length] ?? '').slice(1) as AgentName;
  const many = Math.ceil(((plan.warmUp ?? 0) + plan.requests) / plan.connections) * 2;
  return Array.from({ length: many }, () => keyLines(newSenderId(from)));
});
const times: number[] = [];
let left = plan.warmUp ?? 0;
await Promise.all(wires.map(drive));
times.length = 0;
left = plan.requests;
const start = Bun.nanoseconds();
await Promise.all(wires.map(drive));
const ms = (Bun.nanoseconds() - start) / 1e6;
for (const wire of wires) wire.close();
const { median, p99 } = summary(times);
console.log(JSON.stringify({ perSecond: (plan.requests / ms) * 1000, median, p99 } satisfies Loaded));
process.exit(0);

async function drive(wire: Wire, at: number): Promise<void> {
  const head = heads[at] ?? '';
  for (let turn = at; left > 0; turn += plan.connections) {
    left -= 1;
    const key = lines[at]?.pop() ?? keyLines(crypto.randomUUID());
    const before = Bun.nanoseconds();
    const status = await wire.ask(head + key + (rests[turn % rests.length] ?? ''));
    times.push((Bun.nanoseconds() - before) / 1e6);
    if (status !== 200) throw new Error(`a send was answered with ${status}`);
  }
}
