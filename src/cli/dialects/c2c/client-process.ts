import { ancestors, isClient } from '../../../sessions/process.ts';
import type { Env } from '../../env.ts';

/**
 * The process whose life is the session's. What runs a command is often gone the moment after, so the parent's number would prove
 * nothing: the client says it in C2C_MCP_CLIENT_PID, or is found by its name among those who started us. Otherwise it is unknown, and
 * the session counts neither as alive nor as dead. spec: c2c#alive
 */
export function clientProcess(env: Env): number | undefined {
  const told = env['C2C_MCP_CLIENT_PID'];
  if (told && /^[1-9]\d{0,9}$/.test(told)) return Number(told);
  for (const ancestor of ancestors()) if (isClient(ancestor)) return ancestor.pid;
  return undefined;
}
