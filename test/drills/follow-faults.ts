import type { Subprocess } from 'bun';
import { mkdirSync } from 'node:fs';
import { isProcessAlive } from '../../src/platform/process.ts';
import { ClaudeTui } from '../support/claude-tui.ts';
import { PARLEY, Program } from '../support/program.ts';
import { within } from '../support/within.ts';
import { Faults } from './drill.ts';
import type { Drill, Outcome } from './drill.ts';

const ENOUGH_MS = 60_000;
/** A message is handed over and proven within this time: a fault falls anywhere in it. */
const HANDING_MS = 300;
const READER = '@claude.project';

interface Copy {
  id: string;
  copies: { state: string; receipts: { step: string }[] }[];
}

/**
 * Mail is sent to a running session of the stand-in for Claude Code, and each message meets one fault: the daemon is killed, the client is
 * killed and started again, the client works or asks its user something. Only a client that was killed may be given a message again.
 */
export const followFaults: Drill = {
  name: 'follow: mail for running sessions among faults',
  async run(isLong, tell) {
    const claude = new ClaudeTui();
    const machine = new FollowMachine(claude, new Program(claude.env['HOME']));
    const rounds = isLong ? 300 : 6;
    try {
      await machine.open();
      for (let round = 0; round < rounds; round += 1) {
        if (round % 50 === 49) tell(`${round + 1} rounds`);
        await machine.round(round);
      }
      return await machine.judged();
    } finally {
      await machine.close();
    }
  },
};

class FollowMachine {
  #daemon: Subprocess | null = null;
  #count = 0;
  /** Each message, with its text, and whether its client was killed meanwhile. */
  readonly #sent = new Map<string, { text: string; isKilled: boolean }>();
  readonly #kills = { daemon: 0, client: 0 };

  constructor(
    readonly claude: ClaudeTui,
    readonly program: Program,
  ) {}

  async open(): Promise<void> {
    mkdirSync(this.project, { recursive: true });
    await this.program.init('alice');
    // More than a person would want to be woken for.
    await this.program.run(['config', 'set', 'wakesPerHour', '100000']);
    this.#follow();
    await this.#run();
  }

  async round(number: number): Promise<void> {
    const kind = (['none', 'daemon', 'client', 'busy', 'dialog', 'daemon'] as const)[number % 6];
    const order = (what: Parameters<ClaudeTui['order']>[0]): Promise<void> => this.claude.order(what);
    if (kind === 'busy') await this.#send('@@{"hold":true}@@');
    if (kind === 'busy') await this.claude.until('busy');
    if (kind === 'dialog') await order({ dialog: 'permission prompt' });
    const many = 1 + (number % 3);
    for (let n = 0; n < many; n += 1) await this.#send();
    await Bun.sleep(Math.random() * HANDING_MS);
    if (kind === 'daemon') await this.#killDaemon();
    if (kind === 'client') await this.#killClient();
    if (kind === 'busy') await order({ finish: 'done' });
    if (kind === 'dialog') await order({ close: '' });
    await within(ENOUGH_MS, async () => (await this.#open()).length === 0);
  }

  async judged(): Promise<Outcome> {
    const faults = new Faults();
    const seen = this.claude.noted().flatMap(({ prompts = [], absorbed }) => [...prompts, absorbed ?? '']);
    const times = (text: string): number => seen.filter((one) => one.includes(text)).length;
    const all = [...this.#sent.values()];
    const texts = (some: typeof all): string[] => some.map(({ text }) => text);
    faults.none(texts(all.filter(({ text }) => times(text) === 0)), 'called shown, and in no request');
    faults.none(texts(all.filter(({ text, isKilled }) => times(text) > 1 && !isKilled)), 'given to the model twice');
    faults.none(
      this.claude.harm().map((noted) => JSON.stringify(noted)),
      'keys typed',
    );
    return { counts: { messages: all.length, ...this.#kills }, faults: faults.found };
  }

  async close(): Promise<void> {
    if (this.#daemon) {
      this.#daemon.kill('SIGKILL');
      await this.#daemon.exited;
    }
    await this.claude.close();
  }

  async #send(more = ''): Promise<void> {
    this.#count += 1;
    const text = `message ${this.#count}. ${more}`;
    // A question is held by no guard against circles.
    const order = ['send', READER, text, '--intent', 'question'];
    const { id } = await this.program.json<{ id: string }>(order, { as: 'alice' });
    this.#sent.set(id, { text: `message ${this.#count}.`, isKilled: false });
  }

  /** Those that are not proven yet. */
  async #open(): Promise<string[]> {
    const open: string[] = [];
    for (const id of [...this.#sent.keys()].slice(-6)) {
      const { copies } = await this.program.json<Copy>(['trace', id], { as: 'alice' });
      const isShown = copies.every(({ receipts }) => receipts.some(({ step }) => step === 'shown'));
      if (!isShown) open.push(id);
    }
    return open;
  }

  #follow(): void {
    const { PARLEY_NO_DAEMON: _, ...env } = { ...this.program.env, ...this.claude.env };
    this.#daemon = Bun.spawn([PARLEY, 'up'], { env, stdio: ['ignore', 'ignore', 'ignore'] });
  }

  async #killDaemon(): Promise<void> {
    this.#kills.daemon += 1;
    this.#daemon?.kill('SIGKILL');
    await this.#daemon?.exited;
    this.#follow();
  }

  async #killClient(): Promise<void> {
    this.#kills.client += 1;
    for (const id of await this.#open()) {
      const sent = this.#sent.get(id);
      if (sent) sent.isKilled = true;
    }
    const pid = this.claude.running().at(-1)?.pid ?? 0;
    process.kill(pid, 'SIGKILL');
    await within(ENOUGH_MS, async () => !isProcessAlive(pid));
    await this.#run();
  }

  /** `parley run claude` in a tmux session of its own. */
  async #run(): Promise<void> {
    const before = this.claude.running().length;
    const command = `PARLEY_NO_DAEMON=1 exec '${PARLEY}' run claude`;
    await this.claude.tmux('kill-session', '-t', '=drill').catch(() => 'there is none');
    await this.claude.tmux('new-session', '-d', '-s', 'drill', '-c', this.project, 'sh', '-c', command);
    await within(ENOUGH_MS, async () => this.claude.running().length > before);
    await this.claude.until('idle');
  }

  get project(): string {
    return `${this.claude.env['HOME']}/project`;
  }
}
