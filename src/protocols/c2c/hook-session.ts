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

/** A time may be rounded by this much when it is set. */
export const ROUNDING_MS = 25;

/** Which inbox a session of a client has. `sure`: the session is registered there; otherwise its folder made us think so. */
export interface HookBinding {
  root: string;
  sessionId: string;
  sure: boolean;
}

/**
 * A session of a client whose mail is at a broker of c2c. The script cannot know which broker belongs to a session: it is called the same
 * in every repository. So the command that registers a session notes it here.
 *
 *   inbox, held      links to the session's inbox, and to what readers hold at that broker
 *   guess            nobody registered it, or it has started again since: ask again
 *   seen, sub        links to a second name of the inbox that was last searched in vain; *.at: when
 *   look             until when held mail need not be seen to, in seconds since 1970
 *
 * spec: c2c#hook
 */
export class HookSession extends SessionFolder {
  /** Null if a client's name for its session cannot be a folder's. */
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
    // Until the links are right nothing may be taken for seen.
    for (const name of ['seen', 'sub', 'look']) rmSync(`${this.folder}/${name}`, { force: true });
    this.place('held', (path) => symlinkSync(`${root}/held`, path));
    this.place('inbox', (path) => symlinkSync(`${root}/${sessionId}.inbox.json`, path));
    if (sure) rmSync(`${this.folder}/guess`, { force: true });
    else writeFileSync(`${this.folder}/guess`, '', { mode: 0o600 });
  }

  /**
   * Begins a look through the inbox. `inVain` says that nothing in it is to be said: from then on the script looks no further until
   * another file is in the inbox's place. What is put there while we look is not taken for seen.
   */
  look({ root, sessionId }: HookBinding, kind: 'seen' | 'sub'): { inVain(): void; close(): void } {
    const inbox = `${root}/${sessionId}.inbox.json`;
    if (!existsSync(inbox)) return NOTHING;
    const folder = `${root}/hook`;
    const draft = `${folder}/.${this.id}.${kind}.${process.pid}`;
    const mark = `${folder}/${this.id}.${kind}`;
    try {
      this.place(`${kind}.at`, (path) => writeFileSync(path, '', { mode: 0o600 }));
      // A little before now: a change of the inbox from now on is newer than this, however its clock rounds.
      const then = (Date.now() - ROUNDING_MS) / 1000;
      utimesSync(`${this.folder}/${kind}.at`, then, then);
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      rmSync(draft, { force: true });
      linkSync(inbox, draft);
    } catch {
      // A file system without second names, or one that cannot be written: the script then starts us too often.
      return NOTHING;
    }
    return {
      inVain: () => {
        renameSync(draft, mark);
        this.place(kind, (path) => symlinkSync(mark, path));
      },
      // Two names of one file are not renamed into one.
      close: () => rmSync(draft, { force: true }),
    };
  }

  /** Held mail is seen to in half a minute. */
  lookAgain(): void {
    const seconds = Math.floor((Date.now() + LOOK_MS) / 1000);
    this.place('look', (path) => writeFileSync(path, `${seconds}\n`, { mode: 0o600 }));
  }
}

const NOTHING = { inVain: (): void => {}, close: (): void => {} };

/** Where the folders of sessions are. The script names it: it was told when it was written. */
export function hookFolder(env: Env): string {
  return env['C2C_HOOK_FOLDER'] || `${dataFolder(env)}/sessions`;
}

/**
 * Notes which inbox a session has that was just registered, so that its hook finds it. The names that its client has for it are in
 * the environment, if it is the session itself that calls. Never a reason to fail.
 */
export function bindHookSession(env: Env, root: string, sessionId: string): void {
  const isCaller = ownSession(env) === sessionId;
  const names = isCaller ? CLIENT_VARIABLES.map((name) => env[name]) : [];
  for (const name of new Set([sessionId, ...names])) {
    try {
      HookSession.open(hookFolder(env), name)?.bind({ root, sessionId, sure: true });
    } catch {
      // The hook then finds it by its folder.
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

/** Removes what sessions left behind that have said nothing for a month. */
export function forgetOldC2cSessions(folder: string): void {
  for (const path of oldOnes(namesIn(folder).map((name) => `${folder}/${name}`))) {
    const name = path.slice(folder.length + 1);
    const bound = HookSession.open(folder, name)?.bound();
    for (const kind of bound ? ['seen', 'sub'] : []) rmSync(`${bound?.root}/hook/${name}.${kind}`, { force: true });
    rmSync(path, { recursive: true, force: true });
  }
}
