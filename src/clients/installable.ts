import { claudeSettings } from './claude/settings.ts';
import { codexSettings } from './codex/settings.ts';
import { geminiSettings } from './gemini/settings.ts';
import { kimiSettings } from './kimi/settings.ts';
import { opencodeSettings } from './opencode/settings.ts';
import type { ClientSettings } from './settings/client-settings.ts';

/** The clients that `parley install` can change, in the order of `CLIENT_NAMES`. */
export const SETTINGS_CLIENTS: readonly ClientSettings[] = [
  claudeSettings,
  codexSettings,
  opencodeSettings,
  kimiSettings,
  geminiSettings,
];
