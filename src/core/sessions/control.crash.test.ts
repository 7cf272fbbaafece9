// The process that controls the sessions is killed, again and again, while it types and waits.
import { afterEach, expect, it } from 'bun:test';
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { seeded } from '../../../test/support/seeded.ts';
import { within } from '../../../test/support/within.ts';
import { openSqliteJournal } from '../../store/journal/sqlite.ts';
import type { TurnEvent } from '../ports/session.ts';

const CHILD = `${import.meta.dir}/../../../test/support/control.child.ts`;
const SESSIONS = ['web', 'api', 'docs', 'ops'];
const KILLS = 10;
/** How many prompts each process sends to each session. */
const PROMPTS = 3;

/** Decides when the process is killed and what goes wrong. A failure prints it, so that the run can be repeated. */
const SEED = Number(process.env['CONTROL_SEED'] ?? Math.floor(Math.random() * 2 ** 31));
const dice = seeded(SEED);

const folder = temporaryHome();
const path = `${folder}/ledger.db`;

function recordOf(session: string): TurnEvent[] {
  const lines = readFileSync(`${folder}/${session}.jsonl`, 'utf8').split('\n').slice(0, -1);
  return lines.map((line) => JSON.parse(line) as TurnEvent);
}

/** The clients answer every prompt, also while no control runs. */
function playClients(): () => void {
  const timer = setInterval(() => {
    for (const session of SESSIONS) {
      const last = recordOf(session).at(-1);
      if (last?.kind !== 'prompt' || dice() < 0.5) continue;
      const end = { kind: 'end', turn: last.turn, how: 'done', text: `re: ${last.text}`, at: Date.now() };
      appendFileSync(`${folder}/${session}.jsonl`, `${JSON.stringify(end)}\n`);
    }
  }, 3);
  return () => clearInterval(timer);
}

async function startControl(life: number): Promise<Bun.Subprocess<'pipe', 'pipe', 'inherit'>> {
  const program = [process.execPath, CHILD, path, folder, ...SESSIONS];
  const child = Bun.spawn(program, {
    env: { ...process.env, CONTROL_SEED: String(SEED + life) },
    stdin: 'pipe',
    stdout: 'pipe',
    stderr: 'inherit',
  });
  await child.stdout.getReader().read();
  return child;
}

afterEach(() => {
  if (!isDone) console.error(`CONTROL_SEED=${SEED}`);
});
let isDone = false;

it('answers every stored prompt in the history after each kill -9, and types none twice [CCC-49, CCC-54, CCC-84]', async () => {
  for (const session of SESSIONS) writeFileSync(`${folder}/${session}.jsonl`, '');
  const journal = openSqliteJournal({ path, durability: 'normal' });
  const store = journal.sessionStore();
  const stopClients = playClients();
  for (let life = 0; life <= KILLS; life += 1) {
    const child = await startControl(life);
    for (let n = 0; n < PROMPTS; n += 1) {
      for (const session of SESSIONS) {
        await child.stdin.write(`${JSON.stringify({ session, prompt: `${session} ${life} ${n}` })}\n`);
      }
    }
    await child.stdin.flush();
    if (life < KILLS) {
      await Bun.sleep(dice() * 60);
      child.kill('SIGKILL');
    } else {
      await within(50_000, async () => recordOf('ops').some(({ text }) => text === `re: ops ${life} ${PROMPTS - 1}`));
      await within(50_000, async () => (await store.open()).length === 0);
      await child.stdin.end();
    }
    await child.exited;
  }
  stopClients();
  let answered = 0;
  for (const session of SESSIONS) {
    const lines = await store.history({ session, after: 0, limit: 1000 });
    const sent = lines.filter(({ from }) => from === 'api');
    const typed = recordOf(session)
      .filter(({ kind }) => kind === 'prompt')
      .map(({ text }) => text);
    expect(typed).toEqual(sent.map(({ text }) => text));
    for (const { id, text } of sent) expect(await store.replyTo(id)).toMatchObject({ text: `re: ${text}` });
    expect(lines).toHaveLength(2 * sent.length);
    answered += sent.length;
  }
  expect(answered).toBeGreaterThanOrEqual(SESSIONS.length * PROMPTS);
  await journal.close();
  isDone = true;
});
