import { brokerHeap, brokerKills, brokerShared, brokerWriters } from './c2c-broker.ts';
import { controlFaults } from './control-faults.ts';
import type { Drill } from './drill.ts';
import { failingCalls } from './failing-calls.ts';
import { hostChaos } from './host-chaos.ts';
import { hostKills } from './host-kills.ts';
import { followFaults } from './follow-faults.ts';
import { hooks } from './hooks.ts';
import { killsAtAnyMoment, killsAtSteps } from './kills.ts';
import { relayFuzz } from './relay-fuzz.ts';
import { relayKills } from './relay-kills.ts';
import { retries } from './retries.ts';
import { liveRuins, ruins } from './ruins.ts';
import { subscribes } from './subscribes.ts';
import { takers } from './takers.ts';

/** In the order in which they run. */
export const DRILLS: readonly Drill[] = [
  takers,
  retries,
  killsAtSteps,
  killsAtAnyMoment,
  ruins,
  liveRuins,
  subscribes,
  hooks,
  relayKills,
  relayFuzz,
  hostChaos,
  hostKills,
  brokerWriters,
  brokerShared,
  brokerKills,
  brokerHeap,
  controlFaults,
  followFaults,
  failingCalls,
];
