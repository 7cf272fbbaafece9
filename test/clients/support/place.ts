// A user's home and a project in it, for clients. Whatever a client writes stays below the home, and nothing of the
// real user's environment reaches it. No client can reach the network: every address but loopback leads to a closed port.
//
//   const place = await aPlace();    // place.home, place.project, place.env
import { mkdirSync, realpathSync, rmSync } from 'node:fs';
import { temporaryHome } from '../../support/home.ts';
import { opens } from './opened.ts';
import { endAll, leftovers, processesOf, RUN } from './processes.ts';

/** Port 9 of this machine: nobody listens there. */
const NOWHERE = 'http://127.0.0.1:9';

export interface Place {
  home: string;
  /** An empty folder below the home, in no repository. */
  project: string;
  env: Record<string, string>;
  close(): Promise<void>;
}

export async function aPlace(): Promise<Place> {
  await endAll(leftovers());
  const home = realpathSync(temporaryHome());
  const [project, temporary] = [`${home}/project`, `${home}/tmp`];
  mkdirSync(project);
  // Sockets lie here: their folder must be private, and its path short.
  mkdirSync(temporary, { mode: 0o700 });
  const env = {
    PATH: process.env['PATH'] ?? '',
    HOME: home,
    PARLEY_NO_DAEMON: '1',
    TMPDIR: temporary,
    TMUX_TMPDIR: temporary,
    TERM: 'xterm-256color',
    LANG: 'C.UTF-8',
    SHELL: '/bin/sh',
    [RUN]: String(process.pid),
    BUN_RUNTIME_TRANSPILER_CACHE_PATH: '0',
    HTTP_PROXY: NOWHERE,
    HTTPS_PROXY: NOWHERE,
    NO_PROXY: '127.0.0.1,localhost',
    npm_config_registry: NOWHERE,
  };
  const close = async (): Promise<void> => {
    await endAll(processesOf(home));
    rmSync(home, { recursive: true, force: true });
  };
  return opens({ home, project, env, close });
}
