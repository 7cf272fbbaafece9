import type { Client } from '../../delivery/client.ts';
import { claudeShape } from '../../delivery/hook-script.ts';
import { hook, POLL } from '../ways.ts';

/** Gemini CLI 0.61. The reason of a denied ending becomes the next prompt. */
export const gemini: Client = {
  name: 'gemini',
  hook: {
    name: 'gemini',
    events: { SessionStart: 'context', BeforeAgent: 'context', AfterTool: 'context', AfterAgent: 'deny' },
    beginsTurn: ['BeforeAgent'],
    endsTurn: ['AfterAgent'],
    deafAfter: [],
    counts: 'characters',
    registers: ['SessionStart', 'BeforeAgent', 'AfterTool', 'AfterAgent'],
    // It counts milliseconds.
    timeout: 10_000,
    settings(command) {
      return `Gemini CLI, ~/.gemini/settings.json:\n${claudeShape(command, this.timeout, this.registers)}`;
    },
  },
  typing: null,
  ways: [hook('gemini', 'primary', 'its hook looks after every tool call and at the end of a turn'), POLL],
};
