import type { Client } from '../../delivery/client.ts';
import { POLL, wake } from '../ways.ts';
import { OpenCodeLive } from './live.ts';
import { OpenCodeSession } from './session.ts';
import { openCodeComposer, OpenCodeStateReader } from './state.ts';
import { statefilePath } from './statefile.ts';

/** OpenCode 1.18 runs no hooks; its plugin publishes its state and hands mail to its session. */
export const opencode: Client = {
  name: 'opencode',
  hook: null,
  typing: { composer: openCodeComposer, enterAfter: 5, blindEnterAfter: 20 },
  state: ({ session, instance, env }) =>
    new OpenCodeStateReader({ path: statefilePath(env, instance), sessionId: session }),
  session: (target, env) => new OpenCodeSession(target, env),
  live: (env) => new OpenCodeLive(env),
  ways: [
    {
      way: 'plugin',
      rank: 'primary',
      isOn: (facts) => facts.plugin,
      because: 'the plugin hands mail to its session',
      get: '`c2c install opencode`',
    },
    wake('opencode', 'fallback'),
    POLL,
  ],
};
