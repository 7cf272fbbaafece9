import { mkdirSync, rmSync } from 'node:fs';
import { openControl } from '../../core/sessions/control.ts';
import type { Log, OpenService, ServiceContext } from '../../core/service.ts';
import { explained } from '../../core/disk.ts';
import { Refusal } from '../../core/refusal.ts';
import { daemonNotice, takeDaemonLock } from '../../platform/daemon-lock.ts';
import { userOf } from '../../platform/peer-user.ts';
import { VERSION } from '../../platform/program.ts';
import { prepareFolder, serveUnixSocket } from '../../wire/unix-socket.ts';
import type { SocketOptions } from '../../wire/unix-socket.ts';
import { tmuxTrouble } from '../../sessions/tmux.ts';
import type { Chat, OpenChat } from './chat.ts';
import { ControlFile, controlPlaces, serverLock } from './config.ts';
import type { ControlPlaces } from './config.ts';
import { Hosts } from './hosts.ts';
import { HistoryFiles } from './history-files.ts';
import { SessionHistory } from './history.ts';
import { LINE_LIMIT } from './requests.ts';
import { ControlServer } from './server.ts';
import { configuredTargets, driverFor } from './targets.ts';

/** For tests: how long an `ask` may take, in ms. */
const ASK_VARIABLE = 'PARLEY_CONTROL_ASK_MS';

/** Serves `~/.ccc.sock` on the user's sessions. A failure leaves nothing behind. spec: control#socket */
export async function openControlService(context: ServiceContext, log: Log, openChat: OpenChat): Promise<OpenService> {
  const places = controlPlaces(context.env);
  try {
    return await opened(context, places, log, openChat);
  } catch (error) {
    throw explained(error, places.socket, 'nothing was started');
  }
}

async function opened(
  context: ServiceContext,
  places: ControlPlaces,
  log: Log,
  openChat: OpenChat,
): Promise<OpenService> {
  const options: SocketOptions = {
    path: places.socket,
    name: 'control server',
    otherwise: 'set HOME to a folder of your own',
    isGiven: true,
    user: process.getuid?.() ?? -1,
    userOf,
    lineLimit: LINE_LIMIT,
    halfOpen: true,
    log,
  };
  prepareFolder(options);
  mkdirSync(places.folder, { recursive: true, mode: 0o700 });
  const lock = await takeDaemonLock(serverLock(places));
  if (!lock) throw alreadyRunning(places);
  let running: Running;
  try {
    running = await start(context, places, log, openChat);
  } catch (error) {
    lock.release();
    throw error;
  }
  const close = async (): Promise<void> => {
    await running.close();
    lock.release();
  };
  try {
    const listening = await serveUnixSocket(running.server.accept, options);
    lock.announce([{ name: 'control', address: places.socket }]);
    log('control_open', { at: places.socket });
    return {
      name: 'control',
      address: places.socket,
      about: [],
      warnings: [tmuxTrouble(context.env) ?? []].flat(),
      renew() {},
      async close(telling) {
        telling('open requests');
        // Remove the socket first, so that no new caller connects. Connected callers still get their answers.
        rmSync(places.socket, { force: true });
        await running.stop();
        listening.close();
        await close();
      },
    };
  } catch (error) {
    await close();
    throw error;
  }
}

interface Running {
  server: ControlServer;
  /** Ends waiting asks; every caller gets its answer. */
  stop(): Promise<void>;
  close(): Promise<void>;
}

async function start(context: ServiceContext, places: ControlPlaces, log: Log, openChat: OpenChat): Promise<Running> {
  const { env } = context;
  const config = new ControlFile(places.file, places.folder);
  // Report an invalid file now, not at the first request.
  config.read();
  const workspace = context.openWorkspace();
  const home = workspace.homes.find(({ label }) => label === 'parley');
  if (!home) throw new Error('a workspace has a home of its own');
  const store = home.journal.sessionStore();
  const files = new HistoryFiles(store, config);
  const history = new SessionHistory(store, files, `${places.folder}/history`);
  await history.open();
  const hosts = new Hosts({ config, env, log });
  let chat: Chat | null = null;
  const publish = async (): Promise<void> => {
    chat?.changed();
    await files.publish();
  };
  const control = openControl({
    store,
    targets: () => configuredTargets(config, store, env),
    driver: (target) => driverFor(target, env, hosts),
    publish,
    recordsTerminal: async () => config.readOrLast().record_terminal,
    mayApprove: async () => config.read().control_may_approve,
    now: Date.now,
    log,
  });
  const people = await openChat({ control, store, config, env, publish, now: Date.now, log });
  chat = people;
  const askMs = Number(env[ASK_VARIABLE]);
  const server = new ControlServer({
    control,
    config,
    hosts,
    history,
    files,
    version: VERSION,
    now: Date.now,
    since: Date.now(),
    continued: (session, agent) => people.continued(session, agent),
    log,
    ...(askMs > 0 && { askMs }),
  });
  return {
    server,
    async stop() {
      await people.close();
      const answered = server.close();
      await control.close();
      await answered;
    },
    async close() {
      await people.close();
      await control.close();
      hosts.close();
      await files.publish().catch(() => {});
      for (const { directory } of workspace.homes) await directory.close();
    },
  };
}

function alreadyRunning(places: ControlPlaces): Refusal {
  const notice = daemonNotice(serverLock(places));
  const who = notice ? ` (pid ${notice.pid}, since ${notice.since})` : '';
  return new Refusal(
    'already_claimed',
    `a control server listens on ${places.socket} already${who}; use it, or stop it first`,
  );
}
