/** A line of the script that changes when an older script would not do any more. */
export const SCRIPT_VERSION = '# version 3: starts the program for what is in open/, also for a subagent';

/**
 * The fast half of the hook, as a POSIX shell script: it runs after every tool call of a client, and nearly always there is
 * nothing to say. It uses built-ins only, so that this costs about a millisecond; `command hook …` is the slow half, which
 * looks properly. What the files of a session mean is written in cli/sessions.ts.
 *
 * - The event is always read to its end, because a client whose write fails reports a broken hook. A shell reads a pipe byte
 *   by byte; bash can be told not to.
 * - The session is the one that the event names first; every client names it before anything that a model or a tool wrote.
 * - `box` is a link to the mailbox. Without one, or at the start of a session, the slow half binds it.
 * - `open/` holds what was printed for this session and what no event has proven yet: the slow half must get the next event. A tool's
 *   input may have an "agent_id" too, so only the slow half can tell a subagent.
 * - `seen.lo` and `seen.hi` lie just around the time that new/ had when it was last searched in vain. Any other time means
 *   that something changed, also after a clock was set back. Subagents get no mail: they have marks of their own.
 * - `turn.lo` and `turn.hi` are the same for quiet/, at an event with which a turn of the session's own begins.
 * - Copies in held/ may belong to a reader that died: `look` is a file from the future, and when that has come they are seen to.
 * - early and late lie a millisecond apart: a shell or a file system that takes them for equal has coarse times, and the slow
 *   half must know.
 * - Without the program the script prints nothing and ends with 0: a client whose hook fails refuses or reports every prompt.
 *   `parley doctor` says that the program is gone.
 *
 * A test that errs on the side of starting costs a start; no test may err on the other side. spec: hook#fast
 */
export function hookScript(home: string, command: readonly string[]): string {
  return `# Parley's hook: sh <this file> <client>, with the client's event on stdin.
# Written by \`parley init\` and \`parley hook --write\`; changes are overwritten.
${SCRIPT_VERSION}
case $BASH_VERSION in
'' | 3.* | 4.0*) IFS= read -r e ;;
*) set +o posix; LC_ALL=C; IFS= read -r -N 99999999 e ;;
esac
h=${quoted(home)}
any() { [ -e "$1" ] || [ -L "$1" ]; }
fresh() {
  [ -e "$2.hi" ] && ! [ "$1" -nt "$2.hi" ] && ! [ "$1" -ot "$2.lo" ] && return 1
  any "$1"/*.json || any "$1"/.[!.]*.json
}
quiet() {
  case $1 in '' | .* | *[!A-Za-z0-9._-]*) return 1 ;; esac
  d=$h/sessions/$1
  b=$d/box
  [ -d "$b/new" ] || return 1
  any "$d"/open/*.json && return 1
  case $e in
  *'"SessionStart"'* | *'Compact"'* | *'"PreCompress"'*) return 1 ;;
  *'"agent_id"'*) m=$d/sub ;;
  *) m=$d/seen ;;
  esac
  fresh "$b/new" "$m" && return 1
  case $e in
  *'"UserPromptSubmit"'* | *'"BeforeAgent"'*) fresh "$b/quiet" "$d/turn" && return 1 ;;
  esac
  any "$b"/held/*.json || return 0
  [ -e "$d/look" ] && true 2>/dev/null >"$d/now" && [ "$d/look" -nt "$d/now" ]
}
p=\${e%%'"session_id"'*}
if [ \${#p} -lt 300 ]; then
  s=\${e#"$p"'"session_id"'}
  s=\${s#*\\"}
  quiet "\${s%%\\"*}" && exit 0
fi
${isGone(command)} && exit 0
${cacheOf(command)}t=coarse
[ "$h/sessions/.late" -nt "$h/sessions/.early" ] && t=fine
export PARLEY_HOME="$h"
exec ${command.map(quoted).join(' ')} hook "$@" --relay "$t" 3<<EVENT
$e
EVENT
`;
}

/** A shell test: the program, or the source that it runs, is not there any more. */
export function isGone([program = '', ...words]: readonly string[]): string {
  const source = words.filter((word) => word.startsWith('/')).map((word) => ` || ! [ -r ${quoted(word)} ]`);
  return `{ ! [ -f ${quoted(program)} ] || ! [ -x ${quoted(program)} ]${source.join('')}; }`;
}

/** From source, Bun would keep its compiled files in the user's home. As in bin/parley, they belong to the installation. */
export function cacheOf(command: readonly string[]): string {
  const [source] = command.slice(1).filter((word) => word.endsWith('/src/cli/main.ts'));
  if (source === undefined) return '';
  const folder = source.slice(0, -'/src/cli/main.ts'.length);
  const cache = `if [ -w ${quoted(folder)} ]; then c=${quoted(`${folder}/.cache`)}; else c=0; fi`;
  return `${cache}\nexport BUN_RUNTIME_TRANSPILER_CACHE_PATH="\${BUN_RUNTIME_TRANSPILER_CACHE_PATH-$c}"\n`;
}

/** One word for a shell, whatever it holds. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
