import { mkdirSync, rmSync } from 'node:fs';
import { WireWay } from '../../delivery/kimi-wire.ts';
import { Refusal } from '../../protocol/refusal.ts';
import type { AgentName } from '../../protocol/names.ts';
import { isAlive } from '../../sessions/process.ts';
import type { Terminal } from '../../sessions/terminal.ts';
import { goOnDuty, whoIsOnDuty } from '../duty.ts';
import type { Duty, Notice } from '../duty.ts';
import { ownCommand, VERSION } from '../program.ts';
import type { Log } from '../serving-log.ts';
import type { Env } from '../env.ts';
import { openBroker } from '../wiring-broker.ts';
import { daemonsFolder, loopsFolder, writeWhole } from './folders.ts';
import { hushOf } from './hush.ts';
import { rounds } from './rounds.ts';
import { takeSeat } from './seat.ts';
import { deliverLoop, wakeLoop, withHeart } from './terminal-loop.ts';
import type { Wanted } from './wanted.ts';
import { WireLoop } from './wire-loop.ts';
import { WireSpool, wireSpoolPath } from './wire-spool.ts';
import { WokenFile } from './woken.ts';

/** Between two wakes lies at least this. spec: c2c#wake */
export const GAP_MS = 15_000;
const REST_MS = 5000;
const WIRE_START_MS = 30_000;
const WIRE_TURN_MS = 30 * 60_000;

/** A loop at work. `ended` says why it came to its end by itself. */
export interface RunningLoop {
  wanted: Wanted;
  ended: Promise<string>;
  /** What it does now is finished or taken back when this returns. */
  stop(): Promise<void>;
}

type Parts = ReturnType<typeof openBroker>;
type Look = Parameters<typeof rounds>[1];

/** The notice of whoever runs the loop of a session. */
export function dutyOf(env: Env, { kind, session }: Pick<Wanted, 'kind' | 'session'>): string {
  return kind === 'wire' ? `${daemonsFolder(env)}/${session}` : `${loopsFolder(env)}/run/${session}`;
}

export function whoRuns(env: Env, wanted: Pick<Wanted, 'kind' | 'session'>): Notice | null {
  return whoIsOnDuty(dutyOf(env, wanted));
}

/**
 * Starts a loop in this process, in the terminal that it names or in one that this process owns. One session has one loop of a kind: a
 * second start says who runs it.
 */
export async function startLoop(wanted: Wanted, env: Env, log: Log, own?: Terminal): Promise<RunningLoop> {
  const path = dutyOf(env, wanted);
  const duty = await goOnDuty(path);
  if (!duty) throw runsAlready(wanted, whoIsOnDuty(path));
  try {
    return await onDuty({ wanted, env, log, own }, duty, `${path}.pid`);
  } catch (error) {
    duty.leave();
    throw error;
  }
}

interface Order {
  wanted: Wanted;
  env: Env;
  log: Log;
  own: Terminal | undefined;
}

async function onDuty({ wanted, env, log, own }: Order, duty: Duty, pidFile: string): Promise<RunningLoop> {
  const stop = new AbortController();
  const parts = openBroker(wanted.broker_root);
  const note = (event: string, facts: Record<string, string | number>): void =>
    log(`${wanted.kind}_${event}`, { session: wanted.session, ...facts });
  const looking = await lookOf({ wanted, env, parts, note, own }, stop.signal);
  const mailbox = async () => {
    const known = await parts.broker.session(wanted.session);
    return { name: (known?.row.alias ?? wanted.session) as AgentName, home: parts.home };
  };
  writeWhole(pidFile, `${process.pid}\n`);
  duty.announce([{ name: wanted.kind, address: wanted.terminal ?? wanted.session }]);
  note('started', { client: wanted.client, ...(wanted.terminal && { terminal: wanted.terminal }) });
  let reason = 'told to stop';
  // A full disk or a lost terminal may be mended while we wait.
  const rest = (error: unknown): number => {
    note('failed', { why: error instanceof Error ? error.message : String(error) });
    return REST_MS;
  };
  const watched: Look = async (who) => {
    if (wanted.pid === undefined || isAlive(wanted.pid)) return looking.look(who).catch(rest);
    reason = 'watched_pid_exited';
    stop.abort();
    return null;
  };
  const ended = rounds(mailbox, watched, stop.signal, wanted.options.interval_ms)
    .catch((error: unknown) => {
      reason = error instanceof Error ? error.message : String(error);
    })
    .then(async () => {
      await looking.close();
      await parts.close();
      rmSync(pidFile, { force: true });
      duty.leave();
      note('stopped', { because: reason });
      return reason;
    });
  return {
    wanted,
    ended,
    async stop() {
      stop.abort();
      await ended;
    },
  };
}

interface Looking {
  look: Look;
  close(): Promise<void>;
}

type Note = (event: string, facts: Record<string, string | number>) => void;

interface LookOrder extends Pick<Order, 'wanted' | 'env'> {
  parts: Parts;
  note: Note;
  own?: Terminal | undefined;
}

/** How one look is taken: by the loop, and by a command that looks once. */
export async function lookOf(order: LookOrder, stop: AbortSignal): Promise<Looking> {
  const { wanted, env, parts, note, own } = order;
  if (wanted.kind === 'wire') return wireLook(order, stop);
  const seat = await takeSeat(wanted, env, own);
  const common = {
    session: wanted.session,
    client: wanted.client,
    broker: parts.broker,
    seat,
    now: Date.now,
    onNews: note,
  };
  mkdirSync(loopsFolder(env), { recursive: true, mode: 0o700 });
  const woken = new WokenFile(`${loopsFolder(env)}/run/${wanted.session}.woken`);
  const { gap_ms: gap = GAP_MS, heartbeat_ms: beat = 0 } = wanted.options;
  const plain = wanted.kind === 'wake' ? wakeLoop(common, gap, woken) : deliverLoop(common);
  const alias = wanted.options.alias ?? wanted.session;
  const look = beat > 0 ? withHeart(plain, common, alias, beat) : plain;
  return { look: (who) => look(who, stop), close: () => seat.close() };
}

async function wireLook({ wanted, env, parts, note }: LookOrder, stop: AbortSignal): Promise<Looking> {
  const tools = `${daemonsFolder(env)}/${wanted.session}.mcp`;
  writeWhole(tools, JSON.stringify(toolsFor(wanted)));
  const loop = wireLoopOf(wanted, env, parts, tools, (event, facts) => note(event, facts));
  return {
    look: (who) => loop.look(who, stop),
    async close() {
      rmSync(tools, { force: true });
    },
  };
}

function wireLoopOf(wanted: Wanted, env: Env, parts: Parts, tools: string | null, note: Note): WireLoop {
  const way = new WireWay({
    command: [wanted.options.command ?? 'kimi'],
    workDir: wanted.options.work_dir ?? process.cwd(),
    env: { ...env, C2C_MCP_SESSION_ID: wanted.session, C2C_MCP_BROKER_ROOT: wanted.broker_root },
    ...(tools !== null && { args: ['--mcp-config-file', tools] }),
    startMs: WIRE_START_MS,
    turnMs: WIRE_TURN_MS,
    version: VERSION,
  });
  return new WireLoop({
    way,
    spool: new WireSpool(wireSpoolPath(wanted.broker_root, wanted.session)),
    isHushed: async () => (await hushOf(parts.broker, wanted.session, Date.now())).hushed,
    now: Date.now,
    onNews: ({ event, count, because }) => note(event, { count, ...(because && { because }) }),
  });
}

/** So that a kimi that got mail can answer it. */
function toolsFor({ session, broker_root, options }: Wanted): object {
  const [command, ...args] = [...ownCommand(), 'c2c', 'mcp'];
  const env = {
    C2C_MCP_BROKER_ROOT: broker_root,
    C2C_MCP_SESSION_ID: session,
    C2C_MCP_AUTO_REGISTER_ALIAS: options.alias ?? session,
    C2C_MCP_AUTO_DRAIN_CHANNEL: '0',
  };
  return { mcpServers: { c2c: { type: 'stdio', command, args, env } } };
}

export function runsAlready({ kind, session }: Wanted, notice: Notice | null): Refusal {
  const who = notice ? `pid ${notice.pid}, since ${notice.since}` : 'it is just starting or ending';
  return new Refusal('already_claimed', `a ${kind} loop runs already for ${session} (${who}); nothing was started`);
}
