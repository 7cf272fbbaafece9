import { closeSync, mkdirSync, openSync, readFileSync, renameSync, statSync } from 'node:fs';
import { REFUSALS, Refusal } from '../protocol/refusal.ts';
import type { RefusalCode } from '../protocol/refusal.ts';
import { explained } from '../storage/disk.ts';
import type { Context } from './context.ts';
import type { DoorRow } from './doors.ts';
import { whoIsOnDuty } from './duty.ts';
import type { Notice } from './duty.ts';
import { ownCommand } from './program.ts';
import { parleyHome } from './env.ts';
import { tokenFrom, tokenWarning } from './token.ts';

/** How long the daemon may take until every door answers. */
const PATIENCE_MS = 15_000;
/** A log that is longer is put aside at the next start; one older log is kept. */
const LOG_BYTES = 5_000_000;

/** Starts the daemon in the background and returns when every door answers. If it fails, its own words are the reason. */
export async function detach(
  context: Context,
  rows: readonly DoorRow[],
  values: Record<string, unknown>,
): Promise<void> {
  const home = parleyHome(context.env);
  const there = whoIsOnDuty(`${home}/daemon`);
  if (there) return tellRunning(context, home, there, rows);
  if (values['token'] !== undefined) context.note(`warning: ${tokenWarning('BACKCHANNEL_TOKEN')}`);
  const env = environment(context, values);
  const log = `${home}/daemon.log`;
  const { fd, from } = openLog(home, log);
  const child = Bun.spawn(
    [...ownCommand(), 'up', ...argumentsOf(rows, values), ...(context.verbose ? ['--verbose'] : [])],
    {
      argv0: 'parley',
      env,
      cwd: context.cwd,
      stdio: ['ignore', fd, fd],
      // A session of its own: it outlives this terminal.
      detached: true,
    },
  );
  closeSync(fd);
  const notice = await untilOpen(home, child, rows);
  if (!notice) throw failed(child, log, from);
  child.unref();
  tellUp(context, home, notice, log);
}

/** Null if it ended, or does not answer in time. */
async function untilOpen(home: string, child: Bun.Subprocess, rows: readonly DoorRow[]): Promise<Notice | null> {
  for (const end = Date.now() + PATIENCE_MS; Date.now() < end; await Bun.sleep(20)) {
    if (child.exitCode !== null || child.signalCode !== null) return null;
    const notice = whoIsOnDuty(`${home}/daemon`);
    if (notice?.pid !== child.pid || notice.doors.length < rows.length) continue;
    const answers = await Promise.all(
      rows.map(async (row) => (await row.load()).default.answers(addressOf(notice, row))),
    );
    if (answers.every(Boolean)) return notice;
  }
  return null;
}

function addressOf(notice: Notice, row: DoorRow): string {
  return notice.doors.find(({ name }) => name === row.name)?.address ?? '';
}

/** What was said before `--detach`, without the token: everybody can see the words of a running program. */
function argumentsOf(rows: readonly DoorRow[], values: Record<string, unknown>): string[] {
  const options = Object.assign({}, ...rows.map((row) => row.options)) as DoorRow['options'];
  const given = Object.keys(options).flatMap((name) => {
    const value = name === 'token' || name === 'token-file' ? undefined : values[name];
    if (typeof value === 'string') return [`--${name}=${value}`];
    return value === true ? [`--${name}`] : [];
  });
  return [...rows.map((row) => `--with=${row.name}`), ...given];
}

/** The token goes to the daemon by the environment. A stdin that holds it is ours: it is read here. */
function environment(
  { env, cwd }: Context,
  values: { token?: string; 'token-file'?: string },
): Record<string, string | undefined> {
  return { ...env, BACKCHANNEL_TOKEN: tokenFrom(values, cwd, env['BACKCHANNEL_TOKEN']) };
}

function openLog(home: string, log: string): { fd: number; from: number } {
  try {
    mkdirSync(home, { recursive: true, mode: 0o700 });
    const size = statSync(log, { throwIfNoEntry: false })?.size ?? 0;
    if (size > LOG_BYTES) renameSync(log, `${log}.1`);
    return { fd: openSync(log, 'a', 0o600), from: size > LOG_BYTES ? 0 : size };
  } catch (error) {
    throw explained(error, home, 'nothing was started');
  }
}

/** The last thing it said is usually why, and its exit code says which kind of "no" it was. */
function failed(child: Bun.Subprocess, log: string, from: number): Refusal {
  const said = readFileSync(log).subarray(from).toString().trimEnd().split('\n').at(-1) ?? '';
  const why = said.replace(/^parley: /, '') || 'it said nothing';
  if (child.exitCode === null && child.signalCode === null) {
    child.kill('SIGTERM');
    return new Refusal(
      'storage_failed',
      `the daemon does not answer after ${PATIENCE_MS / 1000} s and was told to end; see ${log}`,
    );
  }
  const codes = Object.keys(REFUSALS) as RefusalCode[];
  const code = codes.find((one) => REFUSALS[one].exit === child.exitCode);
  return new Refusal(code ?? 'storage_failed', `the daemon did not start: ${why} (log: ${log})`);
}

function tellUp(context: Context, home: string, notice: Notice, log: string): void {
  if (context.json) return context.sayJson({ ...notice, home, log });
  context.say(`up in ${home} (pid ${notice.pid})`);
  for (const { name, address } of notice.doors) context.say(`  ${name} on ${address}`);
  context.say(`log: ${log}      look: parley status      end: parley down`);
}

/** Somebody who wants it up finds it up; somebody who wants another door has to end it first. */
function tellRunning(context: Context, home: string, notice: Notice, rows: readonly DoorRow[]): void {
  const missing = rows.filter((row) => !notice.doors.some(({ name }) => name === row.name));
  if (missing.length > 0) {
    const names = missing.map((row) => row.name).join(', ');
    throw new Refusal(
      'already_claimed',
      `the daemon of ${home} runs already (pid ${notice.pid}) without ${names}; \`parley down\` first, then \`parley up\` with everything you want`,
    );
  }
  if (!context.json) context.note(`it ran already, since ${notice.since}; nothing was changed`);
  tellUp(context, home, notice, `${home}/daemon.log`);
}
