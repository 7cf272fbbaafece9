import { cpSync, readFileSync, rmSync } from 'node:fs';
import { temporaryHome } from '../support/home.ts';
import { PARLEY } from '../support/program.ts';
import { Faults } from './drill.ts';
import type { Drill } from './drill.ts';

const CALLS = 'pwrite64 write fsync fdatasync rename link unlink openat ftruncate fcntl'.split(' ');
const ERRORS = 'EIO ENOSPC EMFILE ENOLCK EROFS'.split(' ');
/** The short form runs about this many faults of each command, spread over all of them. */
const SHORT = 5;

/** One command that is run while a system call fails. */
interface Trial {
  name: string;
  args: string[];
  stdin: string;
  /** Looks for what is wrong with the run, and with what the mailboxes hold afterwards. */
  check(run: Run, after: After): string[];
}

interface Run {
  out: string;
  err: string;
  /** Null if a signal ended it: Bun itself gives up when some of its first calls fail, before our program begins. */
  code: number | null;
}

/** What a reader without trouble finds in the mailbox afterwards. */
type After = { body: string; redelivered: boolean }[];

/** One failing system call. */
interface Fault {
  call: string;
  error: string;
  /** The how many-th call of that name fails. */
  when: number;
}

const EVENT = { hook_event_name: 'UserPromptSubmit', session_id: 'failing-calls', prompt: 'go on', cwd: '/' };
const ASK = [
  {
    id: 1,
    method: 'initialize',
    params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'drill', version: '1' } },
  },
  {
    id: 2,
    method: 'tools/call',
    params: {
      name: 'send',
      arguments: { to: '@bob', text: 'by a tool' },
    },
  },
].map((frame) => JSON.stringify({ jsonrpc: '2.0', ...frame }));

const TRIALS: readonly Trial[] = [
  {
    name: 'send',
    args: ['send', '@bob', 'by a command', '--as', 'alice'],
    stdin: '',
    check: ({ out, code }, after) => storedOnce(after, 'by a command', out.startsWith('stored'), code === 0),
  },
  {
    name: 'mcp',
    args: ['mcp', '--as', 'alice'],
    stdin: `${ASK.join('\n')}\n`,
    check({ out }, after) {
      const answer = out.split('\n').find((line) => line.includes('"id":2')) ?? '';
      const isStored = answer.includes('"result"') && !answer.includes('"isError":true');
      return storedOnce(after, 'by a tool', isStored, isStored);
    },
  },
  {
    name: 'drain',
    args: ['drain', '--as', 'bob'],
    stdin: '',
    check: ({ out, err, code }, after) => [
      ...shownOnce(after, out),
      ...(code !== 0 && err.trim() === '' ? ['it failed and says nothing'] : []),
    ],
  },
  {
    name: 'hook',
    args: ['hook', 'claude', '--as', 'bob'],
    stdin: `${JSON.stringify(EVENT)}\n`,
    check: ({ out, code }, after) => [
      ...shownOnce(after, out),
      ...(code === 0 || code === null ? [] : [`a hook ended with ${code}`]),
    ],
  },
];

const WAITING = ['the first letter', 'the second letter'];

/** A message is there once if it was called stored, and never twice. */
function storedOnce(after: After, body: string, isStored: boolean, isWell: boolean): string[] {
  const found = after.filter((one) => one.body === body).length;
  if (found > 1) return [`${found} copies of one send`];
  if (found === 0 && (isStored || isWell)) return ['it said stored and nothing is there'];
  return WAITING.flatMap((other) => (after.some((one) => one.body === other) ? [] : [`${other} was lost`]));
}

/** Every letter comes, and what comes a second time says so. */
function shownOnce(after: After, out: string): string[] {
  return WAITING.flatMap((body) => {
    const again = after.filter((one) => one.body === body);
    if (again.length === 0) return out.includes(body) ? [] : [`${body} was lost`];
    if (again.length > 1) return [`${body} waits ${again.length} times`];
    return out.includes(body) && !again[0]?.redelivered ? [`${body} was shown again and not marked`] : [];
  });
}

/** The system fails at one call of a command: nothing is lost, shown again unmarked or wrongly called stored, and nobody sees a stack. */
export const failingCalls: Drill = {
  name: 'failing system calls',
  async run(long, tell) {
    const faults = new Faults();
    if (!Bun.which('strace')) return { counts: { skipped: 'there is no strace here' }, faults: [] };
    const bench = await Bench.open();
    let runs = 0;
    for (const trial of TRIALS) {
      const all = bench.faultsOf(trial);
      // Never a multiple of the number of errors: then only one of them would be tried.
      const step = long ? 1 : Math.max(1, Math.floor(all.length / SHORT / ERRORS.length) * ERRORS.length + 1);
      const picked = all.filter((_fault, at) => at % step === 0);
      tell(`${trial.name}: ${picked.length} faults`);
      for (const fault of picked) {
        runs += 1;
        const name = `${trial.name} ${fault.call}:${fault.error}:when=${fault.when}`;
        for (const wrong of bench.try(trial, fault)) faults.found.push(`${name}: ${wrong}`);
      }
    }
    return { counts: { runs }, faults: faults.found };
  },
};

/** A home with waiting mail, of which every run gets a copy of its own. */
class Bench {
  private constructor(readonly home: string) {}

  static async open(): Promise<Bench> {
    const bench = new Bench(temporaryHome());
    bench.#run(['init', 'alice'], bench.home);
    bench.#run(['init', 'bob'], bench.home);
    for (const body of WAITING) bench.#run(['send', '@bob', body, '--as', 'alice'], bench.home);
    return bench;
  }

  /** Every call that the command makes without trouble, with each error in turn. */
  faultsOf({ args, stdin }: Trial): Fault[] {
    const home = this.#copy();
    const log = `${home}.log`;
    this.#run(args, home, stdin, ['strace', '--seccomp-bpf', '-f', '-qq', '-o', log, '-e', `trace=${CALLS.join(',')}`]);
    const made = readFileSync(log, 'utf8').matchAll(/^\d+ +(\w+)\(/gm);
    const counts = Map.groupBy(
      [...made].map(([, call = '']) => call),
      (call) => call,
    );
    const faults: Fault[] = [];
    for (const [call, { length }] of counts) {
      for (let when = 1; when <= length; when += 1) for (const error of ERRORS) faults.push({ call, error, when });
    }
    rmSync(home, { recursive: true });
    return faults;
  }

  /** What is wrong after this fault. */
  try(trial: Trial, { call, error, when }: Fault): string[] {
    const home = this.#copy();
    const inject = ['-e', `trace=${call}`, '-e', `inject=${call}:error=${error}:when=${when}`];
    const run = this.#run(trial.args, home, trial.stdin, [
      'strace',
      '--seccomp-bpf',
      '-f',
      '-qq',
      '-o',
      '/dev/null',
      ...inject,
    ]);
    const after = this.#run(['drain', '--as', 'bob', '--json'], home);
    const wrong = trial.check(run, JSON.parse(after.out || '[]') as After);
    if (/internal error|^\s+at .*:\d+/m.test(run.err)) wrong.push(`a stack trace: ${run.err.slice(0, 300)}`);
    if (after.code !== 0) wrong.push(`the next command failed: ${after.err}`);
    rmSync(home, { recursive: true });
    return wrong;
  }

  #copy(): string {
    const home = temporaryHome();
    cpSync(this.home, home, { recursive: true });
    return home;
  }

  #run(args: string[], home: string, stdin = '', before: string[] = []): Run {
    const { PATH = '' } = process.env;
    const done = Bun.spawnSync([...before, PARLEY, ...args], {
      cwd: '/',
      env: { PATH, HOME: home, PARLEY_NO_DAEMON: '1', BUN_RUNTIME_TRANSPILER_CACHE_PATH: '0' },
      stdin: Buffer.from(stdin),
    });
    return { out: done.stdout.toString(), err: done.stderr.toString(), code: done.exitCode };
  }
}
