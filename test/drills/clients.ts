import type { Model } from '../clients/model/model.ts';
import { gate, refuse, say } from '../clients/model/steps.ts';
import { closeAll } from '../clients/support/opened.ts';
import { REACHED } from '../clients/support/reached-clients.ts';
import { aMachine, timesIn } from '../clients/support/reached.ts';
import type { Machine, RunningClient } from '../clients/support/reached.ts';
import type { Terminal } from '../clients/support/terminal.ts';
import { Faults } from './drill.ts';
import type { Drill, Outcome } from './drill.ts';

/** The same seed makes the same faults in the same order; when they fall depends on the machine. */
const SEED = Number(process.env['PARLEY_DRILL_SEED'] ?? 18);
const RUNS = 60;
/** A drill that takes longer ends, and says so. */
const LIMIT_MS = 25 * 60_000;
/** A conversation grows with each run; then a new home begins. */
const RUNS_PER_HOME = 10;
/** Mail that is not proven by then waits for its client's next request. */
const PROVEN_MS = 12_000;
const MOST_PROMPTS = 3;
const ENDS_MS = 90_000;
const MOMENT_MS = 20_000;

/** What happens to a message on its way. `window`: only what the user sees of the client. */
const FAULTS = [
  'client killed',
  'daemon killed',
  'both killed',
  'window killed',
  'client left and started',
  'model refuses',
  'model is slow',
  'compaction',
] as const;
/** What may leave mail in a conversation that only its user goes on with. After all others it is proven without a prompt. */
const NEED_PROMPT: readonly (typeof FAULTS)[number][] = [
  'client killed',
  'both killed',
  'window killed',
  'client left and started',
  'model refuses',
];
/** Of all messages, for as many at most the client's record may fail to prove that its model was given them. */
const MOST_UNPROVEN = 0.02;
/** When it happens: soon after the send, once the client is offered the message, or once its model is. */
const MOMENTS = ['soon', 'offered', 'asked'] as const;

/** Mail for a real client, each message with one fault. No model but ours is asked; the clients must be here. */
export const clientFaults: readonly Drill[] = REACHED.map((running) => ({
  name: `clients: mail for the real ${running.title} among faults`,
  async run(isLong, tell) {
    if (running.client.why) return { counts: {}, faults: [running.client.why.trim()] };
    tell(`seed ${SEED}; PARLEY_DRILL_SEED sets another`);
    const drill = new ClientFaults(running, tell);
    return drill.run(isLong ? RUNS : 3);
  },
}));

interface Sent {
  id: string;
  text: string;
  /** The model's requests before it. */
  from: number;
  /** Its client was killed or its conversation compacted, so that it may be given again. */
  mayRepeat: boolean;
}

class ClientFaults {
  readonly #random = randomFrom(SEED);
  readonly #faults = new Faults();
  readonly #counts = { runs: 0, messages: 0, again: 0, unproven: 0, prompted: 0 };
  readonly #kinds = new Map<string, number>();
  #number = 0;

  constructor(
    readonly running: RunningClient,
    readonly tell: (text: string) => void,
  ) {}

  async run(runs: number): Promise<Outcome> {
    const end = Date.now() + LIMIT_MS;
    while (this.#counts.runs < runs && Date.now() < end) {
      const many = Math.min(RUNS_PER_HOME, runs - this.#counts.runs);
      try {
        await this.#home(many, end);
      } finally {
        await closeAll();
      }
      this.tell(`${this.#counts.runs} runs, ${this.#counts.messages} messages`);
    }
    this.#faults.expect(
      this.#counts.runs >= runs,
      `only ${this.#counts.runs} of ${runs} runs in ${LIMIT_MS / 60_000} min`,
    );
    const { messages, unproven } = this.#counts;
    const share = `${((100 * unproven) / Math.max(messages, 1)).toFixed(1)} %`;
    this.#faults.expect(
      unproven <= messages * MOST_UNPROVEN,
      `${unproven} of ${messages} messages were given to a model, and nothing proves it`,
    );
    return {
      counts: { ...this.#counts, 'unproven share': share, ...Object.fromEntries(this.#kinds) },
      faults: this.#faults.found,
    };
  }

  /** Some runs in one home. What breaks one is a fault, and ends the home. */
  async #home(runs: number, end: number): Promise<void> {
    const machine = await aMachine(this.running);
    let window = await machine.run();
    machine.model.script(say('hello'));
    await window.submit('hello');
    await machine.model.saw('hello');
    await machine.prepared.ready(window);
    for (let run = 0; run < runs && Date.now() < end; run += 1) {
      const kind = FAULTS[this.#counts.runs % FAULTS.length] ?? 'daemon killed';
      this.#counts.runs += 1;
      try {
        window = await this.#one(machine, window, kind);
      } catch (error) {
        this.#faults.expect(false, `run ${this.#counts.runs} (${kind}) broke: ${String(error).slice(0, 2000)}`);
        return;
      }
      // Such a session gets no mail for a while: the next run needs another.
      if (kind === 'model refuses') return;
    }
  }

  async #one(machine: Machine, before: Terminal, kind: (typeof FAULTS)[number]): Promise<Terminal> {
    const { model } = machine;
    this.#kinds.set(kind, (this.#kinds.get(kind) ?? 0) + 1);
    const from = model.main.length;
    const isBusy = kind !== 'compaction' && kind !== 'model refuses' && this.#random() < 0.5;
    const tool = machine.tool(`go${this.#counts.runs}`);
    if (isBusy) {
      model.script(tool.step);
      await before.submit(`work ${this.#counts.runs}`);
      await tool.begun();
    }
    const moment = MOMENTS[Math.floor(this.#random() * MOMENTS.length)] ?? 'soon';
    const answer = gate();
    if (kind === 'model refuses') model.script(refuse(), refuse());
    else if (kind !== 'compaction') model.script(say('ok', answer.opened));
    const compaction = kind === 'compaction' ? machine.prepared.compact(before, model) : null;
    const mayRepeat = /killed|left|compaction/.test(kind) && kind !== 'daemon killed';
    const sent: Sent[] = [];
    const many = 1 + Math.floor(this.#random() * 3);
    for (let n = 0; n < many; n += 1) sent.push({ ...(await this.#send(machine)), from, mayRepeat });
    if (isBusy && moment === 'asked') await tool.finish();
    if (!compaction) await this.#until(moment, machine, sent[0] as Sent);
    await Bun.sleep(this.#random() * 300);
    const window = await this.#happens(kind, machine, before);
    await tool.finish();
    await compaction;
    if (kind === 'model is slow') await Bun.sleep(3000);
    answer.open();
    await this.#judge(machine, window, sent, kind);
    return window;
  }

  async #send(machine: Machine): Promise<{ id: string; text: string }> {
    this.#number += 1;
    this.#counts.messages += 1;
    const text = `drill message ${this.#number}.`;
    return { id: await machine.send(text, { fyi: this.#random() < 0.5 }), text };
  }

  /** A moment that does not come in time has passed: the fault falls then. */
  async #until(moment: (typeof MOMENTS)[number], machine: Machine, { id, text }: Sent): Promise<void> {
    if (moment === 'offered') await soon(MOMENT_MS, () => machine.has(id, 'offered'));
    if (moment === 'asked') await machine.model.saw(text, MOMENT_MS).catch(() => null);
  }

  async #happens(kind: (typeof FAULTS)[number], machine: Machine, window: Terminal): Promise<Terminal> {
    const resume = (): Promise<Terminal> => machine.run({ args: machine.prepared.resume(machine.session) });
    switch (kind) {
      case 'client killed':
        await machine.kill('all');
        return resume();
      case 'window killed':
        await machine.kill('window');
        return resume();
      case 'daemon killed':
        await machine.killDaemon();
        await machine.up();
        return window;
      case 'both killed':
        await Promise.all([machine.killDaemon(), machine.kill('all')]);
        if (this.#random() < 0.5) {
          await machine.up();
          return resume();
        }
        return Promise.all([resume(), machine.up()]).then(([opened]) => opened);
      case 'client left and started':
        // Its user closes the terminal.
        await window.close();
        await window.ended();
        return resume();
      case 'model refuses':
      case 'model is slow':
      case 'compaction':
        return window;
    }
  }

  /** Each message is proven, after a prompt of the user at the latest where the fault may need one; what is called shown was in a request, and none came twice. */
  async #judge(
    machine: Machine,
    window: Terminal,
    sent: readonly Sent[],
    kind: (typeof FAULTS)[number],
  ): Promise<void> {
    const isProven = (): Promise<boolean> => all(sent, ({ id }) => machine.has(id, 'shown'));
    const mayNeed = NEED_PROMPT.includes(kind);
    if (!(await soon(mayNeed ? PROVEN_MS : ENDS_MS, isProven))) {
      this.#counts.prompted += 1;
      this.tell(`run ${this.#counts.runs} (${kind}) needs a prompt of the user`);
      this.#faults.expect(mayNeed, `run ${this.#counts.runs} (${kind}): not proven without a prompt of the user`);
    }
    // One prompt may meet a model that still refuses.
    for (let prompts = 0; prompts < MOST_PROMPTS && !(await isProven()); prompts += 1) {
      await machine.prepared.ready(window);
      const before = machine.model.main.length;
      await window.submit('go on');
      await machine.model.request(before + 1, ENDS_MS);
      await machine.prepared.ready(window);
      await soon(PROVEN_MS, isProven);
    }
    await machine.prepared.ready(window);
    for (const one of sent) await this.#judgeOne(machine, one);
  }

  async #judgeOne(machine: Machine, { id, text, from, mayRepeat }: Sent): Promise<void> {
    const { state, receipts } = await machine.copy(id);
    const requests = machine.model.main.slice(from);
    const first = requests.find((request) => request.has(text));
    const shown = receipts.find(({ step }) => step === 'shown');
    const where = `run ${this.#counts.runs}: ${text}`;
    const story = receipts.map(({ step, evidence }) => `${step} ${JSON.stringify(evidence).slice(0, 160)}`).join(' → ');
    if (shown && !first) this.#faults.expect(false, `called shown, and in no request (${where})`);
    if (shown && first && Date.parse(shown.at) < first.at)
      this.#faults.expect(false, `called shown too early (${where})`);
    if (requests.some((request) => timesIn(request, id) > 1))
      this.#faults.expect(false, `twice in one request (${where}): ${story}`);
    const times = introductions(requests, text);
    if (times > 1) this.#counts.again += 1;
    if (times > 1 && !mayRepeat) this.#faults.expect(false, `given ${times} times (${where}): ${story}`);
    if (!first) this.#faults.expect(false, `lost: ${state}, and in no request (${where}): ${story}`);
    if (first && !shown) this.#counts.unproven += 1;
    if (first && !shown) this.tell(`unproven, ${state} (${where}): ${story}`);
  }
}

/** How often a text came into the conversation: a request has it, and the one before had not. */
function introductions(requests: Model['main'], text: string): number {
  const has = requests.map((request) => request.has(text));
  return has.filter((is, at) => is && !has[at - 1]).length;
}

async function all<T>(list: readonly T[], isSo: (one: T) => Promise<boolean>): Promise<boolean> {
  for (const one of list) if (!(await isSo(one))) return false;
  return true;
}

/** Whether it becomes so in this time. Each look starts a process. */
async function soon(ms: number, isSo: () => Promise<boolean>): Promise<boolean> {
  for (const end = Date.now() + ms; Date.now() < end; await Bun.sleep(100)) if (await isSo()) return true;
  return isSo();
}

/** Numbers from 0 to 1, the same ones for a seed (mulberry32). */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
