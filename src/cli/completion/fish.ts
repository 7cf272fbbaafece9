import type { Completable } from './words.ts';

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
  return `# parley completion for fish. Save it as ~/.config/fish/completions/parley.fish\n${lines.join('\n')}\n`;
}

function quoted(text: string): string {
  return `'${text.replace(/[\\']/g, String.raw`\$&`)}'`;
}
