// A host on the home of its environment. Its patience with unanswered events is short: a drill loses thousands of frames.
import { openWorkspace } from '../../src/daemon/homes.ts';
import { userOf } from '../../src/platform/peer-user.ts';
import { PROMPTS } from '../../src/protocols/c2a/prompt.ts';
import { HostServer } from '../../src/protocols/c2a/server.ts';
import { Host } from '../../src/protocols/c2a/host.ts';
import { BODY_LIMIT } from '../../src/core/message.ts';
import { hashOf, newAgentToken } from '../../src/wire/tokens.ts';
import { FRAME_LIMIT } from '../../src/wire/jsonrpc.ts';
import { serveUnixSocket } from '../../src/wire/unix-socket.ts';

/** What a host waits for an answer is this many times shorter here. */
const HASTE = 25;
const LONG_MS = 10_000;

const [socket = ''] = process.argv.slice(2);
const workspace = openWorkspace(
  process.env,
  { bodyLimit: BODY_LIMIT, durability: 'normal' },
  {
    stays: true,
  },
);
const [home] = workspace.homes;
if (!home) throw new Error('a workspace has a home');
const host = new Host({
  workspace,
  home,
  now: Date.now,
  after(ms, run) {
    const timer = setTimeout(run, ms >= LONG_MS ? ms / HASTE : ms);
    return { cancel: () => clearTimeout(timer) };
  },
  newToken: newAgentToken,
  hash: hashOf,
  log: () => {},
  render: PROMPTS,
  limits: { sendsPerSecond: 1000, sendsAtOnce: 1000 },
});
await host.start();
const log = (): void => {};
const server = new HostServer({ engine: host, version: 'drill', now: Date.now, log });
await serveUnixSocket(server.accept, {
  path: socket,
  name: 'host',
  otherwise: 'choose another path',
  user: process.getuid?.() ?? -1,
  userOf,
  lineLimit: FRAME_LIMIT,
  log,
});
console.log('ready');
