import { readFileSync, statSync } from 'node:fs';
import { rename, writeFile } from 'node:fs/promises';
import { hasRunSince } from '../platform/process.ts';

/**
 * What a client does. `dialog`: it asks its user something, and Enter would answer. `starting`: it may lose what is typed. What the
 * client did not say lately is `unknown`.
 */
export const ACTIVITIES = ['idle', 'busy', 'dialog', 'starting', 'unknown'] as const;
export type Activity = (typeof ACTIVITIES)[number];

/** The state of one session in the client's own word: its registry, its transcript, a hook that it ran, an event that it sent. Never a screen. */
export interface ClientState {
  state: Activity;
  /** When the client said so, in ms. */
  at: number;
  source: 'registry' | 'transcript' | 'hook' | 'event';
  /** In the client's own words, for people who ask why. */
  detail?: string;
  /** The client's process, where it is named: then it must be one that runs in the terminal. */
  pid?: number;
}

/** Reads the state of one session. */
export interface StateReader {
  /** The last state; null if there is none, or if the client does not run any more. */
  latest(): Promise<ClientState | null>;
  /**
   * Where a client also writes down what its user says: called before something is said, it gives the look after that very text. A state
   * alone can be missed: a client that is very slow may take a text, work, and be idle again without ever having said `busy`.
   */
  listen?(): Promise<(text: string) => Promise<ClientState | null>>;
}

/** A clock that runs ahead of the file system's by more than this is not believed. */
const AHEAD_MS = 2000;

/**
 * The state that a client's hooks leave in a small file: `<state> <epoch seconds> [<pid of the client>]`. spec: c2c#signs
 *
 * Each hook replaces the file, so the last state holds until the client's next event. A client that ends says `SessionEnd`, and its file
 * goes. One that was killed says nothing: then the file names a process that is gone (if it names one), and the screen shows no composer.
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

/** A few bytes, read at once: on a busy machine, waiting for them costs more than reading them. */
function readBoth(path: string): { text: string; writtenAt: number } | null {
  try {
    return { text: readFileSync(path, 'utf8'), writtenAt: statSync(path).mtimeMs };
  } catch {
    return null;
  }
}

/** Writes such a file whole or not at all. */
export async function writeClientState(path: string, state: Activity, at: number, pid?: number): Promise<void> {
  const temporary = `${path}.${process.pid}`;
  await writeFile(temporary, `${state} ${Math.floor(at / 1000)}${pid ? ` ${pid}` : ''}\n`, { mode: 0o600 });
  await rename(temporary, path);
}

/** Where the hooks of one session leave its state. */
export function clientStatePath(folder: string, session: string): string {
  return `${folder}/${session.replace(/[^A-Za-z0-9._-]/g, '_').replace(/^\.+/, '_')}`;
}

/**
 * A hook in plain `sh` that leaves such a file: `<script> <event>`, with the client's JSON on standard input. It starts no program but
 * `date`, `mv` and `rm`, says nothing, and never fails: a client must not notice it. The session is the one in the JSON.
 *
 * `sessions` is where the inbox of each session is noted (cli/dialects/c2c/hook-session.ts). A session that starts may be resumed under
 * another name than before, so what is noted of it is a guess from then on, and the next mail hook looks again.
 */
export function clientStateScript(
  folder: string,
  events: Readonly<Record<string, Activity | 'gone'>>,
  sessions: string,
): string {
  const cases = Object.entries(events).map(([event, state]) => `  ${event}) state=${state} ;;`);
  return [
    '#!/bin/sh',
    '# Leaves a word on how this session is, so that nothing is typed into it at a bad moment.',
    'case "$1" in',
    ...cases,
    '  *) exit 0 ;;',
    'esac',
    'input=',
    'while IFS= read -r line || [ -n "$line" ]; do input="$input$line"; done',
    // The first one is the client's own: a message cannot come before it in the keys that clients write first.
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
