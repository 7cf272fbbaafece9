// Control of sessions in a process that a test kills: `control.child.ts <ledger.db> <folder> <name> …`. Each session is a file
// `<folder>/<name>.jsonl`, to which this process appends the prompts, and the test, as the client, the ends of their turns. Each line on
// standard input is a prompt as JSON. Says `ready` when it takes them, and ends with its input. CONTROL_SEED decides what goes wrong.
import { appendFileSync, readFileSync, statSync, writeSync } from 'node:fs';
import { openControl } from '../../src/core/sessions/control.ts';
import type { RecordPlace, SessionDriver, SessionState, Submission, TurnEvent } from '../../src/core/ports/session.ts';
import { openSqliteJournal } from '../../src/store/journal/sqlite.ts';
import { aRequest, aTarget } from './scripted-session.ts';
import { seeded } from './seeded.ts';

const [, , path = '', folder = '', ...names] = process.argv;
const LOOK_MS = 2;
/** Long enough for the test to kill this process between two steps. */
const STEP_MS = 4;
const dice = seeded(Number(process.env['CONTROL_SEED']));

class FileDriver implements SessionDriver {
  constructor(readonly file: string) {}

  async state(): Promise<SessionState> {
    return { status: this.#all().at(-1)?.kind === 'prompt' ? 'active' : 'idle', conversation: this.file, pid: 1 };
  }

  watch(changed: () => void): () => void {
    let size = 0;
    const look = (): void => {
      const now = statSync(this.file).size;
      if (now !== size) changed();
      size = now;
    };
    const timer = setInterval(look, LOOK_MS);
    return () => clearInterval(timer);
  }

  prepare(text: string): string {
    return text;
  }

  async place(): Promise<RecordPlace> {
    return String(this.#all().length);
  }

  async events(since: RecordPlace): Promise<{ events: TurnEvent[]; next: RecordPlace }> {
    const all = this.#all();
    return { events: all.slice(Number(since)), next: String(all.length) };
  }

  isOurs(event: TurnEvent, prompt: { text: string }): boolean {
    return event.kind === 'prompt' && event.text === prompt.text;
  }

  async submit({ text }: { text: string }): Promise<Submission> {
    await Bun.sleep(dice() * STEP_MS);
    if ((await this.state()).status !== 'idle') return { outcome: 'left', because: 'busy', retry: true };
    const event: TurnEvent = { kind: 'prompt', turn: crypto.randomUUID(), text, at: Date.now() };
    appendFileSync(this.file, `${JSON.stringify(event)}\n`);
    await Bun.sleep(dice() * STEP_MS);
    return dice() < 0.3 ? { outcome: 'unknown', because: 'so the test wants' } : { outcome: 'submitted' };
  }

  async start(): Promise<never> {
    throw new Error('it always runs');
  }

  async stop(): Promise<void> {}

  async screen(): Promise<string> {
    return '';
  }

  async saveFile(): Promise<string> {
    return '';
  }

  async close(): Promise<void> {}

  /** Whole lines only: the test may be writing the last one. */
  #all(): TurnEvent[] {
    const lines = readFileSync(this.file, 'utf8').split('\n').slice(0, -1);
    return lines.map((line) => JSON.parse(line) as TurnEvent);
  }
}

const journal = openSqliteJournal({ path, durability: 'normal' });
const control = openControl({
  store: journal.sessionStore(),
  targets: async () => names.map((name) => aTarget(name)),
  driver: ({ name }) => new FileDriver(`${folder}/${name}.jsonl`),
  publish: async () => {},
  recordsTerminal: async () => true,
  now: Date.now,
  log: () => {},
  limits: { silenceMs: 30 },
});
await control.sessions();
writeSync(1, 'ready\n');
let text = '';
for await (const chunk of Bun.stdin.stream()) {
  const lines = (text + Buffer.from(chunk).toString()).split('\n');
  text = lines.pop() ?? '';
  for (const line of lines) {
    const { session, prompt } = JSON.parse(line) as { session: string; prompt: string };
    void control.send(aRequest(prompt, { session }));
  }
}
await control.close();
await journal.close();
process.exit(0);
