import type { Env } from '../../core/env.ts';
import { openWorkspace } from '../../daemon/homes.ts';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { command } from '../../core/command.ts';
import { isCompiled, ownCommand } from '../../platform/program.ts';
import { Refusal } from '../../core/refusal.ts';
import { codeOf } from '../../core/disk.ts';
import type { Trace } from '../../core/ports/journal.ts';
import type { Context } from '../context.ts';

const demoCommand = command({
  usage: 'demo',
  about:
    'Two scripted agents exchange a message in a fresh temporary home: it is sent, taken, answered and settled, and its trace is ' +
    'printed. Every command that is shown is really run. Nothing else on this machine is touched.',
  options: { keep: { type: 'boolean', help: 'keep the temporary home, to look around in it' } },
  examples: ['parley demo', 'parley demo --keep'],
  async run(context: Context, values) {
    const folder = temporaryFolder();
    const clean = (): void => {
      if (!values.keep) rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
    };
    const stop = new AbortController();
    const interrupt = (): void => stop.abort();
    process.once('SIGINT', interrupt).once('SIGTERM', interrupt);
    try {
      const stage = stageIn(folder, context.env);
      const results: unknown[] = [];
      for (const scene of SCENES) results.push(await play(context, stage, scene, stop.signal));
      const trace = await questionIn(stage);
      clean();
      if (!context.json) return end(context, trace, values.keep ? stage.PARLEY_HOME : undefined);
      const steps = SCENES.map(({ agent, words }, at) => ({
        agent,
        command: ['parley', ...withId(words, trace)],
        result: results[at],
      }));
      context.sayJson({ home: stage.PARLEY_HOME, kept: values.keep ?? false, steps, trace: results.at(-1) });
    } catch (error) {
      if (!stop.signal.aborted) throw error;
      process.exitCode = 130;
    } finally {
      clean();
    }
  },
});

function temporaryFolder(): string {
  try {
    return mkdtempSync(join(tmpdir(), 'parley-demo-'));
  } catch (error) {
    throw new Refusal(
      'storage_failed',
      `the demo needs a temporary folder, and ${tmpdir()} is none (${codeOf(error) ?? 'unknown'}); set TMPDIR to one`,
    );
  }
}

type Stage = Env & { HOME: string; PARLEY_HOME: string };

/** The surroundings of the two agents: of the user's own only what a terminal needs. */
function stageIn(folder: string, env: Env): Stage {
  const stage: Stage = {
    HOME: folder,
    PARLEY_HOME: join(folder, 'home'),
    BACKCHANNEL_HOME: join(folder, 'none'),
    BUN_RUNTIME_TRANSPILER_CACHE_PATH: '0',
  };
  for (const name of ['PATH', 'TERM', 'NO_COLOR', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR'])
    if (env[name] !== undefined) stage[name] = env[name];
  return stage;
}

/** Runs one command as one agent, in a process of its own. Its output is the reader's to see, or, for `--json`, the result. */
async function play(context: Context, stage: Stage, scene: Scene, signal: AbortSignal): Promise<unknown> {
  const question = scene.words.includes('<id>') ? await questionIn(stage) : null;
  const words = withId(scene.words, question);
  if (!context.json) {
    if (scene.about) context.say(`\n${context.paint.dim(`# ${scene.about}`)}`);
    context.say(`${context.paint.green(scene.agent)} $ parley ${words.map(quoted).join(' ')}`);
  }
  const child = Bun.spawn([...ownCommand(), ...words, ...(context.json ? ['--json'] : [])], {
    cwd: stage.HOME,
    signal,
    killSignal: 'SIGKILL',
    env: { ...stage, PARLEY_AGENT: scene.agent },
    stdio: ['ignore', context.json ? 'pipe' : 'inherit', 'inherit'],
  });
  const text = child.stdout ? await new Response(child.stdout).text() : '';
  const code = await child.exited;
  if (code !== 0)
    throw new Refusal(
      'storage_failed',
      `the demo stopped: \`parley ${words[0] ?? ''}\` ended with ${code}; see its message above`,
    );
  return context.json ? JSON.parse(text) : undefined;
}

/** The one question of the play, with what is proven of it. */
async function questionIn(stage: Env): Promise<Trace | null> {
  const [home] = openWorkspace(stage, { bodyLimit: 0, durability: 'normal' }).homes;
  const first = (await home?.journal.history({ limit: 10 }))?.at(-1);
  return first && home ? home.journal.trace(first.message.id) : null;
}

/** Says what the ledger proves, and what to type next. */
function end(context: Context, trace: Trace | null, kept: string | undefined): void {
  const [copy] = trace?.copies ?? [];
  if (copy?.state !== 'settled' || copy.disposition !== 'responded') {
    throw new Error(`the demo's question ended as ${copy?.disposition ?? copy?.state ?? 'nothing'}`);
  }
  const { bold } = context.paint;
  context.say('\nAsked, taken, answered, settled; no model took part, so nothing above says that one was shown it.');
  context.say(
    kept ? `The home is kept: PARLEY_HOME=${quoted(kept)} parley agents` : 'The temporary home is removed again.',
  );
  context.say(`\n${bold('Next:')}`);
  const here = Bun.which('parley', { PATH: context.env['PATH'] ?? '' }) !== null;
  const install = isCompiled()
    ? `${quoted(process.execPath)} self install`
    : 'npm run build && dist/parley self install';
  const next = [
    ...(here ? [] : [[install, 'put `parley` into ~/.local/bin']]),
    ['parley init <name>', 'make a mailbox of your own'],
    ['parley send @<name> "…"', 'write to an agent that has one'],
    ['parley help', 'everything else'],
  ];
  const width = Math.max(...next.map(([words = '']) => words.length)) + 3;
  for (const [words = '', about = ''] of next) context.say(`  ${words.padEnd(width)}${about}`);
}

function withId(words: readonly string[], trace: Trace | null): string[] {
  return words.map((word) => (word === '<id>' ? (trace?.message.id.slice(0, 8) ?? word) : word));
}

/** As one would type it in a shell. */
function quoted(word: string): string {
  return /^[\w@./:=-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
}

/** One thing that a scripted agent does: the words of a Parley command. `<id>` stands for the id of the question. */
interface Scene {
  /** What the reader is told before it. */
  about: string;
  agent: string;
  words: readonly string[];
}

const ASKS = 'planner';
const ANSWERS = 'builder';

/** The main job from beginning to end. The send must stay the only scene that makes the question. */
const SCENES: readonly Scene[] = [
  { about: 'Two agents make their mailboxes.', agent: ASKS, words: ['init', ASKS] },
  { about: '', agent: ANSWERS, words: ['init', ANSWERS] },
  {
    about: 'One asks the other. `stored` means: flushed to disk in the mailbox of the other.',
    agent: ASKS,
    words: ['send', `@${ANSWERS}`, 'Is it safe to run migration 42 twice?', '--intent', 'question', '--key', 'demo-1'],
  },
  {
    about: 'The same send once more, as after a crash: one key, one message.',
    agent: ASKS,
    words: ['send', `@${ANSWERS}`, 'Is it safe to run migration 42 twice?', '--intent', 'question', '--key', 'demo-1'],
  },
  {
    about: 'The other takes it and holds it while it works.',
    agent: ANSWERS,
    words: ['take', '--lease', '10m'],
  },
  { about: 'A second session of the same agent cannot get it meanwhile.', agent: ANSWERS, words: ['take'] },
  {
    about: 'It answers. That settles its copy of the question, and the answer is the evidence.',
    agent: ANSWERS,
    words: ['reply', '<id>', 'Yes: it checks its own mark first and stops there.'],
  },
  { about: 'The first one reads the answer.', agent: ASKS, words: ['drain'] },
  { about: 'What became of the question, step by step, with the evidence.', agent: ASKS, words: ['trace', '<id>'] },
];

export const commands = {
  demo: demoCommand,
};
