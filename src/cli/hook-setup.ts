import type { Env } from '../core/env.ts';
import { HookSessionFolder, layReferences, mailboxOf } from '../delivery/hook-session.ts';
import { scriptLine, hookScript, shellQuoted, SCRIPT_VERSION } from '../delivery/hook-script.ts';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Who } from '../core/mail/workspace.ts';
import { Refusal } from '../core/refusal.ts';
import type { Context } from './context.ts';
import { gitOrigin } from '../platform/git.ts';
import { ownCommand } from '../platform/program.ts';
import { parleyHome } from '../platform/env.ts';

/** What `parley init` does for hooks: the script is there and current, and this session, if one is named, is the agent's. */
export function prepareHook(context: Context, who: Who, session: string | undefined): void {
  writeScript(context.env);
  if (session === undefined) return;
  const named = HookSessionFolder.open(resolve(parleyHome(context.env)), session);
  if (!named)
    throw new Refusal('invalid_request', 'a session id has letters, digits, . _ - and does not begin with a dot');
  const match = contextOf(context);
  named.bind({ v: 1, by: 'init', agent: who.name, match, cwd: context.cwd }, mailboxOf(who));
}

/** Writes the script of the hook and returns its path. */
export function writeScript(env: Env): string {
  const home = resolve(parleyHome(env));
  mkdirSync(home, { recursive: true, mode: 0o700 });
  layReferences(home);
  writeFileSync(`${home}/.hook.${process.pid}`, scriptText(env), { mode: 0o700 });
  renameSync(`${home}/.hook.${process.pid}`, `${home}/hook`);
  return `${home}/hook`;
}

/** Replaces a script that an earlier version left: it would not start us at the event that settles mail. */
export function renewScript(env: Env): void {
  const path = `${resolve(parleyHome(env))}/hook`;
  const isOlder = existsSync(path) && !readFileSync(path, 'utf8').includes(`\n${SCRIPT_VERSION}\n`);
  if (isOlder) writeScript(env);
}

/** The script as one shell word: with `~`, unless the home was moved. */
export function hookWord(env: Env): string {
  const home = env['PARLEY_HOME'];
  if (!home) return '~/.parley/hook';
  const folder = resolve(home);
  return `${/[^A-Za-z0-9/._-]/.test(folder) ? shellQuoted(folder) : folder}/hook`;
}

/** The line in the settings of a client. It ends in `hook <client>` and holds no mailbox. spec: hook#line */
export function hookLine(env: Env, client: string): string {
  return scriptLine(hookWord(env), client);
}

export function scriptText(env: Env): string {
  return hookScript(resolve(parleyHome(env)), ownCommand());
}

/** The context of a session that works here, for scoped mail: as it is set, or else the repository, or else the folder. */
export function contextOf(context: Context): string {
  return context.settings.match ?? gitOrigin(context.cwd) ?? context.cwd;
}
