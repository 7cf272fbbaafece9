import type { HookClient } from '../hook-client.ts';

/** Kimi 2.1. What a hook says after a tool or at the start of a session reaches no model, so mail waits for the turn's end. */
export const kimi: HookClient = {
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
};
