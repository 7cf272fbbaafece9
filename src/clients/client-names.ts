/** The clients by the names that commands and settings use, in the order in which we list them. */
export const CLIENT_NAMES = ['claude', 'codex', 'opencode', 'kimi', 'gemini'] as const;
export type ClientName = (typeof CLIENT_NAMES)[number];
