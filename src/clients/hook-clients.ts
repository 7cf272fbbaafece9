import { Refusal } from '../protocol/refusal.ts';
import { claude } from './claude/hook.ts';
import { codex } from './codex/hook.ts';
import { gemini } from './gemini/hook.ts';
import type { HookClient } from './hook-client.ts';
import { kimi } from './kimi/hook.ts';

/** The clients that run hooks. */
export const HOOK_CLIENTS: readonly HookClient[] = [claude, codex, kimi, gemini];

export function hookClient(name: string): HookClient {
  const client = HOOK_CLIENTS.find((one) => one.name === name);
  if (client) return client;
  if (name === 'opencode') {
    throw new Refusal(
      'not_in_this_version',
      'OpenCode runs no hooks; `parley install opencode` gives it the tools, and `c2c install opencode` a plugin',
    );
  }
  const known = HOOK_CLIENTS.map((one) => one.name).join(', ');
  throw new Refusal(
    'invalid_request',
    `no client with hooks is called "${name.replace(/\p{Cc}/gu, '?').slice(0, 40)}"; use one of ${known}`,
  );
}
