import type { Env } from '../../core/env.ts';
import { command } from '../../core/command.ts';
import type { Option } from '../../core/command.ts';
import type { Log, OpenService } from '../../core/service.ts';
import { ago, durationFrom } from '../../core/time.ts';
import { SERVICES } from '../../daemon/services.ts';
import type { ServiceRow } from '../../daemon/services.ts';
import { nearest } from '../../core/nearest.ts';
import { startInBackground } from '../../platform/background.ts';
import { takeDaemonLock, daemonNotice } from '../../platform/daemon-lock.ts';
import type { DaemonNotice } from '../../platform/daemon-lock.ts';
import { backchannelHome, parleyHome } from '../../platform/env.ts';
import { tokenFrom, tokenWarning } from '../../platform/input.ts';
import { servingLog } from '../../platform/log.ts';
import { closeAll, serveUntilSignal, tellWarnings } from '../../platform/serve.ts';
import { REFUSALS, Refusal } from '../../core/refusal.ts';
import type { RefusalCode } from '../../core/refusal.ts';
import { allLoopOrders } from '../../protocols/c2c/loop-files.ts';
import { controlPlaces } from '../../protocols/control/config.ts';
import { tmuxTrouble } from '../../sessions/tmux.ts';
import type { Context } from '../context.ts';
import { endFollower } from '../start-follower.ts';

const OWN = {
  with: {
    type: 'string',
    multiple: true,
    value: 'service',
    help: `run this service: ${SERVICES.map((row) => row.name).join(', ')}`,
  },
  detach: { type: 'boolean', help: 'run in the background; return when every service answers' },
} as const satisfies Record<string, Option>;

const upCommand = command({
  usage: 'up [--with <service>]',
  about: [
    'Runs the daemon of your home, until Ctrl-C or `parley down`: it gives running sessions the mail that waits for them. ' +
      'Sending and reading work without it. Further services:',
    ...SERVICES.filter(({ name }) => name !== 'follow').map((row) => `--with ${row.name}: ${row.summary}.`),
    'The other options are for the relay (see `parley relay --help`) and for the host (they begin with --host-).',
  ].join('\n'),
  options: { ...Object.assign({}, ...SERVICES.map((row) => row.options)), ...OWN },
  examples: [
    'parley up --with relay',
    'parley up --with host --detach',
    'parley up --with relay --with host',
    'parley status',
    'parley down',
  ],
  async run(context: Context, values: Record<string, unknown> & { with?: string[]; detach?: boolean }) {
    const rows = wanted(values.with ?? []);
    // It makes room for a daemon that does more, which follows, too.
    if (rows.length > 1) await endFollower(context.env);
    if (values.detach) return detach(context, rows, values);
    const lock = await takeDaemonLock(`${parleyHome(context.env)}/daemon`);
    if (!lock) throw runsAlready(context);
    const log = servingLog({ json: values['json-logs'] === true, verbose: context.verbose });
    const open = async (): Promise<OpenService[]> => {
      const services = await openAll(context, rows, values, log);
      lock.announce(services.map(({ name, address }) => ({ name, address })));
      for (const service of services) tellWarnings(service, values['json-logs'] === true ? log : null);
      tell(context, services);
      return services;
    };
    try {
      await serveUntilSignal(open, log, (what) => lock.finishing(what));
    } finally {
      lock.release();
    }
  },
});

/** Opens one after the other. If one does not open, those before it are closed again. */
async function openAll(
  context: Context,
  rows: readonly ServiceRow[],
  values: Record<string, unknown>,
  log: Log,
): Promise<OpenService[]> {
  const services: OpenService[] = [];
  try {
    for (const row of rows) services.push(await (await row.load()).open(context, values, log));
    return services;
  } catch (error) {
    await closeAll(services, () => {});
    throw error;
  }
}

function tell(context: Context, services: OpenService[]): void {
  if (context.json) {
    const open = services.map(({ name, address, about }) => ({ name, address, about }));
    return context.sayJson({ pid: process.pid, home: parleyHome(context.env), doors: open });
  }
  context.say(`up in ${parleyHome(context.env)} (pid ${process.pid})`);
  for (const { name, address, about } of services) {
    context.say([`  ${name} on ${address}`, ...about.map((line) => `    ${line}`)].join('\n'));
  }
}

function wanted(names: readonly string[]): ServiceRow[] {
  const known = SERVICES.map((row) => row.name);
  const rows = [...new Set(names.flatMap((name) => name.split(',')))].map((name) => {
    const row = SERVICES.find((one) => one.name === name);
    if (row) return row;
    const [near] = nearest(name, known);
    const shown = name.replace(/\p{Cc}/gu, '?').slice(0, 40);
    throw new Refusal(
      'invalid_request',
      `unknown service "${shown}"; ${near ? `did you mean --with ${near}?` : `use ${known.join(', ')}`}`,
    );
  });
  return SERVICES.filter((row) => rows.includes(row) || row.name === 'follow');
}

function runsAlready(context: Context): Refusal {
  const home = parleyHome(context.env);
  const notice = daemonNotice(`${home}/daemon`);
  if (!notice)
    return new Refusal('already_claimed', `the daemon of ${home} is just starting or ending; try again in a moment`);
  const doors = notice.doors.map(({ name, address }) => `${name} on ${address}`).join(', ');
  return new Refusal(
    'already_claimed',
    `the daemon of ${home} runs already (pid ${notice.pid}, since ${notice.since})${doors && `: ${doors}`}; \`parley down\` ends it`,
  );
}

const DEFAULT_PATIENCE = '30s';

const downCommand = command({
  usage: 'down',
  about:
    'Stops the daemon of your home, and waits until it has ended. It finishes open requests and writes what it has accepted.\n' +
    'The exit code is 0 also if no daemon runs.',
  options: {
    patience: { type: 'string', value: 'span', help: `how long to wait for it (default ${DEFAULT_PATIENCE})` },
  },
  examples: ['parley down', 'parley down --patience 2m'],
  async run(context: Context, values) {
    const patience = durationFrom(values.patience ?? DEFAULT_PATIENCE);
    const home = parleyHome(context.env);
    const notice = daemonNotice(`${home}/daemon`);
    if (!notice) {
      if (context.json) return context.sayJson({ was: null });
      context.say(`nothing runs in ${home}`);
      const alone = daemonNotice(`${backchannelHome(context.env)}/relay`);
      if (alone) context.note(`a relay runs without the daemon (pid ${alone.pid}); stop it with: kill ${alone.pid}`);
      return;
    }
    const began = Date.now();
    process.kill(notice.pid, 'SIGTERM');
    const waitedFor = await untilGone(home, notice, began + patience, (what) => {
      if (!context.json) context.note(`waiting for ${what}`);
    });
    const seconds = ((Date.now() - began) / 1000).toFixed(1);
    if (context.json) return context.sayJson({ was: notice, seconds: Number(seconds), waitedFor });
    const doors = notice.doors.map(({ name, address }) => `${name} on ${address}`).join(', ');
    context.say(`down after ${seconds} s: ${doors || 'no service was open'} (pid ${notice.pid})`);
    await tellUnwoken(context, notice);
  },
});

/** What ran in there and is still wanted runs nowhere now. */
async function tellUnwoken(context: Context, { doors }: DaemonNotice): Promise<void> {
  const folder = doors.find(({ name }) => name === 'loops')?.address;
  if (folder === undefined) return;
  const sessions = allLoopOrders(folder).map(({ session }) => session);
  if (sessions.length > 0)
    context.note(`no longer woken: ${sessions.join(', ')}; \`parley up --with loops --detach\` wakes them again`);
}

/** Returns what it had to finish, each told as soon as it is seen. */
async function untilGone(
  home: string,
  { pid, holder }: DaemonNotice,
  end: number,
  telling: (what: string) => void,
): Promise<string[]> {
  const told: string[] = [];
  for (;;) {
    const now = daemonNotice(`${home}/daemon`);
    if (now?.holder !== holder) return told;
    const what = now.finishing;
    if (what !== undefined && told.at(-1) !== what) {
      told.push(what);
      telling(what);
    }
    if (Date.now() > end) {
      throw new Refusal(
        'already_claimed',
        `pid ${pid} has not ended yet${what ? ` (${what})` : ''}; wait with \`parley down --patience 5m\`, or end it at once: kill ${pid}`,
      );
    }
    await Bun.sleep(20);
  }
}

/** As `systemctl status` has it: nothing runs; something runs and does not answer. */
const NOTHING_RUNS = 3;
const NO_ANSWER = 1;

interface ServiceState {
  name: string;
  address: string;
  answers: boolean;
  details?: readonly string[];
}

interface Running extends Omit<DaemonNotice, 'doors' | 'v'> {
  /** The daemon, or a relay, host or control server that was started by itself. */
  what: 'daemon' | 'relay' | 'host' | 'control';
  home: string;
  doors: ServiceState[];
}

const statusCommand = command({
  usage: 'status',
  about:
    'Shows what runs for your homes: the daemon (`parley up`), a relay (`parley relay`), a host (`parley host`) or a control ' +
    'server (`ccc listen`), since when, and whether each service answers.\n' +
    'Exit code 0: everything answers. 1: a service does not answer. 3: nothing runs.',
  examples: ['parley status', 'parley status --json'],
  async run(context: Context) {
    const running = await whatRuns(context);
    const isWell = running.every(({ doors }) => doors.every((service) => service.answers));
    process.exitCode = running.length === 0 ? NOTHING_RUNS : isWell ? 0 : NO_ANSWER;
    if (context.json) return context.sayJson({ running });
    if (running.length === 0) {
      context.say(
        `nothing runs in ${parleyHome(context.env)}: mail is stored, and hooks show it, but no idle session is woken`,
      );
      return context.say('Next: parley up --detach   (`parley run` and the hooks of clients start it, too)');
    }
    for (const { what, home, pid, since, version, doors, finishing } of running) {
      const ending = finishing ? `, ending: ${finishing}` : '';
      context.say(`${what} of ${home} (pid ${pid}, ${version}, started ${ago(since, Date.now())}${ending})`);
      for (const { name, address, answers, details = [] } of doors) {
        const { green, red } = context.paint;
        context.say(`  ${name} on ${address}  ${answers ? green('answers') : red('does not answer')}`);
        for (const line of details) context.say(`    ${line}`);
      }
    }
  },
});

async function whatRuns({ env }: Context): Promise<Running[]> {
  const [own, bch] = [parleyHome(env), backchannelHome(env)];
  const daemon = daemonNotice(`${own}/daemon`);
  const relay = daemonNotice(`${bch}/relay`);
  const host = daemonNotice(`${own}/host/socket`);
  const { folder } = controlPlaces(env);
  const control = daemonNotice(`${folder}/server`);
  return Promise.all([
    ...(daemon ? [examined('daemon', own, daemon, env)] : []),
    // The daemon's own are among its services.
    ...(relay && relay.pid !== daemon?.pid ? [examined('relay', bch, relay, env)] : []),
    ...(host && host.pid !== daemon?.pid ? [examined('host', own, host, env)] : []),
    ...(control && control.pid !== daemon?.pid ? [examined('control', folder, control, env)] : []),
  ]);
}

async function examined(what: Running['what'], home: string, notice: DaemonNotice, env: Env): Promise<Running> {
  const { v: _, ...facts } = notice;
  const doors = notice.doors.map(async ({ name, address }) => {
    const service = await SERVICES.find((one) => one.name === name)?.load();
    const details = await service?.details?.(address, env);
    return { name, address, answers: (await service?.answers(address)) ?? false, ...(details && { details }) };
  });
  return { what, home, ...facts, doors: await Promise.all(doors) };
}

/** How long the daemon may take until every service answers. */
const PATIENCE_MS = 15_000;
/** Starts the daemon in the background and returns when every service answers. If it fails, its own words are the reason. */
async function detach(context: Context, rows: readonly ServiceRow[], values: Record<string, unknown>): Promise<void> {
  const home = parleyHome(context.env);
  const there = daemonNotice(`${home}/daemon`);
  if (there) return tellRunning(context, home, there, rows);
  if (values['token'] !== undefined) context.note(`warning: ${tokenWarning('BACKCHANNEL_TOKEN')}`);
  // The daemon says it in its log only.
  const noTmux = rows.some(({ name }) => name === 'control') ? tmuxTrouble(context.env) : null;
  if (noTmux !== null) context.note(`warning: ${noTmux}`);
  const log = `${home}/daemon.log`;
  const started = await startInBackground({
    words: ['up', ...argumentsOf(rows, values), ...(context.verbose ? ['--verbose'] : [])],
    // The token goes to the daemon by the environment. A stdin that holds it is ours: it is read here.
    env: { ...context.env, BACKCHANNEL_TOKEN: tokenFrom(values, context.cwd, context.env['BACKCHANNEL_TOKEN']) },
    cwd: context.cwd,
    log,
    startMs: PATIENCE_MS,
    ready: (pid) => openNotice(home, pid, rows),
  });
  if (started.ready) return tellUp(context, home, started.ready, log);
  if (started.isLate)
    throw new Refusal(
      'storage_failed',
      `the daemon does not answer after ${PATIENCE_MS / 1000} s and was stopped; see ${log}`,
    );
  // Its exit code says which kind of "no" it was.
  const codes = Object.keys(REFUSALS) as RefusalCode[];
  const code = codes.find((one) => REFUSALS[one].exit === started.exitCode);
  throw new Refusal(
    code ?? 'storage_failed',
    `the daemon did not start: ${started.said || 'it said nothing'} (log: ${log})`,
  );
}

/** Null until every service answers. */
async function openNotice(home: string, pid: number, rows: readonly ServiceRow[]): Promise<DaemonNotice | null> {
  const notice = daemonNotice(`${home}/daemon`);
  if (notice?.pid !== pid || notice.doors.length < rows.length) return null;
  const answers = await Promise.all(rows.map(async (row) => (await row.load()).answers(addressOf(notice, row))));
  return answers.every(Boolean) ? notice : null;
}

function addressOf(notice: DaemonNotice, row: ServiceRow): string {
  return notice.doors.find(({ name }) => name === row.name)?.address ?? '';
}

/** What was said before `--detach`, without the token: everybody can see the words of a running program. */
function argumentsOf(rows: readonly ServiceRow[], values: Record<string, unknown>): string[] {
  const options = Object.assign({}, ...rows.map((row) => row.options)) as ServiceRow['options'];
  const given = Object.keys(options).flatMap((name) => {
    const value = name === 'token' || name === 'token-file' ? undefined : values[name];
    if (typeof value === 'string') return [`--${name}=${value}`];
    return value === true ? [`--${name}`] : [];
  });
  return [...rows.map((row) => `--with=${row.name}`), ...given];
}

function tellUp(context: Context, home: string, notice: DaemonNotice, log: string): void {
  if (context.json) return context.sayJson({ ...notice, home, log });
  context.say(`up in ${home} (pid ${notice.pid})`);
  for (const { name, address } of notice.doors) context.say(`  ${name} on ${address}`);
  context.say(`log: ${log}      state: parley status      stop: parley down`);
}

/** It runs already. For a service that it does not run it has to be ended first. */
function tellRunning(context: Context, home: string, notice: DaemonNotice, rows: readonly ServiceRow[]): void {
  const missing = rows.filter((row) => !notice.doors.some(({ name }) => name === row.name));
  if (missing.length > 0) {
    const names = missing.map((row) => row.name).join(', ');
    throw new Refusal(
      'already_claimed',
      `the daemon of ${home} runs already (pid ${notice.pid}) without ${names}; \`parley down\` first, then \`parley up\` with everything you want`,
    );
  }
  if (!context.json) context.note(`it was already running, since ${notice.since}; nothing was changed`);
  tellUp(context, home, notice, `${home}/daemon.log`);
}

export const commands = {
  up: upCommand,
  down: downCommand,
  status: statusCommand,
};
