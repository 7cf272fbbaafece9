import type { LiveSessions } from '../core/ports/live-session.ts';
import type { Client, HookClient, SessionPlace } from '../delivery/client.ts';
import { Refusal } from '../core/refusal.ts';
import { claude } from './claude/client.ts';
import { codex } from './codex/client.ts';
import { gemini } from './gemini/client.ts';
import { kimi } from './kimi/client.ts';
import { opencode } from './opencode/client.ts';

/** The clients that Parley knows. */
const CLIENTS: readonly Client[] = [claude, codex, opencode, kimi, gemini];

/** Null for a client that Parley does not know. */
export function clientNamed(name: string): Client | null {
  return CLIENTS.find((one) => one.name === name) ?? null;
}

/** The clients whose sessions Parley can start and prompt. */
export const SESSION_CLIENTS: readonly string[] = CLIENTS.filter(({ session }) => session).map(({ name }) => name);

/** The running sessions of every client that lets Parley see them, by the client's name. */
export function liveClients(env: SessionPlace['env']): ReadonlyMap<string, LiveSessions> {
  return new Map(CLIENTS.flatMap(({ name, live }) => (live ? [[name, live(env)] as const] : [])));
}

/** The clients that run hooks. */
export const HOOK_CLIENTS: readonly HookClient[] = CLIENTS.flatMap(({ hook }) => hook ?? []);

export function hookClient(name: string): HookClient {
  const client = HOOK_CLIENTS.find((one) => one.name === name);
  if (client) return client;
  if (name === 'opencode') {
    throw new Refusal(
      'not_in_this_version',
      'OpenCode runs no hooks; `parley install opencode` gives it a plugin instead',
    );
  }
  const known = HOOK_CLIENTS.map((one) => one.name).join(', ');
  throw new Refusal(
    'invalid_request',
    `no client with hooks is called "${name.replace(/\p{Cc}/gu, '?').slice(0, 40)}"; use one of ${known}`,
  );
}
