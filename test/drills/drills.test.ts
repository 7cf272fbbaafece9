import { describe, expect, it } from 'bun:test';
import { brokerHeap, brokerKills, brokerShared, brokerWriters } from './c2c-broker.ts';
import { controlFaults } from './control-faults.ts';
import { followFaults } from './follow-faults.ts';
import type { Drill } from './drill.ts';
import { DRILLS } from './drills.ts';
import { failingCalls } from './failing-calls.ts';
import { hooks } from './hooks.ts';
import { hostChaos } from './host-chaos.ts';
import { hostKills } from './host-kills.ts';
import { killsAtAnyMoment, killsAtSteps } from './kills.ts';
import { relayFuzz } from './relay-fuzz.ts';
import { relayKills } from './relay-kills.ts';
import { retries } from './retries.ts';
import { liveRuins, ruins } from './ruins.ts';
import { subscribes } from './subscribes.ts';
import { takers } from './takers.ts';

/** The short forms; `npm run drill` runs the long ones. */
const SHORT: [sentence: string, drill: Drill][] = [
  ['eight processes that empty one mailbox take every message once [BC-6]', takers],
  ['a send that is retried while its message is taken brings it once [BC-10]', retries],
  ['death at any step of a send or a take loses and doubles nothing [BC-6, BC-8]', killsAtSteps],
  ['death at any moment loses and doubles nothing [BC-6, BC-8]', killsAtAnyMoment],
  ['a destroyed ledger loses and doubles nothing that waits', ruins],
  ['a ledger destroyed under the hands of readers loses nothing', liveRuins],
  ['twenty subscribers at once are all kept [BC-C6]', subscribes],
  ['a hook starts the program at most once for each arrival, and once to settle it', hooks],
  ['a relay killed under load loses nothing that it accepted, and nobody settles twice', relayKills],
  ['a relay asked anything answers in JSON, without a 5xx, and stays in its home', relayFuzz],
  [
    'a host among lost, doubled and late frames and kills shows every event once, in order, and each ends once [C2A-137]',
    hostChaos,
  ],
  ['a host that is killed again and again answers every question of a chat once, and leaves none open', hostKills],
  ['eight processes, ours and plain scripts, write into one broker inbox and nothing is lost [C2C-3]', brokerWriters],
  ['ours and plain scripts write and drain one broker inbox, and each message comes once [C2C-3]', brokerShared],
  ['death at any moment in a broker loses nothing, and what comes again is marked [C2C-20]', brokerKills],
  ['a heap of waiting messages in a broker is drained whole, each once [C2C-5]', brokerHeap],
  [
    'prompts that meet a killed client or server, a question, a panel, a draft or a slow start go into an empty composer only, once [CCC-200]',
    controlFaults,
  ],
  [
    'mail for a running session is proven and given to the model once, also if the daemon or the client is killed, works or asks its user',
    followFaults,
  ],
  [
    `a system call that fails at any point loses nothing, shows nothing again unmarked and stores nothing in name only${Bun.which('strace') ? '' : ' (skipped: no strace here)'}`,
    failingCalls,
  ],
];

describe('in a drill', () => {
  it.each(SHORT)('%s', async (_sentence, drill) => {
    expect((await drill.run(false, () => {})).faults).toEqual([]);
  });

  it('nothing of the long form is left out', () => {
    expect(SHORT.map(([, drill]) => drill)).toEqual([...DRILLS]);
  });
});
