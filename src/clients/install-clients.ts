import { claudeInstall } from './claude/install.ts';
import { codexInstall } from './codex/install.ts';
import { geminiInstall } from './gemini/install.ts';
import type { InstallClient } from './install-client.ts';
import { kimiInstall } from './kimi/install.ts';
import { opencodeInstall } from './opencode/install.ts';

/** The clients that can be installed into, in the order in which we speak of them. */
export const INSTALL_CLIENTS: readonly InstallClient[] = [
  claudeInstall,
  codexInstall,
  opencodeInstall,
  kimiInstall,
  geminiInstall,
];
