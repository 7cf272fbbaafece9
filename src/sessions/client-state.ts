import { readFileSync, statSync } from 'node:fs';
import { rename, writeFile } from 'node:fs/promises';
import { hasRunSince } from '../platform/process.ts';

/**
 * What a client does. `dialog`: it asks its user something, and Enter would answer. `starting`: it may lose typed text. `unknown`: the
 * client has not reported its state lately.
 */
export const ACTIVITIES = ['idle', 'busy', 'dialog', 'starting', 'unknown'] as const;
export type Activity = (typeof ACTIVITIES)[number];

/** The state of one session as the client itself reports it: by its registry, its transcript, a hook or an event. Never read from a screen. */
export interface ClientState {
  state: Activity;
  /** When the client reported it, Unix ms. */
  at: number;
  source: 'registry' | 'transcript' | 'hook' | 'event';
  /** In the client's own words, for people who ask why. */
  detail?: string;
  /** The client's process, if the source names it. Then it must run in the terminal. */
  pid?: number;
}

/** Reads the state of one session. */
export interface StateReader {
  /** The last state; null if there is none, or if the client has ended. */
  latest(): Promise<ClientState | null>;
  /**
   * For clients that record their user's prompts. Call it before typing; the function that it returns gives the state once that text is
   * recorded, and null before. A state alone can be missed: a slow client may take a text, work and be idle again without reporting `busy`.
   */
  listen?(): Promise<(text: string) => Promise<ClientState | null>>;
}

/** A time in a state file may be ahead of the file's own time by at most this. */
const AHEAD_MS = 2000;

/**
 * The state that a client's hooks write to a small file: `<state> <epoch seconds> [<pid of the client>]`. spec: c2c#signs
 *
 * Each hook replaces the file, so a state holds until the client's next event. A client that exits runs `SessionEnd`, which deletes the file.
 * A client that was killed leaves its file: then the pid in it (if there is one) does not run, and the screen shows no composer.
 */
export class HookStateFile implements StateReader {
  constructor(readonly path: string) {}

  async latest(): Promise<ClientState | null> {
    const read = readBoth(this.path);
    if (!read) return null;
    const [word = '', seconds = '', pid = ''] = read.text.trim().split(/\s+/);
    const state = ACTIVITIES.find((one) => one === word);
    if (!state || !/^\d{1,12}$/.test(seconds)) return null;
    const at = Math.min(read.writtenAt, Number(seconds) * 1000 + 999 + AHEAD_MS);
    const found: ClientState = { state, at, source: 'hook', detail: state };
    if (!/^\d{1,10}$/.test(pid)) return found;
    return hasRunSince(Number(pid), at) ? { ...found, pid: Number(pid) } : null;
  }
}

/** Reads synchronously: for a few bytes, waiting costs more on a busy machine than reading. */
function readBoth(path: string): { text: string; writtenAt: number } | null {
  try {
    return { text: readFileSync(path, 'utf8'), writtenAt: statSync(path).mtimeMs };
  } catch {
    return null;
  }
}

/** Writes a state file whole or not at all. */
export async function writeClientState(path: string, state: Activity, at: number, pid?: number): Promise<void> {
  const temporary = `${path}.${process.pid}`;
  await writeFile(temporary, `${state} ${Math.floor(at / 1000)}${pid ? ` ${pid}` : ''}\n`, { mode: 0o600 });
  await rename(temporary, path);
}

/** The path of a session's state file. */
export function clientStatePath(folder: string, session: string): string {
  return `${folder}/${session.replace(/[^A-Za-z0-9._-]/g, '_').replace(/^\.+/, '_')}`;
}

/**
 * The text of a hook in plain `sh` that writes a state file: `<script> <event>`, with the client's JSON on standard input, which names the
 * session. It starts only `mkdir`, `date`, `mv` and `rm`, prints nothing and never fails, so the client does not notice it.
 *
 * `sessions` is the folder that records the inbox of each session (protocols/c2c/hook-session.ts). A session may be resumed under another
 * alias, so SessionStart marks its recorded inbox as a guess, and the next mail hook checks it.
 */
export function clientStateScript(
  folder: string,
  events: Readonly<Record<string, Activity | 'gone'>>,
  sessions: string,
): string {
  const cases = Object.entries(events).map(([event, state]) => `  ${event}) state=${state} ;;`);
  return [
    '#!/bin/sh',
    '# Records the state of this session, so that nothing is typed into it while it works or asks something.',
    'case "$1" in',
    ...cases,
    '  *) exit 0 ;;',
    'esac',
    'input=',
    'while IFS= read -r line || [ -n "$line" ]; do input="$input$line"; done',
    // Take the first `session_id`: clients write it before any text of a message.
    'rest="${input#*\\"session_id\\"}"',
    '[ "$rest" = "$input" ] && exit 0',
    'rest="${rest#*\\"}"',
    'session="${rest%%\\"*}"',
    'case "$session" in',
    "  '' | .* | *[!A-Za-z0-9._-]*) exit 0 ;;",
    'esac',
    `noted=${quoted(sessions)}/"$session"`,
    'if [ "$1" = SessionStart ] && [ -d "$noted" ]; then { : > "$noted/guess"; rm -f "$noted/look"; } 2>/dev/null; fi',
    `file=${quoted(folder)}/"$session"`,
    'if [ "$state" = gone ]; then rm -f "$file"; exit 0; fi',
    'umask 077',
    `mkdir -p ${quoted(folder)} 2>/dev/null`,
    '{ printf "%s %s\\n" "$state" "$(date +%s)" > "$file.$$" && mv -f "$file.$$" "$file"; } 2>/dev/null',
    'exit 0',
    '',
  ].join('\n');
}

function quoted(word: string): string {
  return `'${word.replaceAll("'", `'\\''`)}'`;
}
