import type { Env } from '../../core/env.ts';
import { HeldLive, LATE_MS } from '../../delivery/held-live.ts';
import { WireProof, wirePlaceAt } from './proof.ts';
import { FollowedWire, kimiHome, KimiIndex } from './record.ts';
import { isKimi } from './state.ts';

/** The running sessions of Kimi 2.1. `wire.jsonl` of a conversation says what it does, and proves what it was given. */
export class KimiLive extends HeldLive {
  constructor(env: Env, scan?: HeldLive['scan']) {
    const index = new KimiIndex(kimiHome(env));
    const records = {
      client: 'kimi',
      isClient: isKimi,
      get isEmpty() {
        return index.isEmpty;
      },
      find: index.find.bind(index),
      inFolder: index.inFolder.bind(index),
      watched: () => [index.home],
      state: (path: string) => new FollowedWire(path),
      reader: (path: string, id: WireProof['id'], since: number) =>
        new WireProof(path, wirePlaceAt(path, since - LATE_MS), id),
      restMs: 0,
    };
    super(env, records, scan);
  }
}
