import type { ClientState } from './sign.ts';

/** Where the signs of hooks lie: one file for each session, by its id. */
export function signFileOf(folder: string, session: string): string {
  return `${folder}/${session.replace(/[^A-Za-z0-9._-]/g, '_').replace(/^\.+/, '_')}`;
}

/**
 * A hook in plain `sh` that leaves a sign: `<script> <event>`, with the client's JSON on standard input. It starts no program but
 * `date`, `mv` and `rm`, says nothing, and never fails: a client must not notice it. The session is the one in the JSON.
 *
 * `sessions` is where the inbox of each session is noted (cli/dialects/c2c/hook-session.ts). A session that starts may be resumed under
 * another name than before, so what is noted of it is a guess from then on, and the next mail hook looks again.
 */
export function signScript(
  folder: string,
  events: Readonly<Record<string, ClientState | 'gone'>>,
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
