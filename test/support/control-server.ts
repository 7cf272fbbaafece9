import { writeFileSync } from 'node:fs';
import { ControlFile, controlPlaces } from '../../src/protocols/control/config.ts';
import { HistoryFiles } from '../../src/protocols/control/history-files.ts';
import { SessionHistory } from '../../src/protocols/control/history.ts';
import { LINE_LIMIT } from '../../src/protocols/control/requests.ts';
import { ControlServer } from '../../src/protocols/control/server.ts';
import type { ControlServerDeps } from '../../src/protocols/control/server.ts';
import { userOf } from '../../src/platform/peer-user.ts';
import { openHome } from '../../src/store/home.ts';
import { serveUnixSocket } from '../../src/wire/unix-socket.ts';
import { ControlCaller } from './control-caller.ts';
import type { Line } from './control-caller.ts';
import { temporaryHome } from './home.ts';
import { ScriptedControl } from './scripted-control.ts';

/** The socket of control with a real store and real files, and sessions that a script plays. */
export class ScriptedServer {
  readonly #callers: ControlCaller[] = [];

  private constructor(
    readonly home: string,
    readonly config: ControlFile,
    readonly control: ScriptedControl,
    readonly history: SessionHistory,
    readonly server: ControlServer,
    readonly close: () => Promise<void>,
  ) {}

  static async start(
    settings: Record<string, unknown> = {},
    deps: Partial<ControlServerDeps> = {},
    home = temporaryHome(),
  ): Promise<ScriptedServer> {
    const places = controlPlaces({ HOME: home });
    const config = new ControlFile(places.file, places.folder);
    writeFileSync(places.file, JSON.stringify({ sessions: {}, ...settings }), { mode: 0o600 });
    const { journal, directory } = openHome('parley', `${home}/.parley`, 'normal', true);
    const store = journal.sessionStore();
    const files = new HistoryFiles(store, config);
    const history = new SessionHistory(store, files, `${places.folder}/history`);
    await history.open();
    const control = new ScriptedControl(config, store, () => files.publish());
    const server = new ControlServer({
      control,
      config,
      hosts: { want() {} },
      history,
      files,
      version: '1.2.3',
      now: Date.now,
      since: Date.now(),
      log: () => {},
      ...deps,
    });
    const user = process.getuid?.() ?? 0;
    const listening = await serveUnixSocket(server.accept, {
      path: places.socket,
      name: 'control server',
      otherwise: 'stop',
      isGiven: true,
      user,
      userOf,
      lineLimit: LINE_LIMIT,
      halfOpen: true,
      log: () => {},
    });
    const started: ScriptedServer = new ScriptedServer(home, config, control, history, server, async () => {
      for (const caller of started.#callers) caller.close();
      await server.close();
      listening.close();
      await directory.close();
    });
    return started;
  }

  async caller(): Promise<ControlCaller> {
    const caller = await ControlCaller.open(`${this.home}/.ccc.sock`);
    this.#callers.push(caller);
    return caller;
  }

  /** One request on a connection of its own. */
  async ask(request: Record<string, unknown> | string): Promise<Line> {
    const caller = await this.caller();
    const line = await caller.ask(request);
    caller.close();
    return line;
  }

  /** Changes the file as another program does. */
  configure(settings: Record<string, unknown>): void {
    writeFileSync(this.config.path, JSON.stringify(settings));
  }
}
