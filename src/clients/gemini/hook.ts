import type { HookClient } from '../hook-client.ts';
import { claudeShape } from '../settings-shape.ts';

/** Gemini CLI 0.61. The reason of a denied ending becomes the next prompt. */
export const gemini: HookClient = {
  name: 'gemini',
  events: { SessionStart: 'context', BeforeAgent: 'context', AfterTool: 'context', AfterAgent: 'deny' },
  endsTurn: ['AfterAgent'],
  deafAfter: [],
  counts: 'characters',
  // Gemini counts milliseconds.
  settings: (command) =>
    `Gemini CLI, ~/.gemini/settings.json:\n${claudeShape(command, 10_000, ['SessionStart', 'BeforeAgent', 'AfterTool', 'AfterAgent'])}`,
};
