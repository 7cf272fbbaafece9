/**
 * The fast half of a hook: a client runs it after every tool call, and nearly always there is nothing to say. It uses built-ins of the
 * shell only, so that this costs about a millisecond. `command hook …` is the slow half, which looks properly. There are two profiles:
 * Parley's (POSIX sh) and c2c's (bash). What the files of a session mean is written in hook-session.ts and in the dialect's hook-session.ts.
 *
 * - The event is always read to its end, because a client whose write fails reports a broken hook. A shell reads a pipe byte by byte;
 *   bash can be told not to.
 * - The session is the one that the event names first; every client names it before anything that a model or a tool wrote.
 * - A session that is not bound is bound by the slow half.
 * - Subagents get no mail: they have marks of their own.
 * - Without the program the script prints nothing and ends with 0: a client whose hook fails refuses or reports every prompt.
 *   `parley doctor` says that the program is gone.
 *
 * A test that errs on the side of starting costs a start; no test may err on the other side. spec: hook#fast
 */
interface Profile {
  head: string;
  /** The patterns of $BASH_VERSION that cannot read all at once and what these do, and what the others do. */
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

/** A line of the script that changes when an older script would not do any more. */
export const SCRIPT_VERSION = '# version 4: looks also into the mailbox that the session shares with others';

/**
 * The script of `parley hook`.
 *
 * - `box` is a link to the mailbox. At the start of a session the slow half binds it again. `group` is a link to a mailbox that the
 *   session shares with others; its marks are `group.seen.*` and so on.
 * - `open/` holds what was printed for this session and what no event has proven yet: the slow half must get the next event. A tool's
 *   input may have an "agent_id" too, so only the slow half can tell a subagent.
 * - `seen.lo` and `seen.hi` lie just around the time that new/ had when it was last searched in vain. Any other time means
 *   that something changed, also after a clock was set back.
 * - `turn.lo` and `turn.hi` are the same for quiet/, at an event with which a turn of the session's own begins.
 * - Copies in held/ may belong to a reader that died: `look` is a file from the future, and when that has come they are seen to.
 * - early and late lie a millisecond apart: a shell or a file system that takes them for equal has coarse times, and the slow
 *   half must know.
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

/** What the script of `c2c hook` has to know when it is written. */
export interface C2cHookPlace {
  /** Where each session of a client has its folder. */
  folder: string;
  /** The words that start `c2c`. */
  command: readonly string[];
  /** Where bash is. */
  shell?: string;
}

/**
 * The script of `c2c hook`.
 *
 * - `inbox` and `held` are links to the files of the broker.
 * - `seen` is a second name of the very inbox that was last searched in vain. Every change of an inbox puts another file in its
 *   place, so the two are the same file only as long as nothing changed, whatever clocks say; a program that writes into the
 *   file itself is told by `seen.at`. What a tool took or gave is not asked who called it.
 * - Held mail may be a dead reader's, and a session that nobody registered (`guess`) may be by now: `look` says until when that need not
 *   be seen to.
 *
 * The first few lines know the usual case, an inbox without anything in it, from the usual form of an event. bash reads and parses a
 * script as it goes, so that case pays for nothing below: it must stay first. The slow half gets 5 seconds, and what it has
 * not said by then still waits. spec: c2c#hook
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
 * The lines in the settings of a client. A client reports a hook whose program is missing, and Claude Code refuses the prompt when it ends
 * with 2, as `sh` does. So each line first tests for what it starts. If that is missing, the line reads the event, prints nothing and
 * ends with 0. The lines hold for `sh`, bash, zsh and fish. They are written once: Codex makes its user trust every change.
 */

/** Runs a shell script with these words. `script` is one shell word. */
export function scriptLine(script: string, words: string): string {
  return `test -f ${script} && test -r ${script} || exec cat >/dev/null; exec sh ${script} ${words}`;
}

/** Runs a program with these words. `program` is one shell word. */
export function programLine(program: string, words: string): string {
  return `test -f ${program} && test -x ${program} || exec cat >/dev/null; exec ${program}${words && ` ${words}`}`;
}

/** The shape of hook settings that Claude Code began and others took over, for people who paste it. */
export function claudeShape(command: string, timeout: number, events: readonly string[]): string {
  const entry = JSON.stringify([{ hooks: [{ type: 'command', command, timeout }] }]);
  return `{"hooks": {\n${events.map((event) => `  "${event}": ${entry}`).join(',\n')}\n}}`;
}

/** A shell test: the program, or the source that it runs, is not there any more. */
function isGone([program = '', ...words]: readonly string[]): string {
  const source = words.filter((word) => word.startsWith('/')).map((word) => ` || ! [ -r ${shellQuoted(word)} ]`);
  return `{ ! [ -f ${shellQuoted(program)} ] || ! [ -x ${shellQuoted(program)} ]${source.join('')}; }`;
}

/** From source, Bun would keep its compiled files in the user's home. As in bin/parley, they belong to the installation. */
function cacheOf(command: readonly string[]): string {
  const [source] = command.slice(1).filter((word) => word.endsWith('/src/cli/main.ts'));
  if (source === undefined) return '';
  const folder = source.slice(0, -'/src/cli/main.ts'.length);
  const cache = `if [ -w ${shellQuoted(folder)} ]; then c=${shellQuoted(`${folder}/.cache`)}; else c=0; fi`;
  return `${cache}\nexport BUN_RUNTIME_TRANSPILER_CACHE_PATH="\${BUN_RUNTIME_TRANSPILER_CACHE_PATH-$c}"\n`;
}

/** One word for a shell, whatever it holds. */
export function shellQuoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
