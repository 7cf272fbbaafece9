import { shownOptions } from './parley.ts';
import { PARLEY_COMMANDS } from './table.ts';

/** What can be typed after a command. */
interface Completable {
  name: string;
  summary: string;
  options: { name: string; takesValue: boolean; help: string }[];
  /** Words from which the first argument is chosen, if there is such a list. */
  choices: string[];
}

/** Every command with its options, read from the table of commands: what is added there is completed here. */
export async function completables(): Promise<Completable[]> {
  const help: Completable = {
    name: 'help',
    summary: 'the first commands, all, or one',
    options: [
      { name: 'all', takesValue: false, help: 'every command' },
      { name: 'json', takesValue: false, help: 'the table of commands as JSON' },
    ],
    choices: PARLEY_COMMANDS.map((row) => row.name),
  };
  const rows = await Promise.all(
    PARLEY_COMMANDS.map(async (row): Promise<Completable> => {
      const command = await row.load();
      const options = Object.entries(shownOptions(command.options));
      return {
        name: row.name,
        summary: row.summary,
        options: options.map(([name, { type, help: about }]) => ({ name, takesValue: type === 'string', help: about })),
        choices: choicesIn(command.usage),
      };
    }),
  );
  return [...rows, help];
}

/** `self <install|uninstall>` chooses between plain words; `send <@agent|#channel>` does not. */
function choicesIn(usage: string): string[] {
  const words = /^\S+ [<[]([^\]>]+)[\]>]/.exec(usage)?.[1]?.split('|') ?? [];
  return words.length > 1 && words.every((word) => /^[a-z0-9-]+$/.test(word)) ? words : [];
}

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
    @*|\\#*) COMPREPLY=($(compgen -W "$(parley completion names 2>/dev/null)" -- "$word")) ;;
    -*) COMPREPLY=($(compgen -W "$options" -- "$word")) ;;
    *) if [ "$COMP_CWORD" -eq 2 ]; then COMPREPLY=($(compgen -W "$choices" -- "$word")); fi ;;
  esac
}
complete -o default -F _parley parley
`;
}

export function fishScript(commands: Completable[]): string {
  const lines = commands.flatMap(({ name, summary, options, choices }) => {
    const after = `-n ${quoted(`__fish_seen_subcommand_from ${name}`)}`;
    return [
      `complete -c parley -n __fish_use_subcommand -f -a ${name} -d ${quoted(summary)}`,
      ...options.map(
        ({ name: option, takesValue, help }) =>
          `complete -c parley ${after} -l ${option}${takesValue ? ' -r' : ''} -d ${quoted(help)}`,
      ),
      ...(choices.length > 0 ? [`complete -c parley ${after} -f -a ${quoted(choices.join(' '))}`] : []),
    ];
  });
  const names = `complete -c parley -n ${quoted('string match -qr "^[@#]" -- (commandline -ct)')} -f -a '(parley completion names 2>/dev/null)'`;
  return `# parley completion for fish. Save it as ~/.config/fish/completions/parley.fish\n${[...lines, names].join('\n')}\n`;
}

function quoted(text: string): string {
  return `'${text.replace(/[\\']/g, String.raw`\$&`)}'`;
}

export function zshScript(commands: Completable[]): string {
  const names = commands.map(({ name, summary }) => `    ${zshQuoted(`${name}:${summary}`)}`);
  const cases = commands.map(({ name, options, choices }) => {
    const first = choices.length > 0 ? `1:word:(${choices.join(' ')})` : '1:word:_default';
    const specs = options.map((option) => {
      const value = option.takesValue ? ':value:' : '';
      return zshQuoted(`--${option.name}[${option.help.replace(/[[\]\\]/g, '\\$&')}]${value}`);
    });
    return `    ${name}) _arguments ${[...specs, zshQuoted(first), zshQuoted('*:word:_default')].join(' ')} ;;`;
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
  if [[ $words[CURRENT] == [@#]* ]]; then
    compadd -- \${(f)"$(parley completion names 2>/dev/null)"}
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

function zshQuoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
