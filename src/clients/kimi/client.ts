import type { Client } from '../../delivery/client.ts';
import { hook, POLL, wake } from '../ways.ts';
import { HeldKimi } from './held.ts';
import { KimiLive } from './live.ts';
import { KimiHookRecord } from './proof.ts';
import { followedTurn, kimiHome, KimiIndex } from './record.ts';
import { KimiSession } from './session.ts';
import { kimiComposer } from './state.ts';
import { isKimiServer } from './web.ts';
import { isWebCommand, KimiWebSession } from './web-session.ts';

/** Kimi may take an immediate Enter for a part of the paste. */
const ENTER_MS = 1500;

/** Kimi 2.1. Hook text after a tool call or at the start of a session does not reach the model, so mail waits for the end of the turn. */
export const kimi: Client = {
  name: 'kimi',
  hook: {
    name: 'kimi',
    events: { UserPromptSubmit: 'plain', Stop: 'stderr' },
    beginsTurn: ['UserPromptSubmit'],
    endsTurn: ['Stop'],
    prolongsOnce: true,
    deafAfter: [],
    counts: 'characters',
    registers: ['SessionStart', 'UserPromptSubmit', 'Stop', 'PostCompact'],
    timeout: 10,
    settings(command) {
      const entry = (event: string): string =>
        `[[hooks]]\nevent = "${event}"\ncommand = ${JSON.stringify(command)}\ntimeout = ${this.timeout}`;
      return `Kimi, ~/.kimi-code/config.toml:\n${this.registers.map(entry).join('\n')}`;
    },
  },
  typing: { composer: kimiComposer, enterAfter: ENTER_MS, blindEnterAfter: ENTER_MS },
  openTurn: ({ session, env }) => followedTurn(new KimiIndex(kimiHome(env)), session),
  session: (target, env) =>
    isWebCommand(target.command) ? new KimiWebSession(target, env) : new KimiSession(target, env),
  hookRecord: ({ session, env }, ids, since) => new KimiHookRecord(kimiHome(env), session, ids, since),
  sharesProcess: ({ pid }, env) => isKimiServer(kimiHome(env), pid),
  live: (env) => new KimiLive(env),
  held: (place) => new HeldKimi(place),
  ways: [
    {
      way: 'wire',
      rank: 'primary',
      isOn: ({ loop }) => loop === 'wire',
      isPossible: (facts) => facts.hasWire,
      because: 'a kimi is started in wire mode when mail comes',
      get: '`c2c wire-daemon start`',
    },
    hook('kimi', 'primary', 'its hook looks at each prompt and at the end of a turn'),
    wake('kimi', 'fallback'),
    POLL,
  ],
};
