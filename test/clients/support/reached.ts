// A machine on which one real client runs as `parley run` started it, beside the daemon of Parley. The scripted model logs what reached it.
//
//   const machine = await aMachine(claude);
//   const window = await machine.run();                      // `parley run claude` at its prompt
//   const id = await machine.send('the build is red');       // from @me, with `parley send`
//   await machine.model.saw('the build is red'); await machine.until(id, 'shown');
import { existsSync, readFileSync } from 'node:fs';
import { SessionNames } from '../../../src/delivery/session-names.ts';
import { daemonNotice } from '../../../src/platform/daemon-lock.ts';
import { PARLEY, Program } from '../../support/program.ts';
import { within } from '../../support/within.ts';
import type { Asked } from '../model/asked.ts';
import { aModel } from '../model/model.ts';
import type { Model } from '../model/model.ts';
import type { Step } from '../model/steps.ts';
import { opens } from './opened.ts';
import { aPlace } from './place.ts';
import type { Place } from './place.ts';
import { atRest, endAll } from './processes.ts';
import { aTerminal } from './terminal.ts';
import type { Terminal } from './terminal.ts';
import type { Client } from './where.ts';

const DEADLINE = 200_000;
/** Each look starts a process. */
const LOOK_MS = 50;

/** One client, as far as the contract of reached.contract.ts and the drill need to know it. */
export interface RunningClient {
  /** Its name for people. */
  title: string;
  /** The word after `parley run`. */
  word: string;
  client: Client;
  /** The ways of Parley that reach it without a key, as receipts name them. */
  ways: readonly string[];
  /** Mail is typed into its composer. So it waits for the end of a turn, and for a composer without a draft. */
  isTyped?: true;
  /** How long after a paste it takes Enter for Enter, in ms; at once if it is not given. */
  enterMs?: number;
  /** Promises that the client cannot keep, each with the reason. */
  cannot?: Partial<Record<Promised, string>>;
  /** The HTTP status of a model after which the client does not ask again by itself; 500 if it is not given. */
  refusal?: number;
  /** Writes its settings into this home, for this model. Nothing asks its user anything before the first prompt. */
  prepare(place: Place, model: Model): PreparedClient;
}

export type Promised =
  | 'idle'
  | 'busy'
  | 'burst'
  | 'dialog'
  | 'unused'
  | 'killed'
  | 'compacted'
  | 'answer'
  | 'restarted'
  | 'refused';

export interface PreparedClient {
  /** Its program is on the search path. */
  env: Record<string, string>;
  /** Arguments with which it runs each tool unasked, and lets mail in; `asks`: it asks its user before `guarded`. */
  args(asks: boolean): string[];
  /** Arguments that go on with this conversation. */
  resume(session: string): string[];
  /** The model runs this in a shell of the client. */
  shell(command: string): Step;
  /** The same, and the client asks its user first if it was started so. */
  guarded(command: string): Step;
  /** Waits until it rests and takes a prompt. */
  ready(terminal: Terminal): Promise<void>;
  /** Waits until it asks its user about `guarded`. */
  asking(terminal: Terminal): Promise<void>;
  /** Its user says yes. */
  approve(terminal: Terminal): Promise<void>;
  /** Waits until the client has this message, which its model has not been given yet. */
  has(message: { id: string; text: string }, machine: Machine): Promise<void>;
  /** How a line looks that its user types and has not sent. */
  draft(text: string): string | RegExp;
  /** Its user leaves it, without a prompt. */
  quit(terminal: Terminal): Promise<void>;
  /** Its user has the conversation compacted. Returns when that is done. */
  compact(terminal: Terminal, model: Model): Promise<void>;
  /** The processes that have the conversation; `window`: only that which its user sees. */
  processes(terminal: Terminal): { window: number[]; all: number[] };
}

interface Receipt {
  step: string;
  at: string;
  evidence: { way?: string };
}

export interface Copy {
  mailbox: string;
  state: string;
  receipts: Receipt[];
}

export class Machine {
  #daemon: Bun.Subprocess | null = null;
  /** The window that was opened last. */
  #window: Terminal | null = null;

  constructor(
    readonly running: RunningClient,
    readonly place: Place,
    readonly model: Model,
    readonly prepared: PreparedClient,
    readonly program = new Program(place.home),
  ) {}

  /** The address of the session. */
  get reader(): string {
    return `${this.running.word}.project`;
  }

  /** `parley …` as a script runs it; what it says. */
  async parley(...args: string[]): Promise<string> {
    const { out, err, code } = await this.program.withoutTerminal(args, { cwd: this.place.project });
    if (code !== 0) throw new Error(`parley ${args.join(' ')} ended with ${code}: ${err}`);
    return out;
  }

  /** Starts the daemon of this home, as a process of the test. */
  async up(): Promise<void> {
    const env = { ...this.prepared.env, PARLEY_NO_DAEMON: '' };
    this.#daemon = Bun.spawn([PARLEY, 'up'], { env, cwd: '/', stdio: ['ignore', 'ignore', 'ignore'] });
    await within(DEADLINE, async () => daemonNotice(`${this.place.home}/.parley/daemon`)?.pid === this.#daemon?.pid);
  }

  /** Waits until the daemon has done what it can do now, and these processes too. */
  async daemonRests(...others: number[]): Promise<void> {
    if (!this.#daemon) throw new Error('no daemon runs');
    await atRest([this.#daemon.pid, ...others], DEADLINE);
  }

  /** Kills the daemon. */
  async killDaemon(): Promise<void> {
    this.#daemon?.kill('SIGKILL');
    await this.#daemon?.exited;
    this.#daemon = null;
  }

  /** `parley run <client>` in a terminal, when it takes a prompt. */
  async run({ asks = false, args = [] as string[] } = {}): Promise<Terminal> {
    const terminal = await this.start({ asks, args });
    await this.prepared.ready(terminal);
    return terminal;
  }

  /** The same, at once. */
  async start({ asks = false, args = [] as string[] } = {}): Promise<Terminal> {
    const env = { ...this.prepared.env, PARLEY_NO_DAEMON: '1' };
    const words = [PARLEY, 'run', this.running.word, ...args, ...this.prepared.args(asks)];
    this.#window = await aTerminal(this.place, words, { env, enterMs: this.running.enterMs });
    return this.#window;
  }

  /** The conversation that the session had last. */
  get session(): string {
    const named = new SessionNames(`${this.place.home}/.parley`).all().find(({ name }) => name === this.reader);
    const session = named?.session ?? named?.earlier.at(-1);
    if (!session) throw new Error(`@${this.reader} has no conversation yet`);
    return session;
  }

  /** Kills the client and opens a window on the same conversation. */
  async killAndResume(which: 'window' | 'all' = 'all'): Promise<Terminal> {
    await this.kill(which);
    return this.run({ args: this.prepared.resume(this.session) });
  }

  async kill(which: 'window' | 'all' = 'all'): Promise<void> {
    const terminal = this.#window;
    if (!terminal) throw new Error('no window was opened');
    await endAll(this.prepared.processes(terminal)[which]);
    await terminal.close();
  }

  /** From @me; `fyi`: nobody owes an answer. */
  async send(text: string, { fyi = false } = {}): Promise<string> {
    const words = ['send', `@${this.reader}`, text, '--as', 'me', '--json', ...(fyi ? ['--fyi'] : [])];
    return (JSON.parse(await this.parley(...words)) as { id: string }).id;
  }

  async copy(id: string): Promise<Copy> {
    const { copies } = JSON.parse(await this.parley('trace', id, '--json')) as { copies: Copy[] };
    const copy = copies.find(({ mailbox }) => mailbox === this.reader);
    if (!copy) throw new Error(`@${this.reader} has no copy of ${id}`);
    return copy;
  }

  async has(id: string, step: string): Promise<boolean> {
    return (await this.copy(id)).receipts.some((receipt) => receipt.step === step);
  }

  /** Waits until the journal has this step of a message, and gives the receipt. */
  async until(id: string, step: string): Promise<Receipt> {
    for (const end = performance.now() + DEADLINE; ; await Bun.sleep(LOOK_MS)) {
      const copy = await this.copy(id);
      const found = copy.receipts.findLast((receipt) => receipt.step === step);
      if (found) return found;
      if (performance.now() < end) continue;
      const screen = await this.#window?.screen().catch(() => 'there is no screen any more');
      throw new Error(`${id} was not ${step} in ${DEADLINE} ms: ${JSON.stringify(copy)}\n${screen}`);
    }
  }

  /** A tool that runs until `finish`. `begun` waits until it runs. */
  tool(name = 'go'): { step: Step; begun: () => Promise<void>; finish: () => Promise<number> } {
    const { project } = this.place;
    const command = `touch ${name}.runs; until test -e ${name}; do sleep 0.1; done`;
    return {
      step: this.prepared.shell(command),
      begun: () => within(DEADLINE, async () => existsSync(`${project}/${name}.runs`)),
      finish: () => Bun.write(`${project}/${name}`, ''),
    };
  }

  async close(): Promise<void> {
    await this.killDaemon();
  }
}

/** A home with a mailbox `me`, the daemon and this client. `isFollowed` false: no daemon runs. */
export async function aMachine(
  running: RunningClient,
  { steps = [] as Step[], isFollowed = true } = {},
): Promise<Machine> {
  const model = opens(aModel(steps));
  const place = await aPlace();
  const machine = opens(new Machine(running, place, model, running.prepare(place, model)));
  await machine.parley('init', 'me');
  if (isFollowed) await machine.up();
  return machine;
}

/** How often a message stands in a request. Its first words may stand above it, too. */
export function timesIn(asked: Asked, id: string): number {
  return asked.count(`end of message ${id.slice(0, 8)}`);
}

/** The search path with `parley` and these programs on it. */
export function pathWith(env: Record<string, string>, ...programs: string[]): string {
  const folders = [PARLEY, ...programs].map((path) => path.slice(0, path.lastIndexOf('/')));
  return [env['PATH'] ?? '', ...folders].join(':');
}

/** The processes below this one, and itself. */
export function familyOf(pid: number): number[] {
  try {
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean);
    return [pid, ...children.flatMap((child) => familyOf(Number(child)))];
  } catch {
    return [];
  }
}
