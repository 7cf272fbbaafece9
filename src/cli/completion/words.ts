import { COMMON } from '../command.ts';
import type { Option } from '../command.ts';
import { COMMANDS } from '../commands.ts';
import { loadCommand } from '../load.ts';

/** What can be typed after a command. */
export interface Completable {
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
    summary: 'everything, or one command',
    options: [],
    choices: COMMANDS.map((row) => row.name),
  };
  const rows = await Promise.all(
    COMMANDS.map(async (row): Promise<Completable> => {
      const command = await loadCommand(row.name);
      const options = Object.entries<Option>({ ...command?.options, ...COMMON });
      return {
        name: row.name,
        summary: row.summary,
        options: options.map(([name, { type, help: about }]) => ({ name, takesValue: type === 'string', help: about })),
        choices: choicesIn(command?.usage ?? ''),
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
