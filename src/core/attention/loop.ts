import type { Lineage } from '../message.ts';

/** How many echoes in a row are shown. The next one is stored quietly. */
const ECHOES_SHOWN = 3;
/** A long exchange has this many messages within `LONG_EXCHANGE_MS`, all of agents, without a disposition and without a checkable fact. */
export const LONG_EXCHANGE = 48;
const LONG_EXCHANGE_MS = 60 * 60 * 1000;

/** The guard that holds a message back. `echo`: the message repeats its exchange. `long`: the exchange is a long one. spec: c2a#loops */
export type Guard = 'echo' | 'long';

/** The parts of an earlier message that decide whether its exchange is a long one. */
export interface ExchangeTurn {
  /** When it was sent (ms). */
  at: number;
  byAgent: boolean;
  /** The message has a checkable fact that is new in the exchange. */
  fact: boolean;
  /** The message is a reaction, or a reader has acknowledged, claimed, deferred or resolved it. An answer does not count. */
  disposition: boolean;
}

export function breaksEcho({ echoes = 0 }: Lineage): boolean {
  return echoes > ECHOES_SHOWN;
}

/** Is a message that is sent now part of a long exchange? `turns` are the last `LONG_EXCHANGE` messages before it, oldest first. */
export function isLongExchange(turns: readonly ExchangeTurn[], now: number): boolean {
  const [first] = turns;
  if (!first || turns.length < LONG_EXCHANGE || now - first.at > LONG_EXCHANGE_MS) return false;
  return turns.every(({ byAgent, fact, disposition }) => byAgent && !fact && !disposition);
}
