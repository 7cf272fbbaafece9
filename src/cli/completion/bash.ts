import type { Completable } from './words.ts';

/** Works with plain bash, from 3.2 on: nothing of the bash-completion package is used. */
export function bashScript(commands: Completable[]): string {
  const cases = commands.map(({ name, options, choices }) => {
    const flags = options.map((option) => `--${option.name}`).join(' ');
    const valued = options.filter((option) => option.takesValue).map((option) => `--${option.name}`);
    return `    ${name}) options='${flags}' valued=' ${valued.join(' ')} ' choices='${choices.join(' ')}' ;;`;
  });
  return `# parley completion for bash. Load it with:  eval "$(parley completion bash)"
_parley() {
  local word=\${COMP_WORDS[COMP_CWORD]} options='' valued='' choices=''
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '${commands.map(({ name }) => name).join(' ')} --help --version' -- "$word"))
    return
  fi
  case "\${COMP_WORDS[1]}" in
${cases.join('\n')}
  esac
  COMPREPLY=()
  # After an option that takes a value comes the value, which only its user knows.
  case "$valued" in *" \${COMP_WORDS[COMP_CWORD-1]} "*) return ;; esac
  case "$word" in
    -*) COMPREPLY=($(compgen -W "$options" -- "$word")) ;;
    *) if [ "$COMP_CWORD" -eq 2 ]; then COMPREPLY=($(compgen -W "$choices" -- "$word")); fi ;;
  esac
}
complete -o default -F _parley parley
`;
}
