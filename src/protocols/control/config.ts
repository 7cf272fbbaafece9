import * as v from 'valibot';
import { chmodSync, existsSync, mkdirSync, readFileSync, realpathSync } from 'node:fs';
import { codeOf, explained, isMissing } from '../../core/disk.ts';
import type { Env } from '../../core/env.ts';
import type { SessionTarget } from '../../core/ports/session.ts';
import { Refusal } from '../../core/refusal.ts';
import { Schema } from '../../core/schema.ts';
import { jsonFault } from '../../clients/settings/jsonc.ts';
import type { Described } from '../../core/schema.ts';
import { userHome } from '../../platform/env.ts';
import { replaceFile, stampOf } from '../../platform/files.ts';
import { locked } from '../../platform/lock-file.ts';

const START_TIMEOUT_SECONDS = 60;
const NAME_LIMIT = 128;
/** Editors may move the file away and write a new one. A file that is missing for longer than this was removed. */
const AWAY_MS = 5000;

const SessionEntry = new Schema(() =>
  v.looseObject({
    path: v.string(),
    topic_id: v.nullish(v.number(), 0),
    host: v.nullish(v.string(), ''),
    deleted: v.nullish(v.boolean(), false),
    /** Ours: the session's client and its options, which replace the top-level `flags`. */
    client: v.nullish(v.string(), 'claude'),
    flags: v.nullish(v.array(v.string())),
  }),
);
export type SessionEntry = Described<typeof SessionEntry>;

const HostEntry = new Schema(() =>
  v.looseObject({
    address: v.string(),
    projects_dir: v.nullish(v.string(), ''),
    /** Ours: the command that runs Parley in that host's shell. */
    command: v.nullish(v.string(), ''),
  }),
);
export type HostEntry = Described<typeof HostEntry>;

/** The keys of the file that we read. Unknown keys stay in it. spec: control#file */
const ControlSettings = new Schema(() =>
  v.looseObject({
    bot_token: v.nullish(v.string(), ''),
    chat_id: v.nullish(v.number(), 0),
    group_id: v.nullish(v.number(), 0),
    sessions: v.nullish(
      v.pipe(
        v.custom((given) => !Array.isArray(given), 'use an object'),
        v.record(v.string(), SessionEntry.inner),
      ),
      {},
    ),
    projects_dir: v.nullish(v.string(), ''),
    transcription_cmd: v.nullish(v.string(), ''),
    away: v.nullish(v.boolean(), false),
    hosts: v.nullish(v.record(v.string(), HostEntry.inner), {}),
    record_terminal: v.nullish(v.boolean(), true),
    allow_commands: v.nullish(v.boolean(), false),
    start_timeout_seconds: v.nullish(v.pipe(v.number(), v.minValue(1), v.maxValue(3600)), START_TIMEOUT_SECONDS),
    allow_shell: v.nullish(v.boolean(), false),
    control_may_approve: v.nullish(v.boolean(), false),
    api_root: v.nullish(v.string(), ''),
    label: v.nullish(v.boolean(), false),
    command: v.nullish(v.record(v.string(), v.string()), {}),
    flags: v.nullish(v.record(v.string(), v.array(v.string())), {}),
  }),
);
export type ControlSettings = Described<typeof ControlSettings>;

/** The paths of control, all in the user's home folder, as other programs expect. */
export interface ControlPlaces {
  file: string;
  socket: string;
  /** Our locks and the history. */
  folder: string;
}

export function controlPlaces(env: Env): ControlPlaces {
  const home = userHome(env);
  return { file: `${home}/.ccc.json`, socket: `${home}/.ccc.sock`, folder: `${home}/.ccc` };
}

/** Where the server's lock and notice are, for `parley status`. */
export function serverLock({ folder }: ControlPlaces): string {
  return `${folder}/server`;
}

/** `~/.ccc.json`. People and other programs change it while we run, so it is read again for every request. */
export class ControlFile {
  #known: { stamp: string; settings: ControlSettings } | undefined;
  /** Since when the file has been missing. */
  #awaySince: number | undefined;

  constructor(
    readonly path: string,
    readonly folder: string,
    /** A monotonic clock, ms. */
    readonly now: () => number = () => performance.now(),
  ) {}

  static of(env: Env): ControlFile {
    const { file, folder } = controlPlaces(env);
    return new ControlFile(file, folder);
  }

  /** Throws a Refusal if the file is not valid. While it is missing for a moment, returns the last settings. */
  read(): ControlSettings {
    const stamp = stampOf(this.path, true);
    if (this.#known?.stamp === stamp) {
      this.#awaySince = undefined;
      return this.#known.settings;
    }
    const raw = this.#raw();
    if (raw === null && this.#known && this.#known.stamp !== '') {
      this.#awaySince ??= this.now();
      if (this.now() - this.#awaySince < AWAY_MS) return this.#known.settings;
    }
    this.#awaySince = undefined;
    const settings = this.#parsed(raw ?? {});
    this.#known = { stamp: raw === null ? '' : stamp, settings };
    return settings;
  }

  /** Like `read`, but returns the last settings while the file is not valid, for work that must continue meanwhile. */
  readOrLast(): ControlSettings {
    try {
      return this.read();
    } catch (error) {
      if (!this.#known || !(error instanceof Refusal)) throw error;
      return this.#known.settings;
    }
  }

  /** The sessions that are not deleted, sorted by name. */
  sessions(): [name: string, entry: SessionEntry][] {
    return Object.entries(this.read().sessions)
      .filter(([, entry]) => !entry.deleted)
      .sort(([a], [b]) => (a < b ? -1 : 1));
  }

  /** The session with this name; null if there is none or it was deleted. */
  session(name: string): SessionEntry | null {
    const { sessions } = this.read();
    const entry = Object.hasOwn(sessions, name) ? sessions[name] : undefined;
    return entry && !entry.deleted ? entry : null;
  }

  /** Adds a session. If a deleted one has that name, it returns with its history. */
  add(name: string, entry: { path: string; client?: string; flags?: readonly string[] }): void {
    const { host } = splitName(name);
    this.#change((sessions, settings) => {
      if (host !== 'local' && !Object.hasOwn(settings.hosts, host))
        throw new Refusal('not_found', `host not configured: ${host}; add it to "hosts" in ${this.path} first`);
      const before = Object.hasOwn(sessions, name) ? sessions[name] : undefined;
      if (before && before['deleted'] !== true)
        throw new Refusal('name_taken', `session ${name} exists already (${String(before['path'])})`);
      const { deleted: _, ...kept } = before ?? {};
      return { ...sessions, [name]: { ...kept, ...entry, ...(host !== 'local' && { host }) } };
    });
  }

  /** Marks it as deleted; its history stays. */
  remove(name: string): void {
    this.#change((sessions) => {
      const entry = Object.hasOwn(sessions, name) ? sessions[name] : undefined;
      if (!entry || entry['deleted'] === true) throw new Refusal('not_found', 'session not found');
      return { ...sessions, [name]: { ...entry, deleted: true } };
    });
  }

  /** Stores the answers of `ccc setup`. True if that changed the file. Every other key stays. */
  set({ botToken, claudeFlags }: { botToken?: string; claudeFlags?: readonly string[] }): boolean {
    return this.#write((raw, { flags }) => ({
      ...raw,
      sessions: raw['sessions'] ?? {},
      ...(botToken !== undefined && { bot_token: botToken }),
      ...(claudeFlags && { flags: { ...flags, claude: claudeFlags } }),
    }));
  }

  /** The chat topic of a session. */
  setTopic(name: string, topic: number): void {
    this.#change((sessions) => {
      const entry = Object.hasOwn(sessions, name) ? sessions[name] : undefined;
      return entry ? { ...sessions, [name]: { ...entry, topic_id: topic } } : sessions;
    });
  }

  setAway(away: boolean): void {
    this.#write((raw) => ({ ...raw, away }));
  }

  #change(
    act: (sessions: Record<string, Record<string, unknown>>, settings: ControlSettings) => Record<string, unknown>,
  ): void {
    this.#write((raw, settings) => ({
      ...raw,
      sessions: act((raw['sessions'] ?? {}) as Record<string, Record<string, unknown>>, settings),
    }));
  }

  /** Writes the file only if its content changes. */
  #write(act: (raw: Record<string, unknown>, settings: ControlSettings) => Record<string, unknown>): boolean {
    try {
      mkdirSync(this.folder, { recursive: true, mode: 0o700 });
      return locked(`${this.folder}/config.lock`, () => {
        const raw = this.#raw() ?? {};
        const next = act(raw, this.#parsed(raw));
        const isChanged = JSON.stringify(next) !== JSON.stringify(raw);
        // Keep a link: people keep such files in another folder.
        const place = existsSync(this.path) ? realpathSync(this.path) : this.path;
        if (isChanged) replaceFile(place, `${JSON.stringify(next, null, 2)}\n`, { flush: true });
        chmodSync(place, 0o600);
        return isChanged;
      });
    } catch (error) {
      if (error instanceof Refusal) throw error;
      throw explained(error, this.path, 'nothing was changed');
    }
  }

  /** Null if there is no file. */
  #raw(): Record<string, unknown> | null {
    let text: string;
    try {
      text = readFileSync(this.path, 'utf8');
    } catch (error) {
      if (isMissing(error)) return null;
      throw new Refusal('bad_config', `${this.path} cannot be read (${codeOf(error) ?? 'unknown error'})`);
    }
    try {
      const value = JSON.parse(text) as unknown;
      if (typeof value === 'object' && value !== null && !Array.isArray(value)) return { ...value };
    } catch {
      // Reported below.
    }
    const fault = jsonFault(text);
    const where = fault === null ? '' : `: ${fault}`;
    throw new Refusal('bad_config', `${this.path} is not a JSON object${where}; correct it (nothing was changed)`);
  }

  #parsed(raw: Record<string, unknown>): ControlSettings {
    const parsed = ControlSettings.safeParse(raw);
    if (parsed.success) return parsed.data;
    throw new Refusal('bad_config', `${this.path} is wrong at "${parsed.path}": ${parsed.why} (nothing was changed)`);
  }
}

/** `msi:backend` is on host msi; a plain name is local. */
export function splitName(name: string): { host: string; base: string } {
  const at = name.indexOf(':');
  return at < 0 ? { host: 'local', base: name } : { host: name.slice(0, at), base: name.slice(at + 1) };
}

/** Where a session runs: `local`, or the name of a host. */
export function hostOf(name: string, entry: Pick<SessionEntry, 'host'>): string {
  return entry.host || splitName(name).host;
}

/** The name for a new session. Throws a Refusal that says what is wrong with it. spec: control#names */
export function newSessionName(text: string): string {
  const shown = text.replace(/\p{Cc}/gu, '?').slice(0, 60);
  const no = (why: string): Refusal => new Refusal('invalid_request', `"${shown}" cannot name a session: ${why}`);
  const { host, base } = splitName(text);
  if (text === '' || host === '' || base === '') throw no('use letters, or host:name');
  if (base.includes(':')) throw no('one colon only, behind the host');
  if (text.length > NAME_LIMIT) throw no(`use at most ${NAME_LIMIT} characters`);
  if (/[\p{Cc}\p{Cf}\p{Zl}\p{Zp},]|^\s|\s$/u.test(text) || !text.isWellFormed())
    throw no('commas, invisible characters and spaces at its ends are not allowed');
  if (/^[-.]/.test(base)) throw no('begin it with a letter or a digit');
  return text;
}

/** The name as a part of a file name, unique per name: a changed name, or one that looks as if it ends with a hash, gets a hash. */
export function fileNameOf(name: string): string {
  const safe = name.replace(/[^A-Za-z0-9_-]/gu, '_').slice(0, 200);
  if (safe === name && !/-[0-9a-f]{6}$/.test(name)) return safe;
  return `${safe}-${new Bun.CryptoHasher('sha256').update(name).digest('hex').slice(0, 6)}`;
}

/** A session as its driver needs it. */
export function targetOf(
  name: string,
  entry: SessionEntry,
  settings: ControlSettings,
  home: string,
): Omit<SessionTarget, 'conversation'> {
  const host = hostOf(name, entry);
  return {
    name,
    host,
    client: entry.client,
    folder: host === 'local' ? entry.path.replace(/^~(?=\/|$)/, home) : entry.path,
    command: [settings.command[entry.client] ?? entry.client, ...flagsOf(entry, settings)],
    startTimeoutMs: settings.start_timeout_seconds * 1000,
  };
}

/** The options that the user chose for the client of this session. */
export function flagsOf(entry: SessionEntry, settings: ControlSettings): readonly string[] {
  return entry.flags ?? settings.flags[entry.client] ?? [];
}
