import type { RunningClient } from './reached.ts';
import { claude } from './reached-claude.ts';
import { codex } from './reached-codex.ts';
import { gemini } from './reached-gemini.ts';
import { kimi } from './reached-kimi.ts';
import { opencode } from './reached-opencode.ts';

/** The clients that mail reaches while they run. */
export const REACHED: readonly RunningClient[] = [claude, codex, opencode, kimi, gemini];
