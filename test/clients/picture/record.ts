// Records a real run: Claude Code and Codex in two terminals, started with `parley run`, against scripted models. The
// screens are looked at all the time; each that is new is kept with the time at which it was there.
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { gridOf } from '../../../src/sessions/picture/grid.ts';
import type { Grid } from '../../../src/sessions/picture/grid.ts';
import { PARLEY, Program } from '../../support/program.ts';
import { aModel } from '../model/model.ts';
import { call, gate, say } from '../model/steps.ts';
import { aClaude } from '../support/claude.ts';
import type { Claude } from '../support/claude.ts';
import { aCodex } from '../support/codex.ts';
import { opens } from '../support/opened.ts';
import { aPlace } from '../support/place.ts';
import { aTerminal } from '../support/terminal.ts';
import type { Terminal } from '../support/terminal.ts';

export const SHAPE = { columns: 56, rows: 24 };
const LOOK_MS = 40;
/** As a person types. */
const KEY_MS = 45;
/** How long the scripted models seem to think. */
const THINK_MS = 1200;

/** A screen, and when it was seen first. */
export interface Frame {
  ms: number;
  grid: Grid;
}

/** What happens, for the words below the picture. */
export interface Event {
  ms: number;
  name: 'start' | 'asked' | 'woken' | 'answered' | 'read' | 'end';
}

export interface Recording {
  left: Frame[];
  right: Frame[];
  events: Event[];
  /** What `parley trace` says of the question at the end: each step that is proven. */
  steps: string[];
}

const PROMPT = 'Ask @codex.api if src/cart.ts is safe to merge.';
const QUESTION = 'Is src/cart.ts safe to merge?';
const ANSWER = 'Not yet: total() rounds each item, so three items can be one cent off. Round the sum once.';
const DONE = 'Codex says no: total() rounds each item. I will round the sum once.';

export async function record(): Promise<Recording> {
  const [left, right] = [opens(aModel([])), opens(aModel([]))];
  const whole = await aPlace();
  const place = { ...whole, project: `${whole.home}/api` };
  mkdirSync(place.project);
  const program = new Program(place.home);
  const [cc, cx] = [
    aClaude({
      place,
      model: left,
      settings: { permissions: { allow: ['mcp__parley__send'] }, spinnerTipsEnabled: false },
    }),
    aCodex({ place, model: right }),
  ];
  await seenBefore(cc);
  asInstalled(`${cx.folder}/config.toml`);
  const bin = `${place.home}/bin`;
  // Codex warns where it is missing. Nothing is run in it here.
  writeFileSync(`${bin}/bwrap`, '#!/bin/sh\n', { mode: 0o755 });
  symlinkSync(PARLEY, `${bin}/parley`);
  symlinkSync(cc.program, `${bin}/claude`);
  const shell = (env: Record<string, string>) =>
    aTerminal(place, ['env', '-u', 'TMUX', '-u', 'TMUX_PANE', 'sh'], {
      env: { ...env, PATH: `${bin}:${env['PATH']}`, PS1: '~/api $ ', PARLEY_NO_DAEMON: '', COLORTERM: 'truecolor' },
    });
  const [one, two] = [await shell(cc.env), await shell(cx.env)];
  for (const terminal of [one, two]) {
    await terminal.tmux('set-option', '-g', 'status', 'off');
    await terminal.tmux('resize-window', '-t', terminal.pane, '-x', String(SHAPE.columns), '-y', String(SHAPE.rows));
    await terminal.tmux('send-keys', '-t', terminal.pane, 'clear', 'Enter');
  }
  await Bun.sleep(500);
  const asks = gate();
  const thinks = gate();
  const reads = gate();
  left.script(
    call('mcp__parley__send', { to: '@codex.api', text: QUESTION, intent: 'question' }, asks.opened),
    say('I asked @codex.api.'),
    say(DONE, reads.opened),
  );
  right.script(say(ANSWER, thinks.opened));

  const began = performance.now();
  const events: Event[] = [];
  const happens = (name: Event['name']): number => events.push({ ms: performance.now() - began, name });
  const films = [new Film(one, began), new Film(two, began)] as const;
  happens('start');
  await Promise.all([types(one, 'parley run claude'), types(two, 'parley run codex')]);
  await one.shows(/│|❯/);
  await one.shows('shift+tab');
  await cx.ready(two);
  await Bun.sleep(1200);
  happens('asked');
  await types(one, PROMPT);
  await left.request(1);
  await Bun.sleep(THINK_MS);
  asks.open();
  await right.saw(QUESTION);
  happens('woken');
  await Bun.sleep(THINK_MS * 2);
  thinks.open();
  await left.saw(ANSWER);
  happens('answered');
  await Bun.sleep(THINK_MS * 2);
  reads.open();
  await one.shows('I will round');
  happens('read');
  await Bun.sleep(3000);
  happens('end');
  const recorded = await Promise.all(films.map((film) => film.end()));
  const steps = await provenSteps(program);
  await program.run(['down']);
  return { left: recorded[0] ?? [], right: recorded[1] ?? [], events, steps };
}

/** Codex with its usual permissions. */
function asInstalled(path: string): void {
  const text = readFileSync(path, 'utf8')
    .replace('approval_policy = "never"', 'approval_policy = "on-request"')
    .replace('sandbox_mode = "danger-full-access"', 'sandbox_mode = "workspace-write"');
  writeFileSync(path, text);
}

/** Claude Code explains its mode at the first start. */
async function seenBefore(code: Claude): Promise<void> {
  const terminal = await aTerminal(code.options.place, [code.program], { env: code.env });
  await terminal.shows('shift+tab');
  await Bun.sleep(2000);
  await terminal.close();
}

/** What is proven of the question. Its answer settles it. */
async function provenSteps(program: Program): Promise<string[]> {
  const history = await program.json<{ id: string; body: string }[]>(['history']);
  const id = history.find(({ body }) => body === QUESTION)?.id ?? '';
  const { copies } = await program.json<{ copies: Copy[] }>(['trace', id]);
  const steps = copies.flatMap(({ receipts, disposition }) => [
    'stored',
    ...receipts.map(({ step }) => step),
    ...(disposition === null ? [] : ['settled']),
  ]);
  return [...new Set(steps)];
}

interface Copy {
  receipts: { step: string }[];
  disposition: string | null;
}

async function types(terminal: Terminal, text: string): Promise<void> {
  for (const key of text) {
    await terminal.type(key);
    await Bun.sleep(KEY_MS);
  }
  await Bun.sleep(250);
  await terminal.keys('Enter');
}

/** Looks at a terminal until it is told to end. */
class Film {
  readonly #shots: { ms: number; text: string }[] = [];
  #isOn = true;
  readonly #ended: Promise<void>;

  constructor(
    readonly terminal: Terminal,
    readonly began: number,
  ) {
    this.#ended = this.#look();
  }

  async #look(): Promise<void> {
    while (this.#isOn) {
      const ms = performance.now() - this.began;
      const text = await this.terminal.tmux('capture-pane', '-e', '-p', '-N', '-t', this.terminal.pane);
      if (text !== this.#shots.at(-1)?.text) this.#shots.push({ ms, text });
      await Bun.sleep(LOOK_MS);
    }
  }

  async end(): Promise<Frame[]> {
    this.#isOn = false;
    await this.#ended;
    return Promise.all(this.#shots.map(async ({ ms, text }) => ({ ms, grid: await gridOf(text.replace(/\n$/, '')) })));
  }
}
