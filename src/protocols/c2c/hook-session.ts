import type { Env } from '../../core/env.ts';
import { namesIn, oldOnes, SessionFolder, isSessionId, LOOK_MS } from '../../delivery/hook-session.ts';
import {
  existsSync,
  linkSync,
  mkdirSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { dataFolder } from './loop-files.ts';
import { CLIENT_VARIABLES, sessionIn } from './workspace.ts';

/** The file system may round a time by this much. */
export const ROUNDING_MS = 25;

/** The inbox of a client's session. `sure`: the session is registered there; otherwise the inbox is a guess from its folder. */
export interface HookBinding {
  root: string;
  sessionId: string;
  sure: boolean;
}

/**
 * The folder of a client's session whose mail is at a c2c broker. The hook's script is the same in every repository, so it cannot know the
 * broker of a session. The command that registers a session records it here:
 *
 *   inbox, held      links to the session's inbox, and to the folder of mail that readers hold at that broker
 *   guess            the session is not registered, or has started again since: look for its inbox again
 *   seen, sub        links to a hard link of the inbox file that was last searched without a result; *.at: when
 *   look             until when held mail need not be checked, in seconds since 1970
 *
 * spec: c2c#hook
 */
export class HookSession extends SessionFolder {
  /** The folder of a session; null if the client's session id is not a valid folder name. */
  static open(folder: string, id: string | undefined): HookSession | null {
    return isSessionId(id) ? new HookSession(`${folder}/${id}`, id) : null;
  }

  bound(): HookBinding | null {
    try {
      const [, root, sessionId] = /^(.*)\/([^/]+)\.inbox\.json$/.exec(readlinkSync(`${this.folder}/inbox`)) ?? [];
      return root && sessionId ? { root, sessionId, sure: !existsSync(`${this.folder}/guess`) } : null;
    } catch {
      return null;
    }
  }

  bind({ root, sessionId, sure }: HookBinding): void {
    const before = this.bound();
    if (before?.root === root && before.sessionId === sessionId && before.sure === sure) return;
    mkdirSync(this.folder, { recursive: true, mode: 0o700 });
    // Remove the marks of searches before the links change.
    for (const name of ['seen', 'sub', 'look']) rmSync(`${this.folder}/${name}`, { force: true });
    this.place('held', (path) => symlinkSync(`${root}/held`, path));
    this.place('inbox', (path) => symlinkSync(`${root}/${sessionId}.inbox.json`, path));
    if (sure) rmSync(`${this.folder}/guess`, { force: true });
    else writeFileSync(`${this.folder}/guess`, '', { mode: 0o600 });
  }

  /**
   * Begins a search of the inbox. `markSearched` records that it has nothing to show: from then on the script starts no program until the inbox
   * file is replaced. A file that replaces the inbox during the search does not count as searched.
   */
  look({ root, sessionId }: HookBinding, kind: 'seen' | 'sub'): { markSearched(): void; close(): void } {
    const inbox = `${root}/${sessionId}.inbox.json`;
    if (!existsSync(inbox)) return NOTHING;
    const folder = `${root}/hook`;
    const draft = `${folder}/.${this.id}.${kind}.${process.pid}`;
    const mark = `${folder}/${this.id}.${kind}`;
    try {
      this.place(`${kind}.at`, (path) => writeFileSync(path, '', { mode: 0o600 }));
      // Slightly before now, so that every later change of the inbox is newer, even if the file system rounds its times.
      const then = (Date.now() - ROUNDING_MS) / 1000;
      utimesSync(`${this.folder}/${kind}.at`, then, then);
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      rmSync(draft, { force: true });
      linkSync(inbox, draft);
    } catch {
      // A file system without hard links, or a read-only one: the script then starts us too often, which does no harm.
      return NOTHING;
    }
    return {
      markSearched: () => {
        renameSync(draft, mark);
        this.place(kind, (path) => symlinkSync(mark, path));
      },
      // Needed even after `markSearched`: renaming one hard link of a file onto another does nothing.
      close: () => rmSync(draft, { force: true }),
    };
  }

  /** Lets the script start us again after `LOOK_MS`, because held mail may come back. */
  lookAgain(): void {
    const seconds = Math.floor((Date.now() + LOOK_MS) / 1000);
    this.place('look', (path) => writeFileSync(path, `${seconds}\n`, { mode: 0o600 }));
  }
}

const NOTHING = { markSearched: (): void => {}, close: (): void => {} };

/** The folder of all session folders. The installed script contains this path. */
export function hookFolder(env: Env): string {
  return env['C2C_HOOK_FOLDER'] || `${dataFolder(env)}/sessions`;
}

/**
 * Records the inbox of a session that was just registered, so that its hook finds it. If the session itself is the caller, also under the
 * client's own ids for it, which are in the environment. Never fails.
 */
export function bindHookSession(env: Env, root: string, sessionId: string): void {
  const isCaller = ownSession(env) === sessionId;
  const names = isCaller ? CLIENT_VARIABLES.map((name) => env[name]) : [];
  for (const name of new Set([sessionId, ...names])) {
    try {
      HookSession.open(hookFolder(env), name)?.bind({ root, sessionId, sure: true });
    } catch {
      // The hook then finds the inbox by the session's folder.
    }
  }
}

function ownSession(env: Env): string | null {
  try {
    return sessionIn(env, process.cwd());
  } catch {
    return null;
  }
}

/** Removes the folders of sessions without an event for a month. */
export function forgetOldC2cSessions(folder: string): void {
  for (const path of oldOnes(namesIn(folder).map((name) => `${folder}/${name}`))) {
    const name = path.slice(folder.length + 1);
    const bound = HookSession.open(folder, name)?.bound();
    for (const kind of bound ? ['seen', 'sub'] : []) rmSync(`${bound?.root}/hook/${name}.${kind}`, { force: true });
    rmSync(path, { recursive: true, force: true });
  }
}
