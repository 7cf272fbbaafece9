/**
 * The fast half of a hook. A client runs it after every tool call, and nearly always no mail waits. It uses only built-ins of the shell, so
 * it takes about a millisecond. `command hook …` is the slow half, which reads the mailbox. There are two profiles: Parley's (POSIX sh) and
 * c2c's (bash). The files of a session are explained in hook-session.ts and in protocols/c2c/hook-session.ts.
 *
 * - The script always reads the event to its end, because a client whose write fails reports a broken hook. A shell reads a pipe byte by
 *   byte; bash can read it in one piece.
 * - The session is the first one that the event names; every client names it before any text of a model or a tool.
 * - The slow half binds a session that is not bound.
 * - Subagents get no mail, and have marks of their own.
 * - If the program is missing, the script prints nothing and ends with 0: a client whose hook fails refuses or reports every prompt.
 *   `parley doctor` says that the program is missing.
 *
 * A needless start of the slow half is allowed; a missing one never is. spec: hook#fast
 */
interface Profile {
  head: string;
  /** `old`: the patterns of $BASH_VERSION for shells that cannot read all at once, with their command. `all`: the commands of the others. */
  read: [old: string, all: string];
  /** Ends the script with 0 if nothing waits. */
  quiet: string;
  /** Starts the slow half. */
  start: string;
}

function script({ head, read: [old, all], quiet, start }: Profile, command: readonly string[]): string {
  return `${head}case $BASH_VERSION in
${old} ;;
*) ${all}LC_ALL=C; IFS= read -r -N 99999999 e ;;
esac
${quiet}${isGone(command)} && exit 0
${cacheOf(command)}${start}`;
}

/** A line of the script that tells its version. It changes when older scripts must be replaced. */
export const SCRIPT_VERSION = '# version 4: looks also into the mailbox that the session shares with others';

/**
 * The script of `parley hook`.
 *
 * - `box` is a link to the mailbox. The slow half binds it again at each start of a session. `group` is a link to a mailbox that the
 *   session shares with others; its marks are `group.seen.*` and so on.
 * - `open/` holds the texts that were printed for this session and are not proven yet. While there is one, the slow half must get the next
 *   event, also one with an "agent_id": a tool's input may have that too, so only the slow half can tell a subagent.
 * - `seen.lo` and `seen.hi` have times just before and after the time that new/ had when it was last searched without result. If new/ has
 *   any other time, it has changed. So this also works after a clock was set back.
 * - `turn.lo` and `turn.hi` are the same for quiet/, for events at which a turn of the session's own begins.
 * - Copies in held/ may belong to a reader that died. The time of the file `look` lies in the future; when it has come, the slow half checks
 *   them.
 * - `.early` and `.late` are a millisecond apart. If the shell or the file system takes them for equal, its times are coarse, and the script
 *   says so to the slow half.
 */
export function hookScript(home: string, command: readonly string[]): string {
  const profile: Profile = {
    head: `# Parley's hook: sh <this file> <client>, with the client's event on stdin.
# Written by \`parley init\` and \`parley hook --write\`; changes are overwritten.
${SCRIPT_VERSION}
`,
    read: [`'' | 3.* | 4.0*) IFS= read -r e`, 'set +o posix; '],
    quiet: `h=${shellQuoted(home)}
any() { [ -e "$1" ] || [ -L "$1" ]; }
fresh() {
  [ -e "$2.hi" ] && ! [ "$1" -nt "$2.hi" ] && ! [ "$1" -ot "$2.lo" ] && return 1
  any "$1"/*.json || any "$1"/.[!.]*.json
}
waits() {
  fresh "$1/new" "$2$m" && return 0
  case $e in
  *'"UserPromptSubmit"'* | *'"BeforeAgent"'*) fresh "$1/quiet" "$2turn" ;;
  *) return 1 ;;
  esac
}
quiet() {
  case $1 in '' | .* | *[!A-Za-z0-9._-]*) return 1 ;; esac
  d=$h/sessions/$1
  b=$d/box
  [ -d "$b/new" ] || return 1
  any "$d"/open/*.json && return 1
  case $e in
  *'"SessionStart"'* | *'Compact"'* | *'"PreCompress"'*) return 1 ;;
  *'"agent_id"'*) m=sub ;;
  *) m=seen ;;
  esac
  waits "$b" "$d/" && return 1
  g=$d/group
  [ -d "$g/new" ] && waits "$g" "$d/group." && return 1
  any "$b"/held/*.json || any "$g"/held/*.json || return 0
  [ -e "$d/look" ] && umask 077 && true 2>/dev/null >"$d/now" && [ "$d/look" -nt "$d/now" ]
}
p=\${e%%'"session_id"'*}
if [ \${#p} -lt 300 ]; then
  s=\${e#"$p"'"session_id"'}
  s=\${s#*\\"}
  quiet "\${s%%\\"*}" && exit 0
fi
`,
    start: `t=coarse
[ "$h/sessions/.late" -nt "$h/sessions/.early" ] && t=fine
export PARLEY_HOME="$h"
exec ${command.map(shellQuoted).join(' ')} hook "$@" --relay "$t" 3<<EVENT
$e
EVENT
`,
  };
  return script(profile, command);
}

/** The paths that are written into the script of `c2c hook`. */
export interface C2cHookPlace {
  /** The folder that has a folder for each session of a client. */
  folder: string;
  /** The command that starts `c2c`. */
  command: readonly string[];
  /** The path of bash. */
  shell?: string;
}

/**
 * The script of `c2c hook`.
 *
 * - `inbox` and `held` are links to the files of the broker.
 * - `seen` is a hard link to the inbox that was last searched without result. Every change of an inbox replaces the file, so both names are
 *   one file only while nothing has changed, whatever clocks say. `seen.at` detects a program that writes into the file itself. To find an
 *   "agent_id", only the part of the event before the tool's input is searched.
 * - Held mail may belong to a dead reader, and a session that nobody had registered (`guess`) may be registered by now. `look` says until when
 *   neither needs a check.
 *
 * The first lines decide the usual case: an empty inbox, and an event in its usual form. bash parses a script as it runs, so that case pays
 * for nothing below it, and must stay first. The slow half gets 5 seconds; mail that it has not printed by then still waits. spec: c2c#hook
 */
export function c2cHookScript({ folder, command, shell = '/bin/bash' }: C2cHookPlace): string {
  const words = command.map(shellQuoted).join(' ');
  const profile: Profile = {
    head: `#!${shell}
# Puts waiting c2c mail before the model: the client calls it with an event on stdin.
# Written by \`c2c install\`, calls \`c2c hook\`; changes are overwritten.
`,
    read: [`3.* | 4.0*) IFS= read -r -d '' e`, ''],
    quiet: `d=${shellQuoted(folder)}
if [[ $e = '{"session_id":"'[A-Za-z0-9_-]* ]]; then
  s=\${e:15:130}
  s=\${s%%\\"*}
  b=$d/$s
  if [[ $s != *[!A-Za-z0-9._-]* && -L $b/inbox && ! -e $b/guess ]]; then
    t='[]'
    [[ -s $b/inbox ]] && IFS= read -r -n 64 t <"$b/inbox"
    f=("$b"/held/*.held)
    [[ $t = '[]' && \${f[0]} = */\\*.held ]] && exit 0
  fi
fi
quiet() {
  case $s in '' | .* | *[!A-Za-z0-9._-]*) return 1 ;; esac
  b=$d/$s
  [ -L "$b/inbox" ] || return 1
  if [ -s "$b/inbox" ]; then
    IFS= read -r -n 64 t <"$b/inbox"
    [ "$t" = '[]' ] || seen || return 1
  fi
  [ -e "$b/guess" ] || inhand || return 0
  { [ -n "$EPOCHSECONDS" ] && IFS= read -r t <"$b/look"; } 2>/dev/null || return 1
  case $t in '' | *[!0-9]*) return 1 ;; esac
  [ "$t" -gt "$EPOCHSECONDS" ] && [ "$t" -le $((EPOCHSECONDS + 60)) ]
}
seen() {
  t=\${e:0:2000}
  case \${t%%'"tool_input"'*} in
  *'"agent_id"'*) m=$b/sub ;;
  *) m=$b/seen ;;
  esac
  [ "$b/inbox" -ef "$m" ] && ! [ "$b/inbox" -nt "$m.at" ]
}
inhand() {
  for f in "$b"/held/*.held; do [ -e "$f" ] && return 0; done
  return 1
}
s=\${e:0:400}
case $s in
*'"session_id"'*)
  s=\${s#*'"session_id"'}
  s=\${s#*\\"}
  s=\${s%%\\"*}
  quiet && exit 0
  ;;
esac
`,
    start: `export C2C_HOOK_FOLDER="$d"
if type -P timeout >/dev/null; then
  timeout -k 1 4 ${words} hook "$@" <<<"$e"
else
  set -m
  ${words} hook "$@" <<<"$e" &
  p=$!
  { sleep 5; kill -9 -- "-$p"; } >/dev/null 2>&1 &
  w=$!
  wait "$p" 2>/dev/null
  kill -9 -- "-$w" 2>/dev/null
fi
exit 0
`,
  };
  return script(profile, command);
}

/*
 * The command lines in the settings of a client. A client reports a hook whose program is missing, and Claude Code refuses the prompt if the
 * hook ends with 2, as `sh` does then. So each line first tests for the program. If that is missing, the line reads the event, prints nothing
 * and ends with 0. The lines work in `sh`, bash, zsh and fish. They are written once, because Codex asks its user to trust every change.
 */

/** Runs a shell script with these words. `script` is one shell word. */
export function scriptLine(script: string, words: string): string {
  return `test -f ${script} && test -r ${script} || exec cat >/dev/null; exec sh ${script} ${words}`;
}

/** Runs a program with these words. `program` is one shell word. */
export function programLine(program: string, words: string): string {
  return `test -f ${program} && test -x ${program} || exec cat >/dev/null; exec ${program}${words && ` ${words}`}`;
}

/** Hook settings in the format of Claude Code, which other clients also use, for people who paste them. */
export function claudeShape(command: string, timeout: number, events: readonly string[]): string {
  const entry = JSON.stringify([{ hooks: [{ type: 'command', command, timeout }] }]);
  return `{"hooks": {\n${events.map((event) => `  "${event}": ${entry}`).join(',\n')}\n}}`;
}

/** A shell test: the program, or the source that it runs, is missing. */
function isGone([program = '', ...words]: readonly string[]): string {
  const source = words.filter((word) => word.startsWith('/')).map((word) => ` || ! [ -r ${shellQuoted(word)} ]`);
  return `{ ! [ -f ${shellQuoted(program)} ] || ! [ -x ${shellQuoted(program)} ]${source.join('')}; }`;
}

/** Run from source, Bun would keep its compiled files in the user's home. This puts them into the installation, as bin/parley does. */
function cacheOf(command: readonly string[]): string {
  const [source] = command.slice(1).filter((word) => word.endsWith('/src/cli/main.ts'));
  if (source === undefined) return '';
  const folder = source.slice(0, -'/src/cli/main.ts'.length);
  const cache = `if [ -w ${shellQuoted(folder)} ]; then c=${shellQuoted(`${folder}/.cache`)}; else c=0; fi`;
  return `${cache}\nexport BUN_RUNTIME_TRANSPILER_CACHE_PATH="\${BUN_RUNTIME_TRANSPILER_CACHE_PATH-$c}"\n`;
}

/** The text as one word of a shell, whatever it holds. */
export function shellQuoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
