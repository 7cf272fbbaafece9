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

/** What the user's words say about the conversation, in Codex's own words for it. */
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
  /** The id of a conversation to go on with; without it a new one is begun. */
  continued?: string | undefined;
  /** The process that becomes the window. */
  pid: number;
}

const START_MS = 20_000;
const CALL_MS = 10_000;
const LOOK_MS = 500;
/**
 * The window is a client of the thread when this is heard; it only has to be given the answer to its own call. In this time `parley run`
 * has also bound the name of a conversation that ends at once.
 */
const LINGER_MS = 1000;

/**
 * Opens a conversation through Codex's daemon: a new one, or one to go on with. When nobody is connected to a conversation, Codex drops what
 * it was begun with, our server too. So a helper stays connected until the window is. It is no child of ours: the window would never reap it.
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

/** The helper: says `thread <id>` or what is wrong, and stays until the window has the thread, or is gone. */
export async function holdThread(wanted: WantedThread, say: (line: string) => void): Promise<void> {
  const window = { pid: wanted.pid, start: startOf(wanted.pid) };
  const socket = new WebSocket(`ws+unix://${realpathSync(`${wanted.home}/${SOCKET}`)}`, { perMessageDeflate: false });
  const closed = Promise.withResolvers<'closed'>();
  const attached = Promise.withResolvers<'attached'>();
  let id = wanted.continued ?? null;
  // The first notice of a conversation to go on with is about our own call.
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
    if ((await Promise.race([opened, closed.promise])) === 'closed') return say('the daemon of Codex is gone');
    id = await begin(peer, wanted);
    say(`thread ${id}`);
    const end = await Promise.race([attached.promise, closed.promise]);
    if (end === 'attached' && wanted.isUntrusted) await giveRights(peer, wanted, id).catch(() => 'it only reads');
    await Bun.sleep(LINGER_MS);
    // Also if the daemon has ended: after that only a window loads the conversation.
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
/** What a thread's clients are told when a window resumes it, or begins a turn in it. */
const ATTACHED = /^(thread\/goal\/|turn\/started)/;

/**
 * The conversation began before Codex asked its user about the folder. It gets the rights that a conversation would have that begins there
 * now with the same options: those of a trusted folder, or the same as before.
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
  // The daemon takes the name of its first client for its own, also towards the model's provider. That name is the window's.
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
  if (typeof id !== 'string') throw new Error('it named none');
  // With a name Codex writes the thread's record. Without a record no window can resume it. A conversation of before keeps its own.
  if (!continued) await call('thread/name/set', { threadId: id, name });
  return id;
}
