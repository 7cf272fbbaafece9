import type { Client } from '../../delivery/client.ts';
import { claudeShape } from '../../delivery/hook-script.ts';
import { hook, POLL } from '../ways.ts';
import { HeldGemini } from './held.ts';
import { GeminiLive } from './live.ts';
import { GeminiHookRecord } from './proof.ts';
import { geminiHome, hasSubagent } from './record.ts';
import { geminiComposer } from './state.ts';

/** The pause before Enter where the screen cannot be read. */
const BLIND_ENTER_MS = 1500;

/**
 * Gemini CLI 0.61. When AfterAgent denies the end of a turn, its reason becomes the next prompt, which runs the BeforeAgent hooks again.
 * PreCompress is not registered: it fires before each request, and does not say whether anything was compressed.
 */
export const gemini: Client = {
  name: 'gemini',
  hook: {
    name: 'gemini',
    events: { SessionStart: 'context', BeforeAgent: 'context', AfterTool: 'context', AfterAgent: 'deny' },
    beginsTurn: ['BeforeAgent'],
    endsTurn: ['AfterAgent'],
    deafAfter: [],
    recordDecides: true,
    isSubagent: ({ hook_event_name, transcript_path = '', session_id = '', tool_name }) =>
      hook_event_name === 'AfterTool' && tool_name !== 'invoke_agent' && hasSubagent(transcript_path, session_id),
    counts: 'characters',
    registers: ['SessionStart', 'BeforeAgent', 'AfterTool', 'AfterAgent'],
    // It counts milliseconds.
    timeout: 10_000,
    settings(command) {
      return `Gemini CLI, ~/.gemini/settings.json:\n${claudeShape(command, this.timeout, this.registers)}`;
    },
  },
  typing: { composer: geminiComposer, enterAfter: BLIND_ENTER_MS, blindEnterAfter: BLIND_ENTER_MS },
  hookRecord: ({ session, env }, ids) => new GeminiHookRecord(geminiHome(env), session, ids),
  live: (env) => new GeminiLive(env),
  held: (place) => new HeldGemini(place),
  ways: [hook('gemini', 'primary', 'its hook looks after every tool call and at the end of a turn'), POLL],
};
