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

/** The folder is also read at this interval, because a file event can be missed. */
const LOOK_MS = 2000;

const millis = v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(7 * 24 * 3_600_000));

/**
 * A loop that should run for a session. `wake` types a notice that mail waits, `deliver` types the mail itself into the terminal, `wire` starts
 * a kimi for it. spec: c2c#loops
 */
export const LoopOrder = new Schema(() =>
  v.object({
    kind: v.picklist(['wake', 'deliver', 'wire']),
    session: v.pipe(
      v.string(),
      v.check((text) => isC2cSessionId(text), 'no session id'),
    ),
    client: v.string(),
    /** `tmux:…` or `pty:…`; a `wire` loop has none. */
    terminal: v.optional(v.string()),
    broker_root: v.pipe(v.string(), v.startsWith('/')),
    /** The process in the terminal, if known: when it ends, the loop ends, too. */
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

/** Removes the order of a session's loop. True if there was one. */
export function removeLoopOrder(folder: string, session: string): boolean {
  const path = `${folder}/${session}.json`;
  const was = readLoopOrder(folder, session) !== null;
  rmSync(path, { force: true });
  return was;
}

/** The order of a session's loop; null if there is none, or if it cannot be read. */
export function readLoopOrder(folder: string, session: string): LoopOrder | null {
  const read = LoopOrder.safeParse(readJsonFile(`${folder}/${session}.json`));
  // An order in a file of another name would run twice.
  return read.success && read.data.session === session ? read.data : null;
}

export function allLoopOrders(folder: string): LoopOrder[] {
  const names = ifThere(() => readdirSync(folder)) ?? [];
  const sessions = names.flatMap((name) => /^(.+)\.json$/.exec(name)?.[1] ?? []);
  return sessions.flatMap((session) => readLoopOrder(folder, session) ?? []);
}

/** Calls back when the folder changes, and at an interval. */
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

/** The folder for data that belongs to this machine and not to a broker. spec: c2c#folders */
export function dataFolder(env: Env): string {
  const { XDG_DATA_HOME: data } = env;
  return `${data?.startsWith('/') ? data : `${userHome(env)}/.local/share`}/c2c`;
}

/** The loop orders, one file per session. */
export function loopsFolder(env: Env): string {
  return `${dataFolder(env)}/loops`;
}

/** The state files that clients' hooks write, one per session. */
export function signsFolder(env: Env): string {
  return `${dataFolder(env)}/signs`;
}

/** The pid and log files of wire bridges. */
export function daemonsFolder(env: Env): string {
  return `${dataFolder(env)}/wire-daemons`;
}

/** The sessions that `c2c start` manages, one folder each. */
export function instancesFolder(env: Env): string {
  return env['C2C_INSTANCES_DIR'] || `${dataFolder(env)}/instances`;
}

/** Writes a small file whole. `flush` false: it may be lost in a power cut. */
export function writeWhole(path: string, text: string, { flush = true } = {}): void {
  const folder = path.slice(0, path.lastIndexOf('/'));
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    replaceFile(path, text, { flush });
  } catch (error) {
    throw explained(error, folder, 'nothing was changed');
  }
}
