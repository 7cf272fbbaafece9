import { readFileSync } from 'node:fs';
import { readSessionId } from '../../../protocols/c2c/shapes.ts';
import type { Env } from '../../env.ts';
import { gitTop } from '../../origin.ts';

/** Where clients tell their own name of a session. spec: c2c#sessions */
export const CLIENT_VARIABLES = ['CLAUDE_CODE_SESSION_ID', 'CLAUDE_SESSION_ID', 'CODEX_THREAD_ID'] as const;

/** Where a session is named, in the order in which they are believed. */
const SESSION_VARIABLES = ['C2C_MCP_SESSION_ID', 'C2C_SESSION_ID', ...CLIENT_VARIABLES] as const;

/** The session of whoever calls; null if nothing names one. */
export function sessionIn(env: Env, cwd: string): string | null {
  for (const name of SESSION_VARIABLES) {
    const value = env[name];
    if (value) return readSessionId(value);
  }
  // OpenCode tells its children nothing of its session: there it is the one of its plugin.
  const isOpenCode = env['OPENCODE'] === '1' || env['C2C_MCP_CLIENT_TYPE'] === 'opencode';
  return isOpenCode ? sessionOfPlugin(cwd) : null;
}

function sessionOfPlugin(cwd: string): string | null {
  for (const folder of [cwd, gitTop(cwd)]) {
    if (folder === undefined) continue;
    try {
      const { session_id } = JSON.parse(readFileSync(`${folder}/.opencode/c2c-plugin.json`, 'utf8')) as {
        session_id?: unknown;
      };
      return readSessionId(session_id);
    } catch {
      // No plugin was installed there, or its file names no session.
    }
  }
  return null;
}
