/**
 * Command lines for hooks. A client reports a hook whose program is missing, and Claude Code refuses the prompt when it ends with
 * 2, as `sh` does. So each line first tests for what it starts. If that is missing, the line reads the event, prints nothing and
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
