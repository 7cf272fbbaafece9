import { claudeSetup } from './claude/setup.ts';
import { codexSetup } from './codex/setup.ts';
import { geminiSetup } from './gemini/setup.ts';
import type { SetupClient } from './setup-client.ts';

/** The clients that `bch setup` knows, in the order in which it speaks of them. */
export const SETUP_CLIENTS: readonly SetupClient[] = [claudeSetup, codexSetup, geminiSetup];
