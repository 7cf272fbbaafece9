import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import * as v from 'valibot';
import { readSessionId } from '../../../protocols/c2c/shapes.ts';
import { Refusal } from '../../../protocol/refusal.ts';
import { Schema } from '../../../protocol/schema.ts';
import type { Described } from '../../../protocol/schema.ts';
import { isMissing } from '../../../storage/disk.ts';
import { platform } from '../../../storage/platform/platform.ts';
import { instancesFolder, writeWhole } from '../../loops/folders.ts';
import type { Env } from '../../env.ts';
import { ownClientChain } from './client-chain.ts';

/** A session that we keep: how it is started, and what runs of it. spec: c2c#instances */
export const Instance = new Schema(() =>
  v.object({
    name: v.string(),
    client: v.string(),
    session_id: v.string(),
    alias: v.string(),
    broker_root: v.string(),
    cwd: v.string(),
    command: v.array(v.string()),
    created_at: v.number(),
    started_at: v.number(),
    /** `tmux@<path of the server>:%<pane>`, or `pty <pid>` where a process of ours holds it: the holder. */
    terminal: v.string(),
    pty: v.optional(v.boolean()),
    holder: v.optional(v.number()),
    /** The session of tmux, for people who want to look. */
    tmux: v.optional(v.object({ socket: v.string(), session: v.string() })),
    pid: v.number(),
    /** Proves that the process of this number is still the same. */
    pid_start: v.string(),
    loop: v.picklist(['wake', 'none']),
    rooms: v.optional(v.string()),
  }),
);
export type Instance = Described<typeof Instance>;

export function folderOf(env: Env, name: string): string {
  return `${instancesFolder(env)}/${name}`;
}

/** An instance's name becomes the name of a folder. */
export function readInstanceName(text: string): string {
  try {
    return readSessionId(text);
  } catch {
    const shown = text.replace(/\p{Cc}/gu, '?').slice(0, 80);
    throw new Refusal(
      'invalid_request',
      `"${shown}" is no name; use 1 to 128 letters, digits, . _ - and no dot in front`,
    );
  }
}

export function keep(env: Env, instance: Instance): void {
  const folder = folderOf(env, instance.name);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  writeWhole(`${folder}/config.json`, `${JSON.stringify(instance, null, 2)}\n`);
  writeWhole(`${folder}/expected-cwd`, `${instance.cwd}\n`);
  writeWhole(`${folder}/outer.pid`, `${instance.pid}\n`);
  if (instance.tmux) writeWhole(`${folder}/tmux.json`, `${JSON.stringify(instance.tmux)}\n`);
}

export function known(env: Env, name: string): Instance | null {
  try {
    const read = Instance.safeParse(JSON.parse(readFileSync(`${folderOf(env, name)}/config.json`, 'utf8')));
    return read.success && read.data.name === name ? read.data : null;
  } catch (error) {
    if (isMissing(error) || error instanceof SyntaxError) return null;
    throw error;
  }
}

export function mustKnow(env: Env, text: string): Instance {
  const instance = known(env, readInstanceName(text));
  if (instance) return instance;
  const names = all(env).map(({ name }) => name);
  const there = names.length > 0 ? `there is ${names.slice(0, 10).join(', ')}` : 'none was ever started here';
  throw new Refusal('not_found', `no instance is called "${text}"; ${there}`);
}

export function all(env: Env): Instance[] {
  const folder = instancesFolder(env);
  const names = existsSync(folder) ? readdirSync(folder).sort() : [];
  return names.flatMap((name) => known(env, name) ?? []);
}

/** The instance whose session this is. */
export function instanceOf(env: Env, sessionId: string): Instance | null {
  return all(env).find(({ session_id }) => session_id === sessionId) ?? null;
}

/**
 * The managed session whose client started this process, a hook or an MCP server. Their environment proves nothing: one daemon of Codex
 * serves all its windows with the environment of the first, and MCP servers get none. So `c2c start` runs Codex without the daemon and
 * notes its process; two sessions in one folder are two processes. spec: c2c#managed-codex
 */
export function instanceAbove(env: Env): Instance | null {
  const running = all(env).filter(isUp);
  if (running.length === 0) return null;
  const chain = ownClientChain();
  return running.find(({ pid }) => chain.includes(pid)) ?? null;
}

/** Does this very process still run? Another one may have its number by now. */
export function isUp({ pid, pid_start }: Pick<Instance, 'pid' | 'pid_start'>): boolean {
  const start = platform.processStart(pid);
  return start !== null && (start === pid_start || start === 'unknown' || pid_start === 'unknown');
}

export function startOf(pid: number): string {
  return platform.processStart(pid) ?? 'gone';
}

export function dropPid(env: Env, name: string): void {
  rmSync(`${folderOf(env, name)}/outer.pid`, { force: true });
}
