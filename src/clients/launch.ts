import { existsSync, readFileSync } from 'node:fs';
import type { Env } from '../core/env.ts';
import type { AgentName } from '../core/names.ts';
import type { Server } from './settings/client-settings.ts';

/** The input of `Launcher.prepare`. */
export interface LaunchOrder {
  /** The client's program. */
  program: string;
  /** The user's arguments for the client, unchanged. */
  args: readonly string[];
  /** The name of the session. */
  name: AgentName;
  /** The absolute path in which the client runs. */
  folder: string;
  env: Env;
  /** The MCP server of Parley (`parley mcp`) for this name. */
  server: Server;
  /** The command of Parley's hook, exactly as `parley install` writes it. */
  hookLine: string;
  /** The user has allowed messages that the client would otherwise ask about. */
  inbound?: boolean;
}

/** How to start a client with Parley's hook and tools, without a change of its settings files. */
export interface Launch {
  /** Arguments in front of the user's own. */
  added: readonly string[];
  env: Env;
  /** The client's own session id, if Parley knows it before the client runs. */
  session?: string;
  /** If Parley has a terminal, it keeps that and runs the client in a PTY of its own. */
  isHeld?: boolean;
  /** The follower, if it runs, can hand mail to this client while it is idle. */
  canBeWoken: boolean;
  /** How mail arrives if nothing wakes the client, as a sentence that begins with "mail". */
  otherwise: string;
  notes: readonly string[];
}

/** How `parley run` reads a client's arguments and starts the client. */
export interface Launcher {
  /** Do these arguments begin a session? If not (`claude mcp list`, `codex login`), the client runs without additions. */
  beginsSession(args: readonly string[]): boolean;
  /** The working folder that the arguments name, if any. */
  folderIn?(args: readonly string[]): string | undefined;
  /** The id of the session that the arguments continue, if they name one. */
  sessionIn(args: readonly string[]): string | undefined;
  /** Does a session with these arguments ask its user about each message? Without this method it does not. */
  holdsMessages?(args: readonly string[], target: Pick<LaunchOrder, 'env' | 'folder'>): boolean;
  prepare(order: LaunchOrder): Promise<Launch>;
}

/** Is this a session id? Clients accept names in its place. */
export function isUuid(word: string): boolean {
  return /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(word);
}

const ASKS = ['-h', '--help', '-v', '-V', '--version'];

/** True unless the arguments ask for help or the version, or begin with one of these commands. */
export function isSession(args: readonly string[], otherCommands: readonly string[]): boolean {
  const [first = ''] = args;
  return !otherCommands.includes(first) && !beforeDashes(args).some((word) => ASKS.includes(word));
}

/** Is one of these options given? Finds `--name` and `--name=…`, and `-nvalue` for a short option. */
export function hasOption(args: readonly string[], ...names: readonly string[]): boolean {
  return beforeDashes(args).some((word) =>
    names.some((name) =>
      name.startsWith('--') ? word === name || word.startsWith(`${name}=`) : word.startsWith(name),
    ),
  );
}

/** Does this settings file name Parley's hook? */
export function hasHook(path: string, client: string): boolean {
  return existsSync(path) && readFileSync(path, 'utf8').match(new RegExp(`\\bhook ${client}\\b`)) !== null;
}

/** Does this settings file start Parley's MCP server? */
export function hasServer(path: string, client: string): boolean {
  return existsSync(path) && new RegExp(`"mcp",\\s*"--client",\\s*"${client}"`).test(readFileSync(path, 'utf8'));
}

function beforeDashes(args: readonly string[]): readonly string[] {
  const end = args.indexOf('--');
  return end < 0 ? args : args.slice(0, end);
}
