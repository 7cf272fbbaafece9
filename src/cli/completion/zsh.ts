import type { Completable } from './words.ts';

export function zshScript(commands: Completable[]): string {
  const names = commands.map(({ name, summary }) => `    ${quoted(`${name}:${summary}`)}`);
  const cases = commands.map(({ name, options, choices }) => {
    const first = choices.length > 0 ? `1:word:(${choices.join(' ')})` : '1:word:_default';
    const specs = options.map((option) => {
      const value = option.takesValue ? ':value:' : '';
      return quoted(`--${option.name}[${option.help.replace(/[[\]\\]/g, '\\$&')}]${value}`);
    });
    return `    ${name}) _arguments ${[...specs, quoted(first), quoted('*:word:_default')].join(' ')} ;;`;
  });
  return `#compdef parley
# parley completion for zsh. Put it into a folder of your $fpath as _parley, or load it with:  eval "$(parley completion zsh)"
_parley() {
  local -a commands
  commands=(
${names.join('\n')}
  )
  if (( CURRENT == 2 )); then
    _describe 'command' commands
    return
  fi
  local command=$words[2]
  shift words
  (( CURRENT-- ))
  case $command in
${cases.join('\n')}
  esac
}
if [[ $funcstack[1] == _parley ]]; then _parley "$@"; else compdef _parley parley; fi
`;
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
