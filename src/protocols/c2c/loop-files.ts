import * as v from 'valibot';
import type { Env } from '../../core/env.ts';
import { readJsonFile } from './files.ts';
import { isC2cSessionId } from './shapes.ts';
import { mkdirSync, readdirSync, rmSync, watch } from 'node:fs';
import { userHome } from '../../platform/env.ts';
import { replaceFile } from '../../platform/files.ts';
import { Schema } from '../../core/schema.ts';
import type { Described } from '../../core/schema.ts';
import { explained, ifThere } from '../../core/disk.ts';

/** A file event can be missed; nobody waits longer than this for a loop that is wanted. */
const LOOK_MS = 2000;

const millis = v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(7 * 24 * 3_600_000));

/**
 * A loop that should run for a session. `wake` tells it that mail waits, `deliver` puts the mail itself into its terminal, `wire` gives
 * it to a kimi of its own. spec: c2c#loops
 */
export const LoopOrder = new Schema(() =>
  v.object({
    kind: v.picklist(['wake', 'deliver', 'wire']),
    session: v.pipe(
      v.string(),
      v.check((text) => isC2cSessionId(text), 'no session id'),
    ),
    client: v.string(),
    /** `tmux:…` or `pty:…`; a wire has none. */
    terminal: v.optional(v.string()),
    broker_root: v.pipe(v.string(), v.startsWith('/')),
    /** The process in the terminal, where it is known: when it has ended, the loop ends too. */
    pid: v.optional(v.number()),
    options: v.object({
      gap_ms: v.optional(millis),
      heartbeat_ms: v.optional(millis),
      submit_delay_ms: v.optional(millis),
      interval_ms: v.optional(millis),
      command: v.optional(v.string()),
      work_dir: v.optional(v.string()),
      alias: v.optional(v.string()),
      instance: v.optional(v.string()),
      /** The conversation of Codex that its window shows. */
      thread: v.optional(v.string()),
    }),
  }),
);
export type LoopOrder = Described<typeof LoopOrder>;

export function writeLoopOrder(folder: string, wanted: LoopOrder): void {
  writeWhole(`${folder}/${wanted.session}.json`, `${JSON.stringify(wanted, null, 2)}\n`);
}

/** True if it was wanted until now. */
export function removeLoopOrder(folder: string, session: string): boolean {
  const path = `${folder}/${session}.json`;
  const was = readLoopOrder(folder, session) !== null;
  rmSync(path, { force: true });
  return was;
}

/** Null if nothing is wanted for it, or nothing that can be read. */
export function readLoopOrder(folder: string, session: string): LoopOrder | null {
  const read = LoopOrder.safeParse(readJsonFile(`${folder}/${session}.json`));
  // What is in a file of another name would be run twice.
  return read.success && read.data.session === session ? read.data : null;
}

export function allLoopOrders(folder: string): LoopOrder[] {
  const names = ifThere(() => readdirSync(folder)) ?? [];
  const sessions = names.flatMap((name) => /^(.+)\.json$/.exec(name)?.[1] ?? []);
  return sessions.flatMap((session) => readLoopOrder(folder, session) ?? []);
}

/** Calls back when something in the folder may have changed, and now and then. */
export function watchLoopOrders(folder: string, onChange: () => void): { close(): void } {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const watcher = watch(folder, onChange);
  watcher.on('error', () => {});
  const timer = setInterval(onChange, LOOK_MS);
  return {
    close() {
      watcher.close();
      clearInterval(timer);
    },
  };
}

/** Where c2c keeps what belongs to this machine and not to a broker. spec: c2c#folders */
export function dataFolder(env: Env): string {
  const { XDG_DATA_HOME: data } = env;
  return `${data?.startsWith('/') ? data : `${userHome(env)}/.local/share`}/c2c`;
}

/** What is wanted to run, one file per session. */
export function loopsFolder(env: Env): string {
  return `${dataFolder(env)}/loops`;
}

/** What hooks of clients say of their sessions, one file each. */
export function signsFolder(env: Env): string {
  return `${dataFolder(env)}/signs`;
}

/** The pid and log files of wire bridges. */
export function daemonsFolder(env: Env): string {
  return `${dataFolder(env)}/wire-daemons`;
}

/** The sessions that `c2c start` keeps, one folder each. */
export function instancesFolder(env: Env): string {
  return env['C2C_INSTANCES_DIR'] || `${dataFolder(env)}/instances`;
}

/** Writes a small file, flushed unless it need not outlive the machine. */
export function writeWhole(path: string, text: string, { flush = true } = {}): void {
  const folder = path.slice(0, path.lastIndexOf('/'));
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    replaceFile(path, text, { flush });
  } catch (error) {
    throw explained(error, folder, 'nothing was changed');
  }
}
