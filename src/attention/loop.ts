import type { Lineage } from '../protocol/message.ts';

/** Agents may pass this many messages back and forth without a new fact; the last of them is no longer shown. */
const HOPS_WITHOUT_A_NEW_FACT = 6;

/**
 * Has this exchange stopped getting anywhere? `agentOnly`: nobody but agents has spoken since the last new fact;
 * people may talk in circles as long as they like. spec: c2a#loops
 */
export function breaksLoop(lineage: Lineage | undefined, agentOnly: boolean): boolean {
  return agentOnly && lineage !== undefined && lineage.stale >= HOPS_WITHOUT_A_NEW_FACT;
}
