import { cacheOf, isGone, quoted } from './hook-script.ts';

/** What the script has to know when it is written. */
export interface HookPlace {
  /** Where each session of a client has its folder: see cli/dialects/c2c/hook-session.ts. */
  folder: string;
  /** The words that start `c2c`. */
  command: readonly string[];
  /** Where bash is. */
  shell?: string;
}

/**
 * The fast half of c2c's hook. Claude Code runs it after every tool call, and nearly always there is nothing to say: then it uses
 * built-ins of bash only. `c2c hook` is the slow half, which looks properly. What the files mean is written in
 * cli/dialects/c2c/hook-session.ts.
 *
 * - The event is always read to its end, because a client whose write fails reports a broken hook.
 * - The session is the one that the event names first, before anything that a model or a tool wrote.
 * - `inbox` and `held` are links to the files of the broker. Without them the slow half binds the session.
 * - `seen` is a second name of the very inbox that was last searched in vain. Every change of an inbox puts another file in its
 *   place, so the two are the same file only as long as nothing changed, whatever clocks say; a program that writes into the
 *   file itself is told by `seen.at`. Subagents get no mail: they have a mark of their own. What a tool took or gave is not asked who
 *   called it.
 * - Mail in a hand (`held`) may be a dead reader's, and a session that nobody registered (`guess`) may be by now: `look` says until
 *   when that need not be seen to.
 *
 * The first few lines know the usual case, an inbox without anything in it, from the usual form of an event. bash reads and parses a
 * script as it goes, so that case pays for nothing that stands below: it must stay first.
 *
 * A test that errs on the side of starting costs a start; no test may err on the other side. The slow half gets 5 seconds, and what
 * it has not said by then still waits. spec: c2c#hook
 */
export function c2cHookScript({ folder, command, shell = '/bin/bash' }: HookPlace): string {
  return `#!${shell}
# Puts waiting c2c mail before the model: the client calls it with an event on stdin.
# Written by \`c2c install\`; changes are overwritten.
case $BASH_VERSION in
3.* | 4.0*) IFS= read -r -d '' e ;;
*) LC_ALL=C; IFS= read -r -N 99999999 e ;;
esac
d=${quoted(folder)}
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
${isGone(command)} && exit 0
${cacheOf(command)}export C2C_HOOK_FOLDER="$d"
if type -P timeout >/dev/null; then
  timeout -k 1 4 ${command.map(quoted).join(' ')} hook "$@" <<<"$e"
else
  set -m
  ${command.map(quoted).join(' ')} hook "$@" <<<"$e" &
  p=$!
  { sleep 5; kill -9 -- "-$p"; } >/dev/null 2>&1 &
  w=$!
  wait "$p" 2>/dev/null
  kill -9 -- "-$w" 2>/dev/null
fi
exit 0
`;
}
