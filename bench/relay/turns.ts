import type { Bench, Row } from '../figure.ts';
import { drive } from './process.ts';
import type { Relay } from './process.ts';

/** The part of each round that is not measured. */
const WARM_UP = 0.1;

export interface Rate {
  perSecond: number;
  median: number;
  p99: number;
}

interface Turns {
  ours: Relay;
  floor: Relay;
  connections: number;
  rounds?: number;
  /** Sends per round. */
  requests?: number;
  floorRequests?: number;
}

/** Measures both relays in alternating rounds, in reverse order every other time. A round begins only after the last one's relay has settled. */
export async function inTurn(
  bench: Bench,
  { ours, floor, connections, rounds = 5, requests: asked = 15_000, floorRequests }: Turns,
): Promise<[Rate, Rate]> {
  const many = bench.quick ? asked / 5 : asked;
  const contestants = [
    { relay: ours, requests: many, heard: [] as Rate[] },
    { relay: floor, requests: floorRequests ?? many, heard: [] as Rate[] },
  ];
  for (const { relay, requests } of contestants) {
    await drive(relay, { connections, requests: requests / 3 });
    await relay.settled();
  }
  for (let n = 0; n < (bench.quick ? 1 : rounds); n += 1) {
    for (const { relay, requests, heard } of n % 2 === 0 ? contestants : contestants.toReversed()) {
      heard.push(await drive(relay, { connections, requests, warmUp: Math.ceil(requests * WARM_UP) }));
      await relay.settled();
    }
  }
  const [mine, theirs] = contestants.map(({ heard }) => middle(heard)) as [Rate, Rate];
  return [mine, theirs];
}

export function middle(rates: Rate[]): Rate {
  return rates.toSorted((a, b) => a.perSecond - b.perSecond)[Math.floor(rates.length / 2)] as Rate;
}

/** The columns of a row for two rates. The ratio is how many times as long a send takes at ours. */
export function rates(ours: Rate, floor: Rate): Pick<Row, 'ours' | 'beside' | 'ratio' | 'tail'> {
  const spoken = ({ perSecond, median, p99 }: Rate): string =>
    `${Math.round(perSecond)}/s, ${median.toFixed(2)} / ${p99.toFixed(2)} ms`;
  return {
    ours: spoken(ours),
    beside: spoken(floor),
    ratio: floor.perSecond / ours.perSecond,
    tail: ours.p99 / floor.p99,
  };
}
