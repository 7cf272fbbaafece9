import { COMMAND_LIMIT, START } from './command.ts';
import { closeSync, constants, existsSync, mkdirSync, openSync, symlinkSync, writeFileSync, writeSync } from 'node:fs';
import { c2cHookScript } from '../../src/delivery/hook-script.ts';
import type { AgentName } from '../../src/core/names.ts';
import type { C2cMailboxes } from '../../src/protocols/c2c/mailbox.ts';
import { aMessage, LOUD } from '../../test/support/mail.ts';
import { beside, notMeasured, within } from '../figure.ts';
import type { Bench, Row } from '../figure.ts';
import { BODY, openInboxes } from '../mailroom.ts';
import { interleave, summary } from '../measure.ts';
import { run } from '../program.ts';
import { wakeRows } from './wake.ts';

/** The program under its c2c name, with three sessions in a separate broker. */
interface Place {
  c2c: string;
  env: Record<string, string>;
}

function aBroker(bench: Bench): Place {
  const home = bench.fresh();
  const c2c = `${home}/c2c`;
  symlinkSync(bench.program(), c2c);
  const env = {
    PATH: process.env['PATH'] ?? '',
    HOME: home,
    C2C_MCP_BROKER_ROOT: `${home}/broker`,
    C2C_MCP_SESSION_ID: 's-alice',
    C2C_MCP_CLIENT_PID: String(process.pid),
  };
  for (const name of ['alice', 'bob', 'carol'])
    run([c2c, 'register', name], { ...env, C2C_MCP_SESSION_ID: `s-${name}` });
  return { c2c, env };
}

/** One call of each command, compared with an empty start of the runtime. */
export async function c2cFigure(bench: Bench): Promise<Row[]> {
  const { c2c, env } = aBroker(bench);
  const still = aBroker(bench);
  // The first call also records that every file has its row.
  run([still.c2c, 'poll-inbox'], still.env);
  const times = await interleave(bench.quick ? 30 : 150, {
    node: () => run(['node', '-e', '0'], env),
    poll: () => run([still.c2c, 'poll-inbox', '--json'], still.env),
    send: () => run([c2c, 'send', 'bob', BODY], env),
    // No session reads here, so each send finds one more waiting message.
    heap: () => run([c2c, 'send', 'carol', BODY], env),
    take: () => run([c2c, 'poll-inbox', '--json'], { ...env, C2C_MCP_SESSION_ID: 's-bob' }),
    mcp: () => initialized([c2c, 'mcp'], env),
  });
  return [
    beside('`c2c poll-inbox`, empty, compiled', START, COMMAND_LIMIT, times.poll, times.node),
    beside('the same with a message to take', START, null, times.take, times.node),
    beside(
      '`c2c send`, compiled and durable, into an inbox that is read',
      START,
      COMMAND_LIMIT,
      times.send,
      times.node,
    ),
    beside('the same into one that nobody reads, up to 165 waiting', START, COMMAND_LIMIT, times.heap, times.node),
    beside('`c2c mcp`: start to the answer to `initialize`', START, null, times.mcp, times.node),
    ...(await hookRows(bench)),
    ...(await roomRows(bench)),
    ...(await wakeRows(bench)),
    await channelRow(bench),
  ];
}

const HELLO = `${JSON.stringify({
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'bench', version: '1' } },
})}\n`;

async function initialized(command: string[], env: Record<string, string>): Promise<void> {
  const child = Bun.spawn(command, { env, cwd: env['HOME'] ?? '/', stdin: 'pipe', stdout: 'pipe', stderr: 'ignore' });
  void child.stdin.write(HELLO);
  void child.stdin.flush();
  const reader = child.stdout.getReader();
  await reader.read();
  child.kill('SIGKILL');
  await child.exited;
}

async function hookRows(bench: Bench): Promise<Row[]> {
  const what = 'hook of `c2c install`, empty inbox';
  const floor = '`/bin/true`, started the same way';
  if (!existsSync('/bin/true') || !existsSync('/bin/bash'))
    return [notMeasured(what, floor, 2, 'bash is not installed')];
  const { c2c, env } = aBroker(bench);
  const folder = `${env['HOME']}/sessions`;
  const script = `${env['HOME']}/hook.sh`;
  writeFileSync(script, c2cHookScript({ folder, command: [c2c] }), { mode: 0o755 });
  mkdirSync(folder, { recursive: true });
  const event = { session_id: 's-alice', cwd: env['HOME'], hook_event_name: 'PostToolUse', tool_name: 'Bash' };
  const text = `${JSON.stringify({ ...event, tool_input: { command: 'git status' } })}\n`;
  const fifo = `${env['HOME']}/events`;
  run(['mkfifo', fifo], env);
  // As with a client, the event comes through a pipe that is then closed.
  const call = (command: string[]): void => {
    const writer = openSync(fifo, constants.O_RDWR);
    writeSync(writer, text);
    const reader = openSync(fifo, constants.O_RDONLY | constants.O_NONBLOCK);
    closeSync(writer);
    run(command, env, reader);
    closeSync(reader);
  };
  call([script]);
  call([script]);
  const times = await interleave(bench.quick ? 200 : 1000, {
    true: () => call(['/bin/true']),
    hook: () => call([script]),
  });
  return [beside(what, floor, 2, times.hook, times.true)];
}

interface Room {
  mailboxes: C2cMailboxes;
  members: AgentName[];
  close: () => Promise<void>;
}

function aRoom(bench: Bench, count: number): Room {
  const root = bench.fresh();
  mkdirSync(`${root}/rooms/den`, { recursive: true });
  const members = Array.from({ length: count }, (_, n) => `member-${n}` as AgentName);
  const { mailboxes, journal } = openInboxes(root, { fileOf: (mailbox) => mailbox, mailboxes: () => members });
  return { mailboxes, members, close: async () => journal.close() };
}

/** One message to the same twenty inboxes: as one send to a room, or as twenty sends. */
async function roomRows(bench: Bench): Promise<Row[]> {
  const room = aRoom(bench, 20);
  const direct = aRoom(bench, 20);
  const copies = (members: AgentName[]) => members.map((mailbox) => ({ mailbox, attention: LOUD }));
  const times = await interleave(bench.quick ? 10 : 40, {
    room: async () => {
      await room.mailboxes.put({ message: aMessage({ to: '#den', body: BODY }), copies: copies(room.members) });
    },
    direct: async () => {
      for (const mailbox of direct.members) {
        await direct.mailboxes.put({ message: aMessage({ to: mailbox, body: BODY }), copies: copies([mailbox]) });
      }
    },
  });
  await Promise.all([room.close(), direct.close()]);
  return [beside('a room’s message to 20 members', '20 direct sends into the same spool', 3, times.room, times.direct)];
}

/** The time from storing a message to the line that notifies a client that can show it. */
async function channelRow(bench: Bench): Promise<Row> {
  const { c2c, env } = aBroker(bench);
  const root = env['C2C_MCP_BROKER_ROOT'] ?? '';
  const child = Bun.spawn([c2c, 'mcp'], {
    env: { ...env, C2C_MCP_SESSION_ID: 's-bob' },
    cwd: env['HOME'] ?? '/',
    stdin: 'pipe',
    stdout: 'pipe',
    stderr: 'ignore',
  });
  const said = child.stdout.getReader();
  void child.stdin.write(HELLO.replace('"capabilities":{}', '"capabilities":{"experimental":{"claude/channel":{}}}'));
  void child.stdin.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n');
  void child.stdin.flush();
  await said.read();
  const bob = 'bob' as AgentName;
  const { mailboxes, journal } = openInboxes(root, { fileOf: () => 's-bob', mailboxes: () => [bob] });
  const times: number[] = [];
  for (let n = 0; n < (bench.quick ? 30 : 200); n += 1) {
    const told = said.read().then(() => Bun.nanoseconds());
    await mailboxes.put({ message: aMessage({ to: '@bob', body: BODY }), copies: [{ mailbox: bob, attention: LOUD }] });
    const stored = Bun.nanoseconds();
    times.push(Math.max(0, ((await told) - stored) / 1e6));
  }
  child.kill('SIGKILL');
  await child.exited;
  await journal.close();
  return within('arrival of a message to the notification over a channel, p99', summary(times).p99, 100, 'ms');
}
