import { afterEach, describe, expect, it } from 'bun:test';
import { mkdirSync } from 'node:fs';
import { type ClaudeNoted, ClaudeTui } from '../../../test/support/claude-tui.ts';
import { within } from '../../../test/support/within.ts';
import type { SessionTarget } from '../../core/ports/session.ts';
import { ClaudeSessionDriver } from './session.ts';

const hasTmux = Bun.which('tmux') !== null;
const DEADLINE = 60_000;
const NEVER = new AbortController().signal;
const SESSIONS = 4;
const ROUNDS = 25;
/** The delay until the effect of a key is on the screen and in the client's records. */
const LAG_MS = 100;
/** Our keys come within this time. Parley sees earlier keys of the person before its own, and later ones after. */
const SPREAD_MS = 2400;

const opened: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of opened.splice(0).toReversed()) await one.close();
});

describe.skipIf(!hasTmux)(
  `answers beside a person at the keyboard${hasTmux ? '' : ' (skipped: tmux is not here)'}`,
  () => {
    it('press nothing into the next dialog, in 100 rounds [CCC-183]', async () => {
      const claude = new ClaudeTui();
      opened.push(claude);
      claude.starts({ lagMs: LAG_MS, ageMs: 60_000 });
      const seen = await Promise.all(Array.from({ length: SESSIONS }, (_, n) => rounds(claude, `app${n}`)));
      const outcomes = seen.flat();
      expect(outcomes).toHaveLength(SESSIONS * ROUNDS);
      // Each side was first in some rounds, so there was a race.
      expect(new Set(outcomes)).toEqual(new Set(['answered', 'gone']));
    }, 600_000);
  },
);

/** In each round a question is open, and a permission opens as soon as the question is closed. */
async function rounds(claude: ClaudeTui, name: string): Promise<string[]> {
  const driver = aDriver(claude, name);
  await driver.start();
  const person = await aPerson(claude, `=ccc-${name}`);
  const outcomes: string[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const options = [{ label: 'One' }, { label: 'Two' }];
    const question = { question: `Which, ${round}?`, header: 'Which', options, multiSelect: false };
    const script = { asks: [{ questions: [question] }, { permission: 'touch made' }] };
    const text = `${name} ${round} @@${JSON.stringify(script)}@@`;
    await within(DEADLINE, async () => {
      const { outcome } = await driver.submit({ key: 'k', text }, NEVER);
      return outcome !== 'left';
    });
    await within(DEADLINE, async () => (await driver.questions.open())?.questions[0]?.question === question.question);
    const open = await driver.questions.open();
    const { pid } = await driver.state();
    const before = claude.noted().length;
    const noted = (): ClaudeNoted[] =>
      claude
        .noted()
        .slice(before)
        .filter((one) => one.pid === pid);
    const answering = driver.questions.answer(open?.call ?? '', [{ options: [1] }], NEVER);
    // In half of the rounds exactly when our first key is seen.
    if (round % 2 === 0) await Bun.sleep(Math.random() * SPREAD_MS);
    else await within(DEADLINE, async () => noted().some(({ key }) => key === 'Down'));
    person.press('1');
    const { outcome } = await answering;
    outcomes.push(outcome);
    // The later one meets the permission. That must always be the person.
    if (outcome !== 'answered') person.press('3');
    await within(DEADLINE, async () => noted().filter(({ closed }) => closed).length === 2);
    const [first, permission] = noted().filter(({ closed }) => closed);
    const chosen = outcome === 'answered' ? 'Two' : 'One';
    expect(first).toMatchObject({ closed: open?.call, end: { answers: { [question.question]: chosen } } });
    expect(noted().flatMap(({ key, into }) => (into === permission?.closed ? key : []))).toEqual([
      outcome === 'answered' ? '1' : '3',
    ]);
    await within(DEADLINE, async () => (await driver.state()).status === 'idle');
  }
  return outcomes;
}

function aDriver(claude: ClaudeTui, name: string): ClaudeSessionDriver {
  const folder = `${claude.env['HOME']}/${name}`;
  mkdirSync(folder);
  const target: SessionTarget = {
    name,
    host: 'local',
    client: 'claude',
    folder,
    command: [claude.program],
    conversation: null,
    startTimeoutMs: DEADLINE,
  };
  const driver = new ClaudeSessionDriver(target, claude.env);
  opened.push(driver);
  return driver;
}

/** A person who is attached to the session in another terminal and presses keys there. */
async function aPerson(claude: ClaudeTui, session: string): Promise<{ press(keys: string): void }> {
  const child = Bun.spawn(['tmux', '-u', 'attach-session', '-t', session], {
    env: claude.env,
    terminal: { cols: 120, rows: 40, data: () => {} },
  });
  opened.push({
    close: async () => {
      child.kill();
      await child.exited;
    },
  });
  await within(DEADLINE, async () => (await claude.tmux('list-clients', '-t', session)).trim() !== '');
  return { press: (keys) => void child.terminal?.write(keys) };
}
