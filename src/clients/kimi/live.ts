import type { Env } from '../../core/env.ts';
import type { MessageId } from '../../core/names.ts';
import { HeldLive, LATE_MS } from '../../delivery/held-live.ts';
import type { FollowedRecord } from '../../delivery/held-live.ts';
import { hasServer } from '../launch.ts';
import { WireProof, wirePlaceAt } from './proof.ts';
import { FollowedWire, kimiHome, KimiIndex } from './record.ts';
import { isKimiWindow } from './web.ts';
import { KimiWebSessions } from './web-way.ts';

/**
 * The running sessions of Kimi 2.1. `wire.jsonl` of a conversation says what the session does, and proves what mail it was given. A session
 * on `kimi web` gets its mail by the API of that server.
 */
export class KimiLive extends HeldLive {
  constructor(env: Env, scan?: HeldLive['scan']) {
    const index = new KimiIndex(kimiHome(env));
    const records = {
      client: 'kimi',
      isClient: isKimiWindow(index.home),
      get isEmpty() {
        return index.isEmpty;
      },
      get hasTools() {
        return hasServer(`${index.home}/mcp.json`, 'kimi');
      },
      find: index.find.bind(index),
      inFolder: index.inFolder.bind(index),
      watched: () => [index.home],
      follow: (path: string) => new FollowedWire(path),
      reader: (wire: FollowedRecord, id: MessageId, since: number) =>
        new WireProof(wire.path, wire.placeOf(id) ?? wirePlaceAt(wire.path, since - LATE_MS), id),
      restMs: 0,
      served: new KimiWebSessions(index),
    };
    super(env, records, scan);
  }
}
