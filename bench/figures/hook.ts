import { constants, existsSync, mkdirSync, openSync, readSync, writeFileSync, writeSync } from 'node:fs';
import { beside, notMeasured } from '../figure.ts';
import type { Bench, Row } from '../figure.ts';
import { fillFolder } from '../mailroom.ts';
import { interleave } from '../measure.ts';
import { envOf, run } from '../program.ts';

const FLOOR = '`/bin/true`, started the same way';

/** A hook without mail, compared with the cheapest process there is. */
export async function hookFigure(bench: Bench): Promise<Row[]> {
  if (!existsSync('/bin/true') || !Bun.which('dash')) {
    return [notMeasured('empty hook under dash', FLOOR, 1.6, 'dash or /bin/true is not installed')];
  }
  const empty = boundSession(bench, 0);
  const quiet = bench.quick ? 1000 : 10_000;
  const full = boundSession(bench, quiet);
  const named = boundSession(bench, 0, true);
  const times = await interleave(bench.quick ? 200 : 1000, {
    true: () => empty.call(['/bin/true'], EVENT),
    empty: () => empty.call(empty.hook, EVENT),
    full: () => full.call(full.hook, EVENT),
    named: () => named.call(named.hook, EVENT),
    long: () => empty.call(empty.hook, LONG_EVENT),
  });
  return [
    beside('empty hook under dash', FLOOR, 1.6, times.empty, times.true),
    beside(`the same with ${quiet.toLocaleString('en')} quiet copies`, FLOOR, 1.6, times.full, times.true),
    beside('the same for a session that shares a mailbox', FLOOR, 1.6, times.named, times.true),
    beside(
      'empty hook with an event of 8 KB',
      FLOOR,
      null,
      times.long,
      times.true,
      'a shell reads a pipe byte by byte, so a long event costs more',
    ),
  ];
}

const EVENT = event({ command: 'git status' });
const LONG_EVENT = event({ command: 'git status', output: 'x'.repeat(8000) });

function event(tool: Record<string, string>, name = 'PostToolUse'): string {
  const fields = { session_id: '5e551011-0000-4000-8000-000000000001', cwd: '/tmp', hook_event_name: name };
  return `${JSON.stringify({ ...fields, tool_name: 'Bash', tool_input: tool })}\n`;
}

interface BoundSession {
  hook: string[];
  call: (command: string[], event: string) => void;
}

/** A session whose hook was called before, so that it knows its mailbox. `isNamed`: it has two mailboxes, as after `parley install`. */
function boundSession(bench: Bench, quiet: number, isNamed = false): BoundSession {
  const home = bench.fresh();
  const env = { ...envOf(home), ...(isNamed && { PARLEY_AGENT: '' }) };
  run([bench.program(), 'init', 'alice'], env);
  if (isNamed) {
    run([bench.program(), 'init', 'claude'], env);
    writeFileSync(`${home}/.parley/clients.json`, JSON.stringify({ v: 1, clients: { claude: 'claude' } }));
  }
  if (quiet > 0) fillFolder(`${home}/.parley/spool/alice/quiet`, quiet);
  mkdirSync(`${home}/.parley/spool/alice/new`, { recursive: true });
  const pipe = openPipe(`${home}/events`);
  const hook = ['dash', `${home}/.parley/hook`, 'claude'];
  const call = (command: string[], text: string): void => {
    pipe.fill(text);
    run(command, env, pipe.fd);
    pipe.empty();
  };
  call(hook, event({}, 'SessionStart'));
  call(hook, EVENT);
  if (isNamed && !existsSync(`${home}/.parley/names`)) throw new Error('the session has no name');
  return { hook, call };
}

interface Pipe {
  fd: number;
  fill: (text: string) => void;
  empty: () => void;
}

/** Clients pass the event in a pipe, which a shell must read byte by byte. Reading a file would be faster than in real use. */
function openPipe(path: string): Pipe {
  run(['mkfifo', path], { PATH: process.env['PATH'] ?? '' });
  // Open for reading and writing: neither end waits for the other, and the child's input ends with its line.
  const fd = openSync(path, constants.O_RDWR);
  const tap = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  const rest = Buffer.alloc(16_384);
  return {
    fd,
    fill: (text) => void writeSync(fd, text),
    empty: () => {
      try {
        readSync(tap, rest);
      } catch {
        // The hook has read everything.
      }
    },
  };
}
