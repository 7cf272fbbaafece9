import { readFileSync, statSync } from '../storage/fs.ts';
import type * as Visible from '../delivery/visible.ts';
import type * as Nearest from '../flow/nearest.ts';
import { BODY_LIMIT } from '../protocol/message.ts';
import { AgentName } from '../protocol/names.ts';
import { Refusal } from '../protocol/refusal.ts';
import { Schema } from '../protocol/schema.ts';
import { v } from '../protocol/shapes.ts';
import { parleyHome } from './env.ts';
import type { Env } from './env.ts';
import { parseJsonc } from './jsonc.ts';
import { DAY, spanMs } from './span.ts';

/** A reader must be able to read whatever a sender may store: see storage/plain-file.ts. */
const BODY_CEILING = 8 * 1024 * 1024;

/** A file of settings is written by hand. */
const FILE_LIMIT = 64 * 1024;

/** `30d`, `12h`, `forever`, or a bare number of days; as milliseconds, null for ever. */
const Span = new Schema(() =>
  v.pipe(
    v.union([v.string(), v.number()]),
    // As text first: a number below 0, with a fraction or too large to be written out is then no span.
    v.transform(String),
    v.regex(/^(\d{1,6}[dhm]?|forever)$/, 'write a number of days, 30d, 12h, 5m or forever'),
    v.transform(spanMs),
  ),
);

/** Every setting: its type, its variable, its default, and whether a project may set it (a project may be a stranger's). */
export const SETTINGS = {
  agent: { schema: AgentName, env: 'PARLEY_AGENT', fallback: undefined, project: true, help: 'who I am' },
  match: {
    schema: new Schema(() => v.string()),
    env: 'PARLEY_MATCH',
    fallback: undefined,
    project: true,
    help: 'my context, for scoped mail',
  },
  relay: {
    schema: new Schema(() => v.string()),
    env: 'PARLEY_RELAY',
    fallback: undefined,
    project: true,
    help: 'which relay, where I am at several: a part of its name',
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
    help: 'how long settled bodies stay',
  },
  keepFacts: {
    schema: Span,
    env: 'PARLEY_KEEP_FACTS',
    fallback: 180 * DAY,
    project: false,
    help: 'how long traces stay',
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
  /** Unknown keys, each with the nearest known one. */
  warnings: string[];
}

/** Flag, then environment, then project, then home, then default. */
export function loadSettings(env: Env, cwd: string, flags: Partial<Record<SettingName, unknown>>): Loaded {
  const home = `${parleyHome(env)}/config.json`;
  const project = projectFile(cwd);
  const warnings: string[] = [];
  const homeValues = read(home, warnings, false);
  const projectValues = project ? read(project, warnings, true) : {};
  const decide = (name: SettingName): Origin => {
    const variable = SETTINGS[name].env;
    if (flags[name] !== undefined) return usable(name, flags[name], 'flag');
    if (env[variable]) return usable(name, env[variable], variable);
    if (project && projectValues[name] !== undefined) return usable(name, projectValues[name], project);
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
  return { settings: settings as Settings, origins, warnings };
}

function usable(name: SettingName, raw: unknown, from: string): Origin {
  const parsed = SETTINGS[name].schema.safeParse(raw);
  if (parsed.success) return { name, value: parsed.data, from };
  const isAddress = name === 'agent' && typeof raw === 'string' && raw.includes('%');
  const hint = isAddress ? '; leave out what begins with %: all homes are looked through' : '';
  throw new Refusal('bad_config', `${name} from ${from} is not usable: ${parsed.why}${hint}`);
}

/** The nearest `.parley.json` from here upwards. */
function projectFile(cwd: string): string | undefined {
  for (let folder = cwd; ; folder = folder.slice(0, folder.lastIndexOf('/'))) {
    const path = `${folder === '/' ? '' : folder}/.parley.json`;
    if (isMine(path)) return path;
    if (folder === '' || folder === '/') return undefined;
  }
}

/** A file of another account is not believed: in /tmp anybody can leave one. */
function isMine(path: string): boolean {
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat?.isFile() === true && (stat.uid === process.getuid?.() || stat.uid === 0);
}

function read(path: string, warnings: string[], isProject: boolean): Record<string, unknown> {
  let values: unknown;
  try {
    const size = statSync(path, { throwIfNoEntry: false })?.size;
    if (size === undefined) return {};
    if (size > FILE_LIMIT) throw new Error(`it has over ${FILE_LIMIT} bytes`);
    values = parseJsonc(readFileSync(path, 'utf8'));
  } catch (error) {
    const why = error instanceof Error ? error.message : 'unknown';
    throw new Refusal(
      'bad_config',
      `${path} is not readable${error instanceof SyntaxError ? ' as JSON' : ''} (${why}); mend it first`,
    );
  }
  if (typeof values !== 'object' || values === null || Array.isArray(values)) {
    throw new Refusal('bad_config', `${path} must hold one JSON object`);
  }
  const table: Record<string, unknown> = { ...values };
  const known = Object.keys(SETTINGS) as SettingName[];
  for (const key of Object.keys(table)) {
    const name = known.find((one) => one === key);
    if (!name) {
      const { nearest } = require('../flow/nearest.ts') as typeof Nearest;
      const { visibleLine } = require('../delivery/visible.ts') as typeof Visible;
      const [near] = nearest(key, known);
      warnings.push(`${path}: unknown key "${visibleLine(key, 80)}"${near ? `; did you mean "${near}"?` : ''}`);
    } else if (isProject && !SETTINGS[name].project) {
      warnings.push(`${path}: "${key}" cannot be set by a project; set it in the home's config.json`);
      delete table[key];
    }
  }
  return table;
}
