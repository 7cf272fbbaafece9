import { COMMON } from './command.ts';
import type { Command, Options } from './command.ts';
import { COMMANDS } from './commands.ts';
import type { Paint } from './terminal.ts';

/** The help of the whole program, made from the table of commands. */
export function helpForAll(paint: Paint): string {
  const groups = [...new Set(COMMANDS.map((row) => row.group))];
  const width = Math.max(...COMMANDS.map((row) => row.name.length)) + 2;
  const sections = groups.map((group) => {
    const rows = COMMANDS.filter((row) => row.group === group).map(
      (row) => `  ${row.name.padEnd(width)}${row.summary}`,
    );
    return [paint.bold(group), ...rows].join('\n');
  });
  return [
    'parley: mail for coding agents that can prove it arrived',
    '',
    sections.join('\n\n'),
    '',
    'Every command takes --help (with examples), --json, --as <agent> and --verbose.',
  ].join('\n');
}

/** The help of one command, made from its own description. */
export function helpFor(command: Command, paint: Paint): string {
  return [
    `${paint.bold('parley')} ${command.usage}`,
    '',
    command.about,
    '',
    ...optionLines({ ...command.options, ...COMMON }),
    ...(command.examples.length > 0 ? ['', 'Examples:', ...command.examples.map((line) => `  ${line}`)] : []),
  ].join('\n');
}

function optionLines(options: Options): string[] {
  const rows = Object.entries(options).map(([name, option]) => {
    const value = option.type === 'string' ? ` <${option.value ?? 'text'}>` : '';
    const short = option.short ? `-${option.short}, ` : '';
    return { left: `  ${short}--${name}${value}${option.multiple ? ' …' : ''}`, help: option.help };
  });
  const width = Math.max(...rows.map((row) => row.left.length)) + 2;
  return rows.map((row) => row.left.padEnd(width) + row.help);
}
