import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { isSamePrompt, preparePrompt } from '../../src/clients/typed-prompt.ts';
import { isProcessAlive, startOf } from '../../src/platform/process.ts';
import type { ClaudeAnswer, ClaudeNoted } from '../support/claude-tui.ts';
import { ControlRig } from '../support/control-rig.ts';
import type { Said } from '../support/control-rig.ts';
import type { Line } from '../support/control-caller.ts';
import { within } from '../support/within.ts';
import { Faults } from './drill.ts';
import type { Drill, Outcome } from './drill.ts';

/** A prompt is typed within this time: a fault falls anywhere in it. */
const TYPING_MS = 400;
const ENOUGH_MS = 60_000;
/** What a prompt may begin and end with: a shell's `!`, a command, what asks for a review, what swallows Enter. */
const TRAPS = [
  ['', ''],
  ['!', ''],
  ['/status ', ''],
  ['', ' \\'],
  ['\u202E', '\u200B'],
  ['first line\n', ''],
] as const;

/**
 * Prompts are sent to sessions of the stand-in for Claude Code in tmux, and each meets one fault. What the client does by itself may come at
 * any moment. A draft and a panel are there before the prompt: of two who type in the same millisecond nobody can say who was first.
 */
export const controlFaults: Drill = {
  name: 'control: prompts among faults',
  async run(isLong, tell) {
    const [runs, lanes] = isLong ? [1000, 10] : [2 * FAULTS.length, FAULTS.length];
    const names = Array.from({ length: lanes }, (_, n) => `s${n}`);
    const rig = new ControlRig(Object.fromEntries(names.map((name) => [name, {}])));
    await rig.listen();
    let begun = 0;
    const all = names.map((name, n) => new Lane(rig, name, n));
    try {
      await Promise.all(
        all.map(async (lane) => {
          while (begun < runs) {
            begun += 1;
            if (begun % 100 === 0) tell(`${begun} runs`);
            await lane.once();
          }
        }),
      );
      return await judged(rig, all);
    } finally {
      await rig.close();
    }
  },
};

/** One session, which meets one fault after the other. */
class Lane {
  static #server: Promise<void> = Promise.resolve();
  /** Every text that was sent, by the answer that belongs to it. */
  readonly sent = new Map<string, string>();
  /** What was sent to a client that was killed soon after, as it is typed, and the file with what that client left unread. */
  readonly killed: { paste: string; file: string }[] = [];
  readonly faults: string[] = [];
  readonly #sending: Promise<void>[] = [];
  #runs = 0;

  constructor(
    readonly rig: ControlRig,
    readonly name: string,
    readonly lane: number,
  ) {}

  async once(): Promise<void> {
    const [what, fault] = FAULTS[(this.#runs + this.lane) % FAULTS.length] as (typeof FAULTS)[number];
    this.faults.push(what);
    this.#runs += 1;
    await fault(this);
    await Promise.all(this.#sending.splice(0));
    await within(ENOUGH_MS, async () => {
      const { queue } = await this.request({ cmd: 'queue', session: this.name });
      return (queue as unknown[]).length === 0 || (await Bun.sleep(20), false);
    }).catch(async () => {
      const { queue } = await this.request({ cmd: 'queue', session: this.name });
      throw new Error(`${this.name} still waits after ${what}: ${JSON.stringify(queue)}`);
    });
  }

  /** Sends a prompt, and does not wait for what becomes of it. */
  send(answer: ClaudeAnswer = {}): string {
    const text = `re: ${this.name} ${this.sent.size}`;
    const [before, after] = TRAPS[Math.floor(Math.random() * TRAPS.length)] ?? ['', ''];
    const how = { text, delay: Math.round(Math.random() * 200), ...answer };
    const prompt = `${before}prompt @@${JSON.stringify(how)}@@${after}`;
    this.sent.set(text, prompt);
    this.#sending.push(this.#send(prompt));
    return prompt;
  }

  /** Until it is stored: a server that was killed may have done so, and only the history can tell. */
  async #send(text: string): Promise<void> {
    while (!(await this.rig.send(this.name, text).catch(() => null))) {
      if ((await this.lines()).some((line) => line.text === text)) return;
    }
  }

  async lines(): Promise<Said[]> {
    return (await this.request({ cmd: 'history', session: this.name, after: 0, limit: 10_000 }))['messages'] as Said[];
  }

  /** One request, again and again while the server is away. */
  async request(fields: Record<string, unknown>): Promise<Line> {
    for (;;) {
      const line = await this.rig.request(fields).catch(() => null);
      if (line) return line;
      await Bun.sleep(20);
    }
  }

  /** The process of its client, which is started if it must. */
  async client(): Promise<number> {
    if (this.#running() === null) await this.request({ cmd: 'continue', session: this.name });
    await within(ENOUGH_MS, async () => this.#running() !== null);
    return this.#running() ?? 0;
  }

  async kill(pid: number): Promise<void> {
    process.kill(pid, 'SIGKILL');
    await within(ENOUGH_MS, async () => !isProcessAlive(pid));
    rmSync(`${this.rig.home}/.claude/sessions/${pid}.json`, { force: true });
  }

  /**
   * Opens its client as a person does, below a shell that writes down every key which it gets afterwards. What was on its way to the client
   * when that died was typed while it lived, and no sender can take it back: it is written down apart.
   */
  async openUnderShell(unread: string): Promise<number> {
    await this.request({ cmd: 'stop', session: this.name });
    const { claude } = this.rig;
    const rest = `dd if=/dev/tty iflag=nonblock bs=65536 of='${unread}' 2>/dev/null`;
    const shell = `'${claude.program}'; stty raw -echo; ${rest}; exec cat >> '${claude.folder}/shell-keys'`;
    const words = ['-d', '-x', '100', '-y', '30', '-s', `person-${this.name}`, '-c', this.rig.folder(this.name)];
    await claude.tmux('new-session', ...words, '--', 'sh', '-m', '-c', shell);
    await within(ENOUGH_MS, async () => claude.registered(this.#running() ?? 0)?.['status'] === 'idle');
    return this.#running() ?? 0;
  }

  async closeShell(): Promise<void> {
    await this.rig.claude.tmux('kill-session', '-t', `=person-${this.name}`);
  }

  /** Kills the server; one lane at a time. */
  async killServer(): Promise<void> {
    const others = Lane.#server;
    const { promise, resolve } = Promise.withResolvers<void>();
    Lane.#server = promise;
    await others;
    await this.rig.end('SIGKILL');
    await this.rig.listen();
    resolve();
  }

  #running(): number | null {
    const folder = `${this.rig.home}/.claude/sessions`;
    const names = existsSync(folder) ? readdirSync(folder).filter((name) => /^\d+\.json$/.test(name)) : [];
    for (const pid of names.map((name) => Number.parseInt(name))) {
      const { cwd, procStart } = (this.rig.claude.registered(pid) ?? {}) as { cwd?: string; procStart?: string };
      // A number may be used again, and a client that was killed leaves its entry behind.
      if (cwd === this.rig.folder(this.name) && isProcessAlive(pid) && startOf(pid) === procStart) return pid;
    }
    return null;
  }
}

const anyMoment = (): Promise<void> => Bun.sleep(Math.random() * TYPING_MS);

/** What happens to a session while a prompt is on its way to it. */
const FAULTS: readonly [what: string, fault: (lane: Lane) => Promise<void>][] = [
  [
    'client killed',
    async (lane) => {
      const pid = await lane.client();
      lane.send();
      await anyMoment();
      await lane.kill(pid);
    },
  ],
  [
    'client killed under a shell',
    async (lane) => {
      const file = `${lane.rig.claude.folder}/unread-${lane.name}-${lane.killed.length}`;
      const pid = await lane.openUnderShell(file);
      lane.killed.push({ paste: `\u001B[200~${preparePrompt(lane.send())}\u001B[201~`, file });
      await anyMoment();
      await lane.kill(pid);
      lane.send();
      await anyMoment();
      await lane.closeShell();
    },
  ],
  [
    'dialog',
    async (lane) => {
      const pid = await lane.client();
      lane.send({ ask: 'permission prompt' });
      await anyMoment();
      lane.send();
      const { claude } = lane.rig;
      await within(ENOUGH_MS, async () => claude.registered(pid)?.['status'] === 'waiting');
      await anyMoment();
      await claude.order({ close: '' }, pid);
    },
  ],
  [
    'panel',
    async (lane) => {
      const pid = await lane.client();
      await lane.rig.claude.order({ dialog: 'dialog open' }, pid);
      lane.send();
      await anyMoment();
      await lane.rig.claude.order({ close: '' }, pid);
    },
  ],
  [
    'draft',
    async (lane) => {
      const pid = await lane.client();
      await lane.rig.claude.order({ draft: 'what I was about to say' }, pid);
      lane.send();
      await anyMoment();
      await lane.rig.claude.order({ draft: '' }, pid);
    },
  ],
  [
    'slow start',
    async (lane) => {
      await lane.kill(await lane.client());
      lane.rig.claude.starts({ ms: Math.round(Math.random() * 1000) });
      lane.send();
      await anyMoment();
    },
  ],
  [
    'server killed',
    async (lane) => {
      await lane.client();
      lane.send();
      await anyMoment();
      await lane.killServer();
    },
  ],
];

/** Holds what the clients wrote down, and the history, against what was sent. */
async function judged(rig: ControlRig, lanes: readonly Lane[]): Promise<Outcome> {
  const faults = new Faults();
  const noted = rig.claude.noted();
  const textOf = (file: string): string => (existsSync(file) ? readFileSync(file, 'utf8') : '');
  const atShell = textOf(`${rig.claude.folder}/shell-keys`);
  const killed = lanes.flatMap((lane) => lane.killed).map(({ paste, file }) => ({ paste, left: textOf(file) }));
  const unread = killed.filter(({ left }) => left !== '');
  // Either the text or its Enter, never both: Enter comes after the client has shown the text.
  const whole = unread
    .filter(({ paste, left }) => left !== paste && !isOnlyEnter(left))
    .map(({ left }) => JSON.stringify(left));
  faults.none(whole, 'clients that died left more unread than a text without Enter');
  const elsewhere = noted.filter(isElsewhere).map((one) => JSON.stringify(one));
  faults.none(elsewhere, 'keys went elsewhere');
  // tmux took this Enter while the client lived, and wrote it after the client had died. It runs nothing. A text never comes so late.
  const isLate = isOnlyEnter(atShell) && atShell.length <= killed.length;
  faults.expect(atShell === '' || isLate, `keys went into a shell: ${JSON.stringify(atShell)}`);

  const sent = new Map(lanes.flatMap((lane) => [...lane.sent]));
  const typed = new Map([...sent.keys()].map((answer) => [answer, 0]));
  const strange: string[] = [];
  for (const prompt of rig.claude.prompts()) {
    const [answer] = [...sent].find(([, text]) => isSamePrompt(prompt, preparePrompt(text))) ?? [];
    if (answer === undefined) strange.push(prompt);
    else typed.set(answer, (typed.get(answer) ?? 0) + 1);
  }
  faults.none(strange, 'prompts were not as they were sent');
  const twice = [...typed].filter(([, times]) => times > 1).map(([answer]) => answer);
  faults.none(twice, 'prompts were typed twice');

  const [wrong, endless, lost]: [string[], string[], string[]] = [[], [], []];
  let [answered, failed] = [0, 0];
  for (const lane of lanes) {
    const { sent: own } = lane;
    const lines = await lane.lines();
    const stored = lines.filter(({ from }) => from === 'api');
    const texts = new Set(stored.map(({ text }) => text));
    lost.push(...[...own.values()].filter((text) => !texts.has(text)));
    const replies = new Map(lines.map(({ reply_to: to, text }) => [to, text]));
    for (const { id, text, status } of stored) {
      const reply = replies.get(id);
      if (reply !== undefined && own.get(reply) !== text) wrong.push(`${text}: ${reply}`);
      if (reply !== undefined) answered += 1;
      else if (status === undefined) endless.push(text);
      else failed += 1;
    }
  }
  faults.none(wrong, 'answers are to another prompt');
  faults.none(endless, 'prompts have no end');
  faults.none(lost, 'prompts were lost');
  const kinds = Map.groupBy(
    lanes.flatMap((lane) => lane.faults),
    (what) => what,
  );
  const prompts = { prompts: sent.size, typed: rig.claude.prompts().length, answered, failed };
  const promised = {
    'keys elsewhere': elsewhere.length,
    'late Enters': atShell.length,
    'typed twice': twice.length,
    'left unread': unread.length,
  };
  const each = Object.fromEntries([...kinds].map(([what, runs]) => [what, runs.length]));
  return { counts: { ...each, ...prompts, ...promised, 'wrong answers': wrong.length }, faults: faults.found };
}

/** A terminal that is not raw makes a line feed of it. */
function isOnlyEnter(keys: string): boolean {
  return /^[\r\n]+$/.test(keys);
}

/** Typed into anything but an empty composer at rest. */
function isElsewhere(one: ClaudeNoted): boolean {
  const { shell, panel, dialog, approved, command, queued, early, reviewed, completed } = one;
  return [shell, panel, dialog, approved, command, queued, early, reviewed, completed].some((key) => key !== undefined);
}
