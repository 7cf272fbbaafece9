import type { Env } from '../core/env.ts';

/** Parley's home, from the environment alone: no settings are read to find it. */
export function parleyHome(env: Env): string {
  return env['PARLEY_HOME'] || `${userHome(env)}/.parley`;
}

export function backchannelHome(env: Env): string {
  return env['BACKCHANNEL_HOME'] || `${userHome(env)}/.backchannel`;
}

/** The folder that contains c2c's broker directories, one for each repository. spec: c2c#root */
export function brokersFolder(env: Env): string {
  const { XDG_STATE_HOME: state } = env;
  // The XDG specification says to ignore a relative path in this variable.
  return state?.startsWith('/') ? `${state.replace(/(?<=.)\/+$/, '')}/c2c` : `${userHome(env)}/.c2c`;
}

/** Asks the system only if the variable is missing: importing node:os, and node:path too, costs time at every start. */
export function userHome(env: Env): string {
  const home = env['HOME'] || process.getBuiltinModule('node:os').homedir();
  return home.length > 1 && home.endsWith('/') ? home.slice(0, -1) : home;
}
