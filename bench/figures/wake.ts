import { clientStatePath } from '../../src/sessions/client-state.ts';
import { mkdirSync } from 'node:fs';
import { sentinel } from '../../src/protocols/c2c/envelope.ts';
import { Waker } from '../../src/delivery/wake.ts';
import type { Woken } from '../../src/delivery/wake.ts';
import type { AgentName } from '../../src/core/names.ts';
import type { Terminal } from '../../src/sessions/terminal.ts';
import { aMessage, LOUD } from '../../test/support/mail.ts';
import { notMeasured, spoken, within } from '../figure.ts';
import type { Bench, Row } from '../figure.ts';
import { BODY, openInboxes } from '../mailroom.ts';
import { summary } from '../measure.ts';
import { run } from '../program.ts';
import { linesOf, startAgent } from '../wake/agent.ts';
import type { Agent } from '../wake/agent.ts';
import { sharedClock } from '../wake/clock.ts';

const LIMIT_MS = 50;
const CLIENT = 'codex';
const BOB = 'bob' as AgentName;
const SESSION = 's-bob';

/**
 * The time from storing a message until its idle session is woken. A file event reports the mail; after the paste the loop reads the screen
 * until it shows the text.
 */
export async function wakeRows(bench: Bench): Promise<Row[]> {
  return [await handedRow(bench), ...(await tmuxRows(bench))];
}

const TEXT = 'arrival of a message until the wake’s text is in the program of an idle tmux pane, p99';
const ENTER = 'arrival of a message until the wake’s Enter is in the program of an idle tmux pane, p99';
const NOTE =
  'From the moment at which the inbox file has the message, before its sender is answered, to the moment at which the program in the pane ' +
  'reads it from its terminal. Real are the spool, the tmux server, and the compiled `c2c deliver-inbox --notify-only --loop` with its watch ' +
  'on the inbox and its checks of sign and screen. Scripted is the agent in the pane: it draws the composer of Codex at once. Enter waits ' +
  'until the screen shows the paste, so a real client adds the time that it takes to draw, and Kimi gets Enter 1.5 s after its paste.';

async function tmuxRows(bench: Bench): Promise<Row[]> {
  if (!Bun.which('tmux')) return [TEXT, ENTER].map((what) => missing(what, 'tmux is not installed'));
  const place = await aPlace(bench);
  try {
    const times = await wakes(place, bench.quick ? 60 : 300);
    return [rowOf(TEXT, times.text), rowOf(ENTER, times.enter)];
  } finally {
    await place.close();
  }
}

function rowOf(what: string, times: number[]): Row {
  const all = summary(times);
  return { ...within(what, all.p99, LIMIT_MS, 'ms'), ours: spoken(all), note: NOTE };
}

function missing(what: string, why: string): Row {
  return notMeasured(what, `${LIMIT_MS} ms`, 1, why);
}

interface Place {
  agent: Agent;
  inbox: Inbox;
  /** Resolves when the loop reports a wake. */
  woken: () => Promise<void>;
  close(): Promise<void>;
}

/** A broker, an agent in a pane, and the loop that wakes it. */
async function aPlace(bench: Bench): Promise<Place> {
  const home = bench.fresh();
  const root = `${home}/broker`;
  const env = { PATH: process.env['PATH'] ?? '', HOME: home, C2C_MCP_BROKER_ROOT: root };
  const c2c = [bench.program(), 'c2c'];
  run([...c2c, 'register', BOB, '--session-id', SESSION], env);
  const signs = `${home}/.local/share/c2c/signs`;
  mkdirSync(signs, { recursive: true });
  const agent = await startAgent(home, clientStatePath(signs, SESSION));
  const where = ['--session-id', SESSION, '--client', CLIENT, '--terminal', agent.terminal];
  const words = ['deliver-inbox', '--notify-only', '--loop', '--min-inject-gap', '0', ...where];
  const loop = Bun.spawn([...c2c, ...words], { env, cwd: home, stdio: ['ignore', 'ignore', 'pipe'] });
  const lines = linesOf(loop.stderr);
  const until = async (word: string): Promise<void> => {
    for (let line = ''; !line.includes(word);) {
      const next = await lines.next();
      if (next.done) throw new Error(`the loop ended: ${line}`);
      line = next.value;
    }
  };
  await until('wake_started');
  const inbox = new Inbox(root);
  const close = async (): Promise<void> => {
    loop.kill('SIGTERM');
    await loop.exited;
    await inbox.close();
    await agent.close();
  };
  return { agent, inbox, woken: () => until('wake_woken'), close };
}

/** The inbox of the session. Sends and takes its mail. */
class Inbox {
  readonly #open: ReturnType<typeof openInboxes>;
  #arrivedAt = 0;

  constructor(root: string) {
    const names = { fileOf: () => SESSION, mailboxes: () => [BOB] };
    this.#open = openInboxes(root, names, (step) => {
      if (step === 'S2 appended one') this.#arrivedAt = sharedClock();
    });
  }

  /** Stores a message and returns the time at which it was in the inbox. */
  async send(): Promise<number> {
    const message = aMessage({ to: `@${BOB}`, body: BODY });
    await this.#open.mailboxes.put({ message, copies: [{ mailbox: BOB, attention: LOUD }] });
    return this.#arrivedAt;
  }

  /** Takes the mail as the woken session does. */
  async takeAll(): Promise<void> {
    const claim = await this.#open.mailboxes.claim(BOB, await this.#open.mailboxes.ids(BOB), { ms: 10_000 });
    const ids = claim.copies.map(({ message }) => message.id);
    await this.#open.mailboxes.settle(claim, ids, { disposition: 'acknowledged', by: { by: 'bench' } });
  }

  async close(): Promise<void> {
    await this.#open.journal.close();
  }
}

async function wakes({ agent, inbox, woken }: Place, count: number): Promise<{ text: number[]; enter: number[] }> {
  const [text, enter]: [number[], number[]] = [[], []];
  // The first wakes are not counted: Bun compiles the code meanwhile.
  for (let n = -Math.ceil(count / 10); n < count; n += 1) {
    const [pasted, entered, idle] = [agent.says('pasted'), agent.says('entered'), agent.says('idle')];
    const heard = woken();
    const arrivedAt = await inbox.send();
    const [got, ended] = await soon(Promise.all([pasted, entered]));
    if (got.text !== sentinel(CLIENT)) throw new Error(`something else was pasted: ${got.text}`);
    if (n >= 0) {
      // The loop may wake the session before the sender returns, which first releases the lock of the inbox.
      text.push(Math.max(0, got.at - arrivedAt));
      enter.push(Math.max(0, ended.at - arrivedAt));
    }
    await Promise.all([idle, heard]);
    await inbox.takeAll();
    // The loop sees that too and becomes idle. In real use there are 15 s between two wakes of one session.
    await Bun.sleep(60 + Math.random() * 60);
  }
  return { text, enter };
}

/** Waits for a wake. A missing wake is an error, not a figure. */
async function soon<T>(comes: Promise<T>): Promise<T> {
  const late = AbortSignal.timeout(30_000);
  const { promise, reject } = Promise.withResolvers<never>();
  late.addEventListener('abort', () => reject(new Error('the session was not woken within 30 s')));
  return Promise.race([comes, promise]);
}

/** The same without a terminal, up to the moment at which a wake would be typed. */
async function handedRow(bench: Bench): Promise<Row> {
  const root = bench.fresh();
  const { mailboxes, journal } = openInboxes(root, { fileOf: (mailbox) => mailbox, mailboxes: () => [BOB] });
  let typed = Promise.withResolvers<number>();
  const terminal: Terminal = {
    name: 'bench',
    tty: null,
    screen: async () => null,
    paste: async () => typed.resolve(Bun.nanoseconds()),
    enter: async () => {},
    erase: async () => {},
    close: async () => {},
  };
  let known: Woken = { ids: [], at: 0 };
  const waker = new Waker({
    sentinel: sentinel(CLIENT),
    terminal,
    typing: (one) => ({
      name: 'terminal',
      attempt: async ([parcel]) => {
        await one.paste(parcel?.text ?? '');
        return { outcome: 'offered', evidence: {} };
      },
    }),
    waits: async () => ({ ids: await mailboxes.ids(BOB, true), againMs: null }),
    notes: { read: () => known, write: (woken) => (known = { ...woken, at: 0 }) },
    gapMs: 0,
    now: Date.now,
    onWoken: async () => {},
    onLeft: () => {},
  });
  const stop = new AbortController();
  let looking = Promise.resolve<unknown>(undefined);
  const watch = mailboxes.watch(BOB, () => {
    looking = looking.then(() => waker.look(stop.signal));
  });
  const times: number[] = [];
  for (let n = 0; n < (bench.quick ? 60 : 400); n += 1) {
    typed = Promise.withResolvers();
    await mailboxes.put({ message: aMessage({ to: BOB, body: BODY }), copies: [{ mailbox: BOB, attention: LOUD }] });
    const stored = Bun.nanoseconds();
    times.push(Math.max(0, ((await typed.promise) - stored) / 1e6));
    await looking;
  }
  watch.close();
  await journal.close();
  const what = 'arrival of a message until its wake is handed to a stand-in for the terminal, p99';
  return within(what, summary(times).p99, LIMIT_MS, 'ms');
}
