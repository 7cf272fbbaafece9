import { realpathSync } from 'node:fs';
import { resolve } from 'node:path';
import type { AgentName } from '../../core/names.ts';
import { hasLiveProcess, SessionNames } from '../../delivery/session-names.ts';
import { parleyHome, userHome } from '../../platform/env.ts';
import { ownCommand } from '../../platform/program.ts';
import { startOf } from '../../platform/process.ts';
import { isRecord, JsonRpcPeer } from '../../wire/jsonrpc.ts';
import type { Params } from '../../wire/jsonrpc.ts';
import type { LaunchOrder } from '../launch.ts';
import type { Server } from '../settings/client-settings.ts';
import { codexFolder } from './settings.ts';

/** The options of a conversation, by their names in `thread/start`. */
export interface ThreadOptions {
  model?: string;
  sandbox?: string;
  approvalPolicy?: string;
}

/** A conversation for a window that is about to start. */
export interface WantedThread {
  /** The folder of Codex. */
  home: string;
  /** The home of Parley, absolute. */
  parley: string;
  name: AgentName;
  folder: string;
  server: Server;
  options: ThreadOptions;
  /** The user has not trusted the folder yet: Codex asks before the window shows the conversation. */
  isUntrusted: boolean;
  /** The id of the conversation to continue. Without it a new one begins. */
  continued?: string | undefined;
  /** The process that becomes the window. */
  pid: number;
}

const START_MS = 20_000;
const CALL_MS = 10_000;
const LOOK_MS = 500;
/**
 * How long the helper stays after the window has joined the thread, so that the window gets the answer to its own call. Within this time
 * `parley run` has also bound the name of a conversation that ends at once.
 */
const LINGER_MS = 1000;

/**
 * Opens a new or continued conversation through Codex's daemon. When no client is connected to a conversation, Codex drops its settings,
 * including our MCP server. So a helper process stays connected until the window is. It is not our child, because this process becomes the
 * window, which would never reap it.
 */
export async function openThread(
  order: LaunchOrder,
  asked: Pick<WantedThread, 'options' | 'continued' | 'isUntrusted'>,
): Promise<{ id: string } | { trouble: string }> {
  const { program, folder, env, name, server } = order;
  // Its output is not read: the daemon inherits it, and never closes it.
  const daemon = Bun.spawn([program, 'app-server', 'daemon', 'start'], {
    cwd: folder,
    env,
    stdio: ['ignore', 'ignore', 'ignore'],
  });
  if ((await daemon.exited) !== 0)
    return { trouble: 'Codex did not start its daemon (see `codex app-server daemon start`)' };
  const wanted: WantedThread = {
    home: codexFolder({ home: userHome(env), env }),
    parley: resolve(parleyHome(env)),
    name,
    folder,
    server,
    ...asked,
    pid: process.pid,
  };
  const helper = Bun.spawn(
    ['/bin/sh', '-c', '"$@" &', 'sh', ...ownCommand(), 'run', 'codex', `--hold-thread=${JSON.stringify(wanted)}`],
    { cwd: folder, env, stdio: ['ignore', 'pipe', 'ignore'], detached: true },
  );
  const line = await Promise.race([firstLine(helper.stdout), Bun.sleep(START_MS).then(() => '')]);
  await helper.exited;
  return line.startsWith('thread ')
    ? { id: line.slice('thread '.length) }
    : { trouble: line || 'the daemon of Codex does not answer' };
}

async function firstLine(out: ReadableStream<Uint8Array>): Promise<string> {
  let text = '';
  const decoder = new TextDecoder();
  for await (const bytes of out) {
    text += decoder.decode(bytes, { stream: true });
    const end = text.indexOf('\n');
    if (end >= 0) return text.slice(0, end);
  }
  return text;
}

/** The helper: prints `thread <id>` or an error, and stays until the window has joined the thread or has ended. */
export async function holdThread(wanted: WantedThread, say: (line: string) => void): Promise<void> {
  const window = { pid: wanted.pid, start: startOf(wanted.pid) };
  const socket = new WebSocket(`ws+unix://${realpathSync(`${wanted.home}/${SOCKET}`)}`, { perMessageDeflate: false });
  const closed = Promise.withResolvers<'closed'>();
  const attached = Promise.withResolvers<'attached'>();
  let id = wanted.continued ?? null;
  // The first notice of a continued conversation is caused by our own call.
  let isOurs = id !== null;
  const peer = new JsonRpcPeer(
    (frame) => socket.send(frame),
    {
      request: () => {},
      broken: () => {},
      notification({ method, params }) {
        if (id === null || params['threadId'] !== id || !ATTACHED.test(method)) return;
        if (isOurs && method !== 'turn/started') isOurs = false;
        else attached.resolve('attached');
      },
    },
    'optional',
  );
  socket.addEventListener('message', ({ data }: MessageEvent<string | Uint8Array>) => peer.receive(data));
  socket.addEventListener('close', () => closed.resolve('closed'));
  const opened = new Promise<void>((resolve) => socket.addEventListener('open', () => resolve()));
  const timer = setInterval(() => !hasLiveProcess(window) && closed.resolve('closed'), LOOK_MS);
  try {
    if ((await Promise.race([opened, closed.promise])) === 'closed') return say('the daemon of Codex has ended');
    id = await begin(peer, wanted);
    say(`thread ${id}`);
    const end = await Promise.race([attached.promise, closed.promise]);
    if (end === 'attached' && wanted.isUntrusted) await giveRights(peer, wanted, id).catch(() => 'it only reads');
    await Bun.sleep(LINGER_MS);
    // Also if the daemon has ended: from then on only a window loads the conversation.
    new SessionNames(wanted.parley).opened(wanted.name, wanted.pid);
  } catch (error) {
    say(`Codex refused the conversation (${error instanceof Error ? error.message : String(error)})`);
  } finally {
    clearInterval(timer);
    socket.close();
    peer.close();
  }
}

const SOCKET = 'app-server-control/app-server-control.sock';
/** The notifications of a thread when a window resumes it, or begins a turn in it. */
const ATTACHED = /^(thread\/goal\/|turn\/started)/;

/**
 * The conversation began before Codex asked its user to trust the folder. Gives it the rights of a conversation that begins now with the same
 * options: those of a trusted folder if the user trusted it, else unchanged.
 */
async function giveRights(
  peer: JsonRpcPeer,
  { folder: cwd, options }: Pick<WantedThread, 'folder' | 'options'>,
  threadId: string,
): Promise<void> {
  const call = callerOf(peer);
  const begun = await call('thread/start', { cwd, ephemeral: true, ...options });
  const { thread, approvalPolicy, sandbox: sandboxPolicy } = begun;
  if (isRecord(thread)) await call('thread/unsubscribe', { threadId: String(thread['id']) });
  await call('thread/settings/update', { threadId, approvalPolicy, sandboxPolicy });
}

function callerOf(peer: JsonRpcPeer): (method: string, params: Params) => Promise<Params> {
  return async (method, params) => {
    const result = await peer.request(method, params, { ms: CALL_MS }).answer;
    return isRecord(result) ? result : {};
  };
}

async function begin(peer: JsonRpcPeer, { name, folder, server, options, continued }: WantedThread): Promise<string> {
  const call = callerOf(peer);
  // The daemon takes over the name of its first client, also towards the model's provider, so we use the name of the window.
  await call('initialize', {
    clientInfo: { name: 'codex-tui', title: null, version: '0' },
    capabilities: { experimentalApi: true },
  });
  peer.notify('initialized', {});
  const { command, args, env } = server;
  const config = { mcp_servers: { parley: { command, args: [...args], env: { ...env } } } };
  const { thread } = continued
    ? await call('thread/resume', { threadId: continued, config, ...options })
    : await call('thread/start', { cwd: folder, threadSource: 'user', config, ...options });
  const id = isRecord(thread) ? thread['id'] : undefined;
  if (typeof id !== 'string') throw new Error('its answer has no id');
  // Naming a thread makes Codex write its record, and a window can resume only a thread with a record. A continued thread keeps its name.
  if (!continued) await call('thread/name/set', { threadId: id, name });
  return id;
}
