/** The names of the clients in commands and settings, in the order in which Parley lists them. */
export const CLIENT_NAMES = ['claude', 'codex', 'opencode', 'kimi', 'gemini'] as const;
export type ClientName = (typeof CLIENT_NAMES)[number];
