import type { Dialect } from '../core/command.ts';
import { storageTrouble } from '../core/disk.ts';
import { visibleLine } from '../core/gate.ts';
import { nearest } from '../core/nearest.ts';
import { Refusal } from '../core/refusal.ts';
import { writeAll } from '../platform/terminal.ts';
import { Context } from './context.ts';

const HELP = `ccc: prompts for running coding sessions, and their answers (spoken by Parley)

  ccc setup [TOKEN] [--yes]     write ~/.ccc.json and install the service; keeps what is there
  ccc listen                    serve ~/.ccc.sock until Ctrl-C
  ccc                           attach to the session of this folder; make and start it if there is none
  ccc new [host:]name [path]    make a session (path: projects_dir/name, else this folder)
  ccc kill <name>               end a session and delete it; its history stays
  ccc list                      which sessions there are
  ccc install-service           serve ~/.ccc.sock from your log-in on (systemd); --force replaces a unit that you wrote
  ccc uninstall-service         end that, and restore what was there before
  ccc --version, ccc help

Sessions are in ~/.ccc.json, history is in ~/.ccc/history. A session runs in tmux as ccc-<name> and is started at its first prompt.
A program talks to the socket in lines of JSON: echo '{"cmd":"ping"}' | nc -N -U ~/.ccc.sock
For people: parley ask, parley prompt, parley sessions, parley queue, parley history <session>. More: parley help
\`parley ccc …\` is the same program. A refusal is one line on stderr and exit code 1.`;

/** `ccc <command> …`: the commands of the original that are for a terminal. Every "no" is one line `error: …` and exit code 1. */
export function ccc(names: readonly string[]): Dialect<Context> {
  return {
    name: 'ccc',
    common: { json: { type: 'boolean', help: 'one JSON value instead of words' } },
    read(argv) {
      const [name = '', ...rest] = argv;
      if (['help', '--help', '-h'].includes(name)) return { name: rest[0] ?? '', rest: [], help: true };
      if (rest[0] === '--help' || rest[0] === '-h') return { name, rest: [], help: true };
      if (name === '--json') return { name: '', rest: [...argv] };
      return { name: name === '--version' || name === '-v' ? 'version' : name, rest };
    },
    open: (values) => new Context(process.env, process.cwd(), values),
    help: (command) => (command === null ? HELP : `usage: ccc ${command.usage}\nMore: ccc help`),
    unknown(name) {
      const [near] = nearest(name, [...names]);
      const shown = name.replace(/\p{Cc}/gu, '?').slice(0, 40);
      return `unknown command "${shown}"; ${near ? `did you mean \`ccc ${near}\`?` : 'see `ccc help`'}`;
    },
    wrong(problem, { usage }) {
      return 'option' in problem ? `${problem.option}; usage: ccc ${usage}` : `usage: ccc ${usage}`;
    },
    refused(thrown) {
      const error = storageTrouble(thrown);
      if (!(error instanceof Refusal)) return null;
      writeAll(2, `error: ${visibleLine(error.message, 1000)}\n`);
      return 1;
    },
    say: (text) => writeAll(1, `${text}\n`),
  };
}
