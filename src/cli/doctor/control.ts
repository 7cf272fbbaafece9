import { existsSync } from 'node:fs';
import type { Env } from '../../core/env.ts';
import { Refusal } from '../../core/refusal.ts';
import { daemonNotice } from '../../platform/daemon-lock.ts';
import { onPath } from '../../platform/search-path.ts';
import { ControlFile, controlPlaces, hostOf, serverLock } from '../../protocols/control/config.ts';
import { tmuxTrouble } from '../../sessions/tmux.ts';
import { counted, on } from './finding.ts';
import type { Finding } from './finding.ts';

/** What the control of sessions needs, for those who have a `~/.ccc.json`. */
export function examineControl(env: Env): Finding[] {
  const places = controlPlaces(env);
  if (!existsSync(places.file)) return [];
  const { ok, warn, bad } = on('control');
  const noTmux = tmuxTrouble(env);
  const server = daemonNotice(serverLock(places));
  return [
    ...examineFile(ControlFile.of(env), env),
    noTmux === null ? ok('tmux is installed') : bad(noTmux, 'install tmux'),
    server
      ? ok(`a server runs (pid ${server.pid}, ${server.version})`)
      : warn('no server runs, so no prompt is typed', '`parley up --with control --detach`'),
  ];
}

/** The settings, and the programs of the clients that sessions on this machine need. */
function examineFile(file: ControlFile, env: Env): Finding[] {
  const { ok, bad } = on('control');
  try {
    const { command } = file.read();
    const sessions = file.sessions();
    const here = sessions.filter(([name, entry]) => hostOf(name, entry) === 'local');
    const programs = new Set(here.map(([, { client }]) => command[client] ?? client));
    const missing = [...programs].filter((one) => (one.includes('/') ? !existsSync(one) : onPath(one, env) === null));
    return [
      ok(`${file.path} has ${counted(sessions.length, 'session')}`),
      ...missing.map((one) => bad(`the client ${one} is not found`, `install it, or set "command" in ${file.path}`)),
    ];
  } catch (error) {
    if (error instanceof Refusal) return [bad(error.message, 'correct the file')];
    throw error;
  }
}
