import { cpSync } from 'node:fs';
import { SendKey } from '../../src/core/names.ts';
import type { MessageId } from '../../src/core/names.ts';
import type { Entry } from '../../src/core/ports/journal.ts';
import { temporaryHome } from './home.ts';
import { anEntry, bob, carol, LOUD, QUIET } from './mail.ts';

/** What a child process said before it ended or died. */
export interface Said {
  steps: string[];
  stored: MessageId[];
  shown: { id: MessageId; attempt: number }[];
  settled: MessageId[];
  held: MessageId[];
  /** False if it ended by itself. */
  died: boolean;
}

interface Order {
  home: string;
  act: 'heal' | 'square' | 'send' | 'take' | 'keep' | 'drain' | 'hold' | 'holdAll' | 'release' | 'withdraw' | 'raise';
  /** Die at this step, at its nth time. */
  step?: string;
  nth?: number;
  keys?: string[];
  env?: Record<string, string>;
}

export interface Child {
  /** Resolves when the child has said a line that holds this word. */
  saying(word: string): Promise<void>;
  /** Lets a waiting child continue. */
  goOn(): void;
  kill(): void;
  ended: Promise<Said>;
}

/** Starts a process that works in a home. */
export function start({ home, act, step = '', nth = 1, keys = [], env = {} }: Order): Child {
  const program = [process.execPath, `${import.meta.dir}/crash.child.ts`, home, act, step, String(nth), ...keys];
  const child = Bun.spawn(program, {
    stdin: 'pipe',
    stdout: 'pipe',
    stderr: 'inherit',
    env: { ...process.env, ...env },
  });
  let heard = '';
  let listener = (): void => {};
  const listening = (async () => {
    const decoder = new TextDecoder();
    for await (const chunk of child.stdout) {
      heard += decoder.decode(chunk, { stream: true });
      listener();
    }
  })();
  return {
    saying: (word) =>
      new Promise((resolve, reject) => {
        listener = () => heard.includes(`"${word}"`) && resolve();
        listener();
        void listening.then(() => reject(new Error(`the child ended without saying ${word}: ${heard}`)));
      }),
    goOn: () => {
      void child.stdin.write('\n');
      void child.stdin.flush();
    },
    kill: () => child.kill('SIGKILL'),
    ended: (async () => {
      await listening;
      const code = await child.exited;
      if (code !== 0 && child.signalCode !== 'SIGKILL') throw new Error(`the child failed (${code})`);
      return understood(heard, child.signalCode === 'SIGKILL');
    })(),
  };
}

/** Runs a process in a home to its end, or to its death. */
export async function run(order: Order): Promise<Said> {
  return start(order).ended;
}

/** Each step of an act with its number, from a run in which nobody dies. */
export async function stepsOf(order: Order): Promise<[step: string, nth: number][]> {
  const { steps } = await run(order);
  return steps.map((step, at) => [step, steps.slice(0, at + 1).filter((one) => one === step).length]);
}

/** Whether a step comes at or after another in its act. */
export function isFrom(steps: [step: string, nth: number][], first: string, [step, nth]: [string, number]): boolean {
  const at = steps.findIndex(([name, n]) => name === step && n === nth);
  return at >= steps.findIndex(([name]) => name === first);
}

/** What the child sends under this key. */
export function entryFor(key: string): Entry {
  const copies = [
    { mailbox: bob, attention: LOUD },
    { mailbox: carol, attention: QUIET },
  ];
  return anEntry({ to: '#dev', body: 'x'.repeat(100) }, { key: SendKey.parse(key), copies });
}

const made = new Map<string, string>();
/** A home like one that was made before: copying is cheaper than making. */
export async function homeLike(name: string, make: () => Promise<string>): Promise<string> {
  const first = made.get(name) ?? (await make());
  made.set(name, first);
  const home = temporaryHome();
  cpSync(first, home, { recursive: true });
  return home;
}

function understood(heard: string, died: boolean): Said {
  const facts = heard
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line));
  const all = (name: string): MessageId[] => facts.flatMap((fact) => fact[name] ?? []);
  return {
    steps: facts.flatMap((fact) => fact.step ?? []),
    stored: all('stored'),
    shown: facts.filter((fact) => fact.shown).map((fact) => ({ id: fact.shown, attempt: fact.attempt })),
    settled: all('settled'),
    held: all('held'),
    died,
  };
}
