import type { Env } from '../../core/env.ts';
import type { MessageId } from '../../core/names.ts';
import { HeldLive } from '../../delivery/held-live.ts';
import type { FollowedRecord } from '../../delivery/held-live.ts';
import { hasServer } from '../launch.ts';
import { ChatProof } from './proof.ts';
import { FollowedChat, geminiHome, GeminiIndex } from './record.ts';
import { geminiWindows, isGemini } from './state.ts';

/** A record that was written within this time counts as work. Meanwhile the holder sees work on the screen, which is drawn many times a second. */
const REST_MS = 1000;

/** The running sessions of Gemini CLI 0.61. */
export class GeminiLive extends HeldLive {
  constructor(env: Env, scan: HeldLive['scan'] = geminiWindows) {
    const index = new GeminiIndex(geminiHome(env));
    const records = {
      client: 'gemini',
      isClient: isGemini,
      get isEmpty() {
        return index.isEmpty;
      },
      get hasTools() {
        return hasServer(`${index.home}/settings.json`, 'gemini');
      },
      find: index.find.bind(index),
      inFolder: index.inFolder.bind(index),
      watched: index.watched.bind(index),
      follow: (path: string) => new FollowedChat(path),
      reader: ({ path }: FollowedRecord, id: MessageId) => new ChatProof(path, id),
      restMs: REST_MS,
    };
    super(env, records, scan);
  }
}
