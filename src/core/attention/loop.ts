import type { Lineage } from '../message.ts';

/** How many echoes in a row are shown. The next one is stored quietly. */
const ECHOES_SHOWN = 3;
/** A long exchange: this many messages of agents only, within this time, with no disposition and no checkable fact among them. */
export const LONG_EXCHANGE = 48;
const LONG_EXCHANGE_MS = 60 * 60 * 1000;

/** Which guard holds a message. `echo`: the exchange has this text already. `long`: the exchange is a long one. spec: c2a#loops */
export type Guard = 'echo' | 'long';

/** One earlier message of an exchange, as far as the length of the exchange goes. */
export interface ExchangeTurn {
  /** When it was sent (ms). */
  at: number;
  byAgent: boolean;
  /** It holds a checkable fact that the exchange did not hold before. */
  fact: boolean;
  /** It is a reaction, or a reader has acknowledged, claimed, deferred or resolved it. An answer is no disposition here. */
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
