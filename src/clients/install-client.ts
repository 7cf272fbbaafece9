import type { Wish } from './settings/apply.ts';
import { hasMember } from './settings/jsonc-edit.ts';
import { readTree } from './settings/jsonc-tree.ts';

/** By these names `c2c install` and `parley install` know the clients. */
export const CLIENT_NAMES = ['claude', 'codex', 'opencode', 'kimi', 'gemini'] as const;
export type ClientName = (typeof CLIENT_NAMES)[number];

/** Where things are: the user's home, the variables that move folders, and the folder that is worked in. */
export interface Place {
  home: string;
  env: Readonly<Record<string, string | undefined>>;
  project: string;
}

/** A program that a client starts for its tools. */
export interface Server {
  command: string;
  args: readonly string[];
  env: Readonly<Record<string, string>>;
}

/** A command that a client runs at some of its events. */
export interface Hooks {
  what: string;
  command: (event: string) => string;
  events: readonly string[];
  /** By this part of a command it is known that such a hook is there, whoever put it there. */
  mark: string;
  matcher?: string;
  timeout?: number;
}

/** What one of our names brings to a client. */
export interface Gift {
  by: 'c2c' | 'parley';
  server: Server;
  /** The server belongs into the settings of the project, where the client has such. */
  forProject: boolean;
  hooks: readonly Hooks[];
  /** Files of our own. */
  files: readonly { path: string; what: string; text: string; mode?: number }[];
}

/** A client to which we can be added by its settings. */
export interface InstallClient {
  name: ClientName;
  title: string;
  /** Its programs: it is here if its folder is, or one of these is on the search path. */
  binaries: readonly string[];
  /** The folders of its settings, as they are here, or as they would be. */
  folders(place: Place): string[];
  /** Where the server is written. */
  servers(place: Place, forProject: boolean): string[];
  wishes(place: Place, gift: Gift): Wish[];
  /** What only the user can do, and what to expect. */
  advice(place: Place, gift: Gift): string[];
}

/** The files of our own come first: what is written later may name them. */
export function fileWishes(owner: string, { by, files }: Gift): Wish[] {
  return files.map(({ path, what, text, mode }) => ({
    by,
    path,
    owner,
    what,
    content: { format: 'whole', text, ...(mode !== undefined && { mode }) },
    isThere: (found) => found === text,
  }));
}

/** A server as a member of a JSON file. */
export function serverWish(owner: string, by: string, path: string, at: string[], value: unknown): Wish {
  return {
    by,
    path,
    owner,
    what: 'MCP server',
    content: { format: 'json', at, append: false, value },
    isThere: (text) => hasMember(text, at),
  };
}

/** The variables of a server under the client's word for them; nothing where there are none. */
export function variables(word: string, env: Server['env']): Record<string, unknown> {
  return Object.keys(env).length === 0 ? {} : { [word]: env };
}

/** Hooks in the shape that Claude Code began and others took over: each event lists what runs. */
export function hookWishes(owner: string, { by, hooks }: Gift, path: string): Wish[] {
  return hooks.flatMap((hook) => hook.events.map((event) => hookWish({ by, owner, path }, hook, event)));
}

function hookWish(where: Pick<Wish, 'by' | 'owner' | 'path'>, hook: Hooks, event: string): Wish {
  const { what, command, mark, matcher, timeout } = hook;
  const entry = { type: 'command', command: command(event), ...(timeout !== undefined && { timeout }) };
  const value = { ...(matcher !== undefined && { matcher }), hooks: [entry] };
  return {
    ...where,
    what: `${what} at ${event}`,
    content: { format: 'json', at: ['hooks', event], append: true, value },
    isThere: (text) => commandsAt(readTree(text).value, event).some((one) => isMarked(one, mark)),
  };
}

/** Is this command ours? Its words may be quoted in another way. */
export function isMarked(command: string, mark: string): boolean {
  const plain = (text: string): string => text.replaceAll(/['"]/g, '');
  return plain(command).includes(plain(mark));
}

function commandsAt(settings: unknown, event: string): string[] {
  const entries = listIn(tableIn(tableIn(settings)['hooks'])[event]);
  const commands = entries.flatMap((entry) => listIn(tableIn(entry)['hooks'])).map((hook) => tableIn(hook)['command']);
  return commands.filter((command) => typeof command === 'string');
}

export function tableIn(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

function listIn(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}
