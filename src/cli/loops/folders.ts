import { closeSync, fsyncSync, mkdirSync, openSync, renameSync, writeSync } from 'node:fs';
import { explained } from '../../storage/disk.ts';
import type { Env } from '../env.ts';
import { userHome } from '../env.ts';

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

/** Writes a small file so that whoever reads it, also after a crash of the machine, finds the old or the new text. */
export function writeWhole(path: string, text: string): void {
  replace(path, text, true);
}

/** The same for what must outlive this process and not the machine: it waits for no disk. */
export function replaceWhole(path: string, text: string): void {
  replace(path, text, false);
}

function replace(path: string, text: string, flushed: boolean): void {
  const folder = path.slice(0, path.lastIndexOf('/'));
  const draft = `${path}.${process.pid}.tmp`;
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const fd = openSync(draft, 'w', 0o600);
    try {
      writeSync(fd, text);
      if (flushed) fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    renameSync(draft, path);
    if (flushed) flushFolder(folder);
  } catch (error) {
    throw explained(error, folder, 'nothing was changed');
  }
}

function flushFolder(folder: string): void {
  const fd = openSync(folder, 'r');
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}
