import * as v from 'valibot';
import type * as Names from '../delivery/session-names.ts';
import type * as Jsonc from '../clients/settings/jsonc.ts';
import type { Env } from '../core/env.ts';
import { visibleLine } from '../core/gate.ts';
import { parleyHome } from '../platform/env.ts';
import { DAY, spanMs } from '../core/time.ts';
import { trustOf } from '../platform/trust.ts';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { nearest } from '../core/nearest.ts';
import { BODY_LIMIT } from '../core/message.ts';
import { AgentName } from '../core/names.ts';
import { Refusal } from '../core/refusal.ts';
import { Schema } from '../core/schema.ts';
import { clientBindings } from '../delivery/client-bindings.ts';

/** A reader must be able to read whatever a sender may store: see platform/files.ts. */
const BODY_CEILING = 8 * 1024 * 1024;

/** A file of settings is written by hand. */
const FILE_LIMIT = 64 * 1024;

/** `30d`, `12h`, `forever`, or a bare number of days; as milliseconds, null forever. */
const Span = new Schema(() =>
  v.pipe(
    v.union([v.string(), v.number()]),
    // As text first: a number below 0, with a fraction or too large to be written out is then no span.
    v.transform(String),
    v.regex(/^(\d{1,6}[dhm]?|forever)$/, 'write a number of days, 30d, 12h, 5m or forever'),
    v.transform(spanMs),
  ),
);

/** Every setting: its type, its variable, its default, and whether a trusted `.parley.json` of a project may set it. */
export const SETTINGS = {
  agent: { schema: AgentName, env: 'PARLEY_AGENT', fallback: undefined, project: true, help: 'which agent I am' },
  match: {
    schema: new Schema(() => v.string()),
    env: 'PARLEY_MATCH',
    fallback: undefined,
    project: true,
    help: 'my repository, for scoped mail',
  },
  relay: {
    schema: new Schema(() => v.string()),
    env: 'PARLEY_RELAY',
    fallback: undefined,
    project: false,
    help: 'which relay to use, if I am at several: a part of its name',
  },
  bodyLimit: {
    schema: new Schema(() =>
      v.pipe(
        v.union([v.string(), v.number()]),
        v.transform(Number),
        v.integer(),
        v.minValue(1),
        v.maxValue(BODY_CEILING),
      ),
    ),
    env: 'PARLEY_BODY_LIMIT',
    fallback: BODY_LIMIT,
    project: false,
    help: 'largest body that is accepted, in bytes; at most 8388608',
  },
  durability: {
    schema: new Schema(() => v.picklist(['normal', 'full'])),
    env: 'PARLEY_DURABILITY',
    fallback: 'normal',
    project: false,
    help: 'full: also flush the ledger at every step',
  },
  keepBodies: {
    schema: Span,
    env: 'PARLEY_KEEP_BODIES',
    fallback: 30 * DAY,
    project: false,
    help: 'how long bodies of settled messages are kept',
  },
  keepFacts: {
    schema: Span,
    env: 'PARLEY_KEEP_FACTS',
    fallback: 180 * DAY,
    project: false,
    help: 'how long traces are kept',
  },
  composeMs: {
    schema: new Schema(() =>
      v.pipe(
        v.union([v.string(), v.number()]),
        v.transform(Number),
        v.integer(),
        v.minValue(2000, 'use 2000 to 5000 ms'),
        v.maxValue(5000, 'use 2000 to 5000 ms'),
      ),
    ),
    env: 'PARLEY_COMPOSE_MS',
    fallback: 2500,
    project: false,
    help: 'how long the host waits for more of what a person writes',
  },
  wakesPerHour: {
    schema: new Schema(() =>
      v.pipe(v.union([v.string(), v.number()]), v.transform(Number), v.integer(), v.minValue(0), v.maxValue(100_000)),
    ),
    env: 'PARLEY_WAKES_PER_HOUR',
    fallback: 60,
    project: false,
    help: 'how often an hour mail may wake one idle session; the rest comes as one digest',
  },
  captureRemote: {
    schema: new Schema(() => v.picklist(['on', 'off'])),
    env: 'PARLEY_CAPTURE_REMOTE',
    fallback: 'off',
    project: false,
    help: 'on: what a model answers in its window goes to a sender behind a relay, too',
  },
} as const;
export type SettingName = keyof typeof SETTINGS;

export interface Settings {
  agent: AgentName | undefined;
  match: string | undefined;
  relay: string | undefined;
  bodyLimit: number;
  durability: 'normal' | 'full';
  keepBodies: number | null;
  keepFacts: number | null;
  composeMs: number;
  wakesPerHour: number;
  captureRemote: 'on' | 'off';
}

/** Where a value came from, for `parley config`. */
export interface Origin {
  name: SettingName;
  value: unknown;
  from: string;
}

export interface Loaded {
  settings: Settings;
  origins: Origin[];
  /** Unknown keys, each with the nearest known one; and why a project's file does not count. */
  warnings: string[];
  /** Why the project's file does not count here, in one line; null if it counts, or if a flag or the environment says who acts. */
  ignored: string | null;
}

type Flags = Partial<Record<SettingName, unknown>>;
type Values = Record<string, unknown>;

/** Flag, then environment, then the name of the session, then project, then the mailbox of the client that asks, then home, then default. */
export function loadSettings(
  env: Env,
  cwd: string,
  flags: Flags,
  { withProject = true, client }: { withProject?: boolean; client?: string | undefined } = {},
): Loaded {
  const home = `${parleyHome(env)}/config.json`;
  const warnings: string[] = [];
  const homeValues = read(home, warnings);
  const { project, skipped } = withProject ? projectFor(env, cwd, warnings) : { project: null, skipped: null };
  const bound = client === undefined ? undefined : boundMailbox(parleyHome(env), client);
  const isSaid = flags.agent !== undefined || !!env[SETTINGS.agent.env];
  const named = client === undefined && !isSaid ? nameOfSession(env) : null;
  const decide = (name: SettingName): Origin => {
    const variable = SETTINGS[name].env;
    if (flags[name] !== undefined) return usable(name, flags[name], 'flag');
    if (env[variable]) return usable(name, env[variable], variable);
    if (name === 'agent' && named) return { name, value: named.name, from: named.from };
    if (project?.values[name] !== undefined) return { name, value: project.values[name], from: project.path };
    if (name === 'agent' && bound !== undefined) return { name, value: bound, from: `client ${client}` };
    if (homeValues[name] !== undefined) return usable(name, homeValues[name], home);
    return { name, value: SETTINGS[name].fallback, from: 'default' };
  };
  const origins: Origin[] = [];
  const settings: Partial<Record<SettingName, unknown>> = {};
  for (const name of Object.keys(SETTINGS) as SettingName[]) {
    const origin = decide(name);
    origins.push(origin);
    settings[name] = origin.value;
  }
  // The agent is what matters most: a command that names it needs no word about the rest, which few commands use.
  const [first] = skipped?.names ?? [];
  const isDecided = first === undefined || flags[first] !== undefined || !!env[SETTINGS[first].env];
  const ignored = isDecided ? null : (skipped?.ignored ?? null);
  return { settings: settings as Settings, origins, warnings, ignored };
}

/** The name of the session whose client started us. Loaded only where sessions have names: every command reads settings. */
function nameOfSession(env: Env): { name: AgentName; from: string } | null {
  if (!existsSync(`${parleyHome(env)}/names`)) return null;
  const { SessionNames } = require('../delivery/session-names.ts') as typeof Names;
  return new SessionNames(parleyHome(env)).above(env);
}

function boundMailbox(home: string, client: string): AgentName | undefined {
  const bindings = clientBindings(home);
  return Object.hasOwn(bindings, client) ? bindings[client] : undefined;
}

function usable(name: SettingName, raw: unknown, from: string): Origin {
  const parsed = SETTINGS[name].schema.safeParse(raw);
  if (parsed.success) return { name, value: parsed.data, from };
  const isAddress = name === 'agent' && typeof raw === 'string' && raw.includes('%');
  const hint = isAddress ? '; leave out what begins with %: all homes are looked through' : '';
  throw new Refusal('bad_config', `${name} from ${from} is not usable: ${parsed.why}${hint}`);
}

/** Every `.parley.json` from here upwards, the nearest first. */
export function* projectFiles(cwd: string): Generator<string> {
  for (let folder = cwd; ; folder = folder.slice(0, folder.lastIndexOf('/'))) {
    const path = `${folder === '/' ? '' : folder}/.parley.json`;
    if (isMine(path)) yield path;
    if (folder === '' || folder === '/') return;
  }
}

/** The nearest file that counts, and the nearest before it that does not. */
function projectFor(env: Env, cwd: string, warnings: string[]): { project: Project | null; skipped: Project | null } {
  let skipped: Project | null = null;
  for (const path of projectFiles(cwd)) {
    const found = readProject(env, path, warnings);
    if (!found.ignored) return { project: found, skipped };
    skipped ??= found;
  }
  return { project: null, skipped };
}

/** A file of another account, or one that every account can write, is not believed: in /tmp anybody can leave one. */
function isMine(path: string): boolean {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (stat?.isFile() !== true || (stat.mode & 0o002) !== 0) return false;
  return stat.uid === process.getuid?.() || stat.uid === 0;
}

interface Project {
  path: string;
  /** What it may set and does set, checked. */
  values: Partial<Record<SettingName, unknown>>;
  /** Which settings it would change if it counted; a file that cannot be read may mean any of them. */
  names: SettingName[];
  ignored: string | null;
}

const OF_A_PROJECT = (Object.keys(SETTINGS) as SettingName[]).filter((name) => SETTINGS[name].project);

/** What a project's file says, and which of it a project may set. */
export function readProjectFile(path: string): { text: string; table: Values; sets: Values } {
  const text = textOf(path) ?? '{}';
  const table = tableIn(path, text);
  const sets = Object.fromEntries(OF_A_PROJECT.flatMap((name) => (name in table ? [[name, table[name]]] : [])));
  return { text, table, sets };
}

/** A file that comes with a repository counts once the user trusts this very text. A broken one is a warning. spec: hook#session */
function readProject(env: Env, path: string, warnings: string[]): Project {
  const shown = visibleLine(path, 400);
  const without = 'without it: --as, --match, PARLEY_AGENT, PARLEY_MATCH';
  try {
    const { text, table, sets } = readProjectFile(path);
    const trust = trustOf(env, path, text);
    const names = Object.keys(sets) as SettingName[];
    if (trust !== 'trusted') {
      const why = trust === 'changed' ? 'has changed since you trusted it' : 'came with this folder and is not trusted';
      const ignored = `${shown} ${why}, so it is ignored: read it, then \`parley trust\`; ${without}`;
      warnings.push(ignored);
      return { path, values: {}, names, ignored };
    }
    warnUnknown(path, table, warnings);
    for (const name of Object.keys(SETTINGS) as SettingName[]) {
      if (SETTINGS[name].project || table[name] === undefined) continue;
      warnings.push(`${shown}: "${name}" cannot be set by a project; set it in the home's config.json`);
    }
    const values = Object.fromEntries(names.map((name) => [name, usable(name, table[name], path).value]));
    return { path, values, names, ignored: null };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    const ignored = `${visibleLine(error.message, 800)}; this file is ignored (${without})`;
    warnings.push(ignored);
    return { path, values: {}, names: OF_A_PROJECT, ignored };
  }
}

/** The home's own settings. */
function read(path: string, warnings: string[]): Values {
  try {
    const text = textOf(path);
    if (text === undefined) return {};
    const table = tableIn(path, text);
    warnUnknown(path, table, warnings);
    return table;
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    throw new Refusal('bad_config', `${error.message}; correct it first`);
  }
}

/** Undefined if there is no such file. */
function textOf(path: string): string | undefined {
  try {
    const size = statSync(path, { throwIfNoEntry: false })?.size;
    if (size === undefined) return undefined;
    if (size <= FILE_LIMIT) return readFileSync(path, 'utf8');
  } catch (error) {
    throw new Refusal('bad_config', `${path} is not readable (${error instanceof Error ? error.message : 'unknown'})`);
  }
  throw new Refusal('bad_config', `${path} has over ${FILE_LIMIT} bytes`);
}

function tableIn(path: string, text: string): Values {
  let values: unknown;
  try {
    values = parseSettings(text);
  } catch (error) {
    const why = error instanceof Error ? error.message : 'unknown';
    throw new Refusal('bad_config', `${path} is not readable as JSON (${why})`);
  }
  if (typeof values === 'object' && values !== null && !Array.isArray(values)) return { ...values };
  throw new Refusal('bad_config', `${path} must hold one JSON object`);
}

/** Most files are plain JSON. The reader of comments is loaded only where they are used: every command reads settings. */
function parseSettings(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    const { parseJsonc } = require('../clients/settings/jsonc.ts') as typeof Jsonc;
    return parseJsonc(text);
  }
}

function warnUnknown(path: string, table: Values, warnings: string[]): void {
  const known = Object.keys(SETTINGS);
  for (const key of Object.keys(table).filter((one) => !known.includes(one))) {
    const [near] = nearest(key, known);
    warnings.push(`${path}: unknown key "${visibleLine(key, 80)}"${near ? `; did you mean "${near}"?` : ''}`);
  }
}
