import type { Env } from '../../core/env.ts';
import { openBroker } from './open-broker.ts';
import type { OpenBroker } from './open-broker.ts';
import { WireWay } from '../../clients/kimi/wire.ts';
import { mkdirSync, rmSync } from 'node:fs';
import { daemonsFolder, loopsFolder, writeWhole } from './loop-files.ts';
import { dndLeft, openTarget, deliverLoop, wakeLoop, withHeartbeat, WokenFile } from './terminal-loop.ts';
import type { LoopOrder } from './loop-files.ts';
import { WireLoop, WireQueue, wireSpoolPath } from './wire-loop.ts';
import type { Log } from '../../core/service.ts';
import type { Who } from '../../core/mail/workspace.ts';
import { takeDaemonLock, daemonNotice } from '../../platform/daemon-lock.ts';
import type { DaemonLock, DaemonNotice } from '../../platform/daemon-lock.ts';
import { VERSION, ownCommand } from '../../platform/program.ts';
import type { AgentName } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import { isProcessAlive } from '../../platform/process.ts';
import type { Terminal } from '../../sessions/terminal.ts';

/** The shortest time between two wakes. spec: c2c#wake */
export const GAP_MS = 15_000;
const REST_MS = 5000;
const WIRE_START_MS = 30_000;
const WIRE_TURN_MS = 30 * 60_000;

/** The environment in which a loop runs. */
export interface LoopPlace {
  env: Env;
}

/** A running loop. `ended` resolves to the reason of its end. */
export interface RunningLoop {
  wanted: LoopOrder;
  ended: Promise<string>;
  /** Ends the loop. When this returns, its current work is finished or undone. */
  stop(): Promise<void>;
}

type Look = Parameters<typeof runRounds>[1];

/** The path of the lock that is held by the process that runs a session's loop. */
export function lockPathOf(env: Env, { kind, session }: Pick<LoopOrder, 'kind' | 'session'>): string {
  return kind === 'wire' ? `${daemonsFolder(env)}/${session}` : `${loopsFolder(env)}/run/${session}`;
}

export function whoRuns(env: Env, wanted: Pick<LoopOrder, 'kind' | 'session'>): DaemonNotice | null {
  return daemonNotice(lockPathOf(env, wanted));
}

/**
 * Starts a loop in this process, for the terminal in the order or for one that this process owns (`own`). A session has one loop of each kind: a
 * second start is refused, and names the process that runs it.
 */
export async function startLoop(wanted: LoopOrder, place: LoopPlace, log: Log, own?: Terminal): Promise<RunningLoop> {
  const path = lockPathOf(place.env, wanted);
  const lock = await takeDaemonLock(path);
  if (!lock) throw runsAlready(wanted, daemonNotice(path));
  try {
    return await runLocked({ wanted, ...place, log, own }, lock, `${path}.pid`);
  } catch (error) {
    lock.release();
    throw error;
  }
}

interface Order extends LoopPlace {
  wanted: LoopOrder;
  log: Log;
  own: Terminal | undefined;
}

async function runLocked({ wanted, env, log, own }: Order, lock: DaemonLock, pidFile: string): Promise<RunningLoop> {
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
  lock.announce([{ name: wanted.kind, address: wanted.terminal ?? wanted.session }]);
  note('started', { client: wanted.client, ...(wanted.terminal && { terminal: wanted.terminal }) });
  let reason = 'told to stop';
  // Retry later: a full disk or a lost terminal may be repaired meanwhile.
  const rest = (error: unknown): number => {
    note('failed', { why: error instanceof Error ? error.message : String(error) });
    return REST_MS;
  };
  const watched: Look = async (who) => {
    if (wanted.pid === undefined || isProcessAlive(wanted.pid)) return looking.look(who).catch(rest);
    reason = 'watched_pid_exited';
    stop.abort();
    return null;
  };
  const ended = runRounds(mailbox, watched, stop.signal, wanted.options.interval_ms)
    .catch((error: unknown) => {
      reason = error instanceof Error ? error.message : String(error);
    })
    .then(async () => {
      await looking.close();
      await parts.close();
      rmSync(pidFile, { force: true });
      lock.release();
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
  parts: OpenBroker;
  note: Note;
  own?: Terminal | undefined;
}

/** Makes the function that looks once, for a loop or for a command that looks only once. */
async function lookOf(order: LookOrder, stop: AbortSignal): Promise<Looking> {
  const { wanted, env, parts, note, own } = order;
  if (wanted.kind === 'wire') return wireLook(order, stop);
  const sessionTarget = await openTarget(wanted, env, own);
  const common = {
    session: wanted.session,
    client: wanted.client,
    broker: parts.broker,
    sessionTarget,
    now: Date.now,
    onNews: note,
  };
  mkdirSync(loopsFolder(env), { recursive: true, mode: 0o700 });
  const woken = new WokenFile(`${loopsFolder(env)}/run/${wanted.session}.woken`);
  const { gap_ms: gap = GAP_MS, heartbeat_ms: beat = 0 } = wanted.options;
  const plain = wanted.kind === 'wake' ? wakeLoop(common, gap, woken) : deliverLoop(common);
  const alias = wanted.options.alias ?? wanted.session;
  const look = beat > 0 ? withHeartbeat(plain, common, alias, beat) : plain;
  return { look: (who) => look(who, stop), close: () => sessionTarget.close() };
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

function wireLoopOf(wanted: LoopOrder, env: Env, parts: OpenBroker, tools: string | null, note: Note): WireLoop {
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
    spool: new WireQueue(wireSpoolPath(wanted.broker_root, wanted.session)),
    isDnd: async () => (await dndLeft(parts.broker, wanted.session, Date.now())).isDnd,
    now: Date.now,
    onNews: ({ event, count, because }) => note(event, { count, ...(because && { because }) }),
  });
}

/** The MCP settings for the kimi of a `wire` loop, so that it can answer its mail. */
function toolsFor({ session, broker_root, options }: LoopOrder): object {
  const [command, ...args] = [...ownCommand(), 'c2c', 'mcp'];
  const env = {
    C2C_MCP_BROKER_ROOT: broker_root,
    C2C_MCP_SESSION_ID: session,
    C2C_MCP_AUTO_REGISTER_ALIAS: options.alias ?? session,
    C2C_MCP_AUTO_DRAIN_CHANNEL: '0',
  };
  return { mcpServers: { c2c: { type: 'stdio', command, args, env } } };
}

function runsAlready({ kind, session }: LoopOrder, notice: DaemonNotice | null): Refusal {
  const who = notice ? `pid ${notice.pid}, since ${notice.since}` : 'it is just starting or ending';
  return new Refusal('already_claimed', `a ${kind} loop runs already for ${session} (${who}); nothing was started`);
}

/** The result of one look: how many messages were handed over or announced, and why not more. */
interface Once {
  count: number;
  because: string | null;
}

const WENT_OUT = ['woken', 'delivered', 'handed_over'];
const DID_NOT = ['left', 'not_woken_yet', 'unknown', 'given_up'];

/** Runs a loop until it has to wait: looks again as long as more can be handed over immediately. */
export async function lookOnce(
  wanted: LoopOrder,
  { env }: LoopPlace,
  stop = new AbortController().signal,
): Promise<Once> {
  const lock = await takeDaemonLock(lockPathOf(env, wanted));
  if (!lock) throw runsAlready(wanted, whoRuns(env, wanted));
  const parts = openBroker(wanted.broker_root);
  const once: Once = { count: 0, because: null };
  const note = (event: string, facts: Record<string, string | number>): void => {
    if (WENT_OUT.includes(event)) once.count += Number(facts['count'] ?? 0);
    if (DID_NOT.includes(event)) once.because = String(facts['because'] ?? 'nothing proves that it was taken');
  };
  try {
    await parts.home.mailboxes.heal();
    const known = await parts.broker.session(wanted.session);
    const who = { name: (known?.row.alias ?? wanted.session) as AgentName, home: parts.home };
    const looking = await lookOf({ wanted, env, parts, note }, stop);
    try {
      let againMs = await looking.look(who);
      while (againMs === 0 && !stop.aborted) againMs = await looking.look(who);
      if (againMs !== null && once.count === 0) once.because ??= `not before ${Math.ceil(againMs / 1000)} s from now`;
    } finally {
      await looking.close();
    }
    return once;
  } finally {
    await parts.close();
    lock.release();
  }
}

/** How often to look without a file event: mail that returns by time, or because its reader died, causes none. */
const LOOK_MS = 5000;

/** Gives the session's mailbox, whose name may change while the loop runs. */
type Mailbox = () => Promise<Who>;

/**
 * Calls `look` immediately, then after every arrival, after the time in ms that `look` returned (null: none), and every `aroundMs`. Only one
 * `look` runs at a time. Ends by `stop`.
 */
export async function runRounds(
  mailbox: Mailbox,
  look: (who: Who) => Promise<number | null>,
  stop: AbortSignal,
  aroundMs = LOOK_MS,
): Promise<void> {
  const wakeup = new LoopWakeup(stop);
  let mailboxName: string | undefined;
  let arrivals: { close(): void } | undefined;
  const around = setInterval(() => wakeup.wake(true), Math.max(aroundMs, 10));
  try {
    while (!stop.aborted) {
      const who = await mailbox();
      if (who.name !== mailboxName) {
        arrivals?.close();
        arrivals = who.home.mailboxes.watch(who.name, () => wakeup.wake());
        mailboxName = who.name;
      }
      if (wakeup.takeRound()) await who.home.mailboxes.heal();
      await wakeup.next(await look(who));
    }
  } finally {
    clearInterval(around);
    arrivals?.close();
  }
}

/** Wakes a loop. Many calls of `wake` before the loop looks cause only one look. */
export class LoopWakeup {
  #isAsked = false;
  #isRoundDue = true;
  #resolve = (): void => {};

  constructor(readonly stop: AbortSignal) {
    stop.addEventListener('abort', () => this.wake(), { once: true });
  }

  wake(round = false): void {
    this.#isAsked = true;
    this.#isRoundDue ||= round;
    this.#resolve();
  }

  /** Whether a regular round is due, which also heals the mailbox. Resets that. */
  takeRound(): boolean {
    const isDue = this.#isRoundDue;
    this.#isRoundDue = false;
    return isDue;
  }

  async next(againMs: number | null): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#resolve = resolve;
    if (this.#isAsked || this.stop.aborted) resolve();
    const timer = againMs === null ? undefined : setTimeout(resolve, againMs);
    await promise;
    clearTimeout(timer);
    this.#isAsked = false;
  }
}
