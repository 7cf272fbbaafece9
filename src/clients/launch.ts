import { existsSync, readFileSync } from 'node:fs';
import type { Env } from '../core/env.ts';
import type { AgentName } from '../core/names.ts';
import type { Server } from './settings/client-settings.ts';

/** What a client is started with. */
export interface LaunchOrder {
  /** The client's program. */
  program: string;
  /** The user's own words for it, as they are. */
  args: readonly string[];
  /** The name of the session. */
  name: AgentName;
  /** Where it works, absolute. */
  folder: string;
  env: Env;
  /** `parley mcp` for this name. */
  server: Server;
  /** The command of Parley's hook, the very one that `parley install` writes. */
  hookLine: string;
  /** The user lets messages in that the client would ask about. */
  inbound?: boolean;
}

/** How a client is started with Parley in place. No settings file is changed for it. */
export interface Launch {
  /** Come before the user's own words. */
  added: readonly string[];
  env: Env;
  /** The client's own id of the session, where we know it before the client runs. */
  session?: string;
  /** It runs in a terminal that Parley holds, if it has one at all. */
  isHeld?: boolean;
  /** Mail can be handed to it while it is idle, if the follower runs. */
  canBeWoken: boolean;
  /** How mail comes otherwise: "mail …". */
  otherwise: string;
  notes: readonly string[];
}

/** What `parley run` knows of a client. */
export interface Launcher {
  /** Do these words begin a session? If not, the client runs as if it was called directly: `claude mcp list`, `codex login`. */
  beginsSession(args: readonly string[]): boolean;
  /** The folder that the words name, if they do. */
  folderIn?(args: readonly string[]): string | undefined;
  /** The client's id of the session that the words continue, if they name it. */
  sessionIn(args: readonly string[]): string | undefined;
  /** Does a session with these words ask its user about each message? By default none does. */
  holdsMessages?(args: readonly string[], target: Pick<LaunchOrder, 'env' | 'folder'>): boolean;
  prepare(order: LaunchOrder): Promise<Launch>;
}

/** Is this the id of a session, as clients write it? They also take names. */
export function isUuid(word: string): boolean {
  return /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(word);
}

const ASKS = ['-h', '--help', '-v', '-V', '--version'];

/** True unless the words only ask about the program, or begin with one of these commands. */
export function isSession(args: readonly string[], otherCommands: readonly string[]): boolean {
  const [first = ''] = args;
  return !otherCommands.includes(first) && !beforeDashes(args).some((word) => ASKS.includes(word));
}

/** Is there an option with this name? `--name`, `--name=…`; of a short one also `-nvalue`. */
export function hasOption(args: readonly string[], ...names: readonly string[]): boolean {
  return beforeDashes(args).some((word) =>
    names.some((name) =>
      name.startsWith('--') ? word === name || word.startsWith(`${name}=`) : word.startsWith(name),
    ),
  );
}

/** Does this settings file of a client call Parley's hook? */
export function hasHook(path: string, client: string): boolean {
  return existsSync(path) && readFileSync(path, 'utf8').match(new RegExp(`\\bhook ${client}\\b`)) !== null;
}

/** Does this settings file of a client start Parley's server, which has its tools? */
export function hasServer(path: string, client: string): boolean {
  return existsSync(path) && new RegExp(`"mcp",\\s*"--client",\\s*"${client}"`).test(readFileSync(path, 'utf8'));
}

function beforeDashes(args: readonly string[]): readonly string[] {
  const end = args.indexOf('--');
  return end < 0 ? args : args.slice(0, end);
}
