// In every order of prompts, people, dialogs, deaths and crashes each prompt is typed at most once and gets its own answer.
import fc from 'fast-check';
import { expect, it } from 'bun:test';
import { quickFolder } from '../../../test/support/quick-home.ts';
import { aRequest, ControlRig } from '../../../test/support/scripted-session.ts';
import type { Attempt } from '../../../test/support/scripted-session.ts';
import { within } from '../../../test/support/within.ts';
import type { SessionMessage } from '../ports/session-store.ts';

const Act = fc.oneof(
  { weight: 6, arbitrary: fc.constant('prompt' as const) },
  { weight: 6, arbitrary: fc.constant('answer' as const) },
  { weight: 3, arbitrary: fc.constant('person' as const) },
  { weight: 3, arbitrary: fc.constant('crash' as const) },
  fc.constantFrom(
    'close',
    'interrupt',
    'die',
    'dialog',
    'draft',
    'unknown, and it went in',
    'unknown, and it did not',
    'slow',
  ),
);
/** What happens, and how many turns of the event loop pass before the next. */
const Story = fc.array(fc.record({ act: Act, pause: fc.nat(12) }), { minLength: 1, maxLength: 25 });
type Act = typeof Act extends fc.Arbitrary<infer T> ? T : never;

const echo = (text: string): string => `re: ${text}`;

class Play {
  readonly rig: ControlRig;
  #crash: () => void = () => {};
  #count = 0;
  /** The asks of this control. A crash leaves them without an end, and a control that is closing may refuse the last one. */
  #sends: Promise<unknown>[] = [];

  constructor(path: string) {
    this.rig = new ControlRig(path);
    Object.assign(this.rig.limits, { silenceMs: 10, lostMs: 40, retryMs: 1, sendMs: 1 });
  }

  async begin(): Promise<void> {
    this.#open();
    // From here on every turn of a person must be recorded.
    await within(10_000, async () => (await this.rig.store.binding('web'))?.place != null);
  }

  #open(): void {
    const { control, crash } = this.rig.openMortal();
    this.#crash = crash;
    this.#sends = [];
    void control.sessions().catch(() => {});
  }

  async act(act: Act): Promise<void> {
    const { rig } = this;
    const client = rig.client();
    const attempt = (one: Attempt): void => void client.attempts.push(one);
    switch (act) {
      case 'prompt':
        this.#count += 1;
        this.#sends.push(rig.control.send(aRequest(`prompt ${this.#count}`)));
        break;
      case 'person':
        this.#count += 1;
        if (client.state().status === 'idle') client.person(`person ${this.#count}`);
        break;
      case 'answer':
        this.#answer();
        break;
      case 'interrupt':
        if (client.turn !== null) client.interrupt();
        break;
      case 'die':
        client.die();
        break;
      case 'dialog':
        if (client.isRunning) client.set({ dialog: client.dialog === null ? 'permission prompt' : null });
        break;
      case 'draft':
        if (client.isRunning) client.set({ draft: client.draft === '' ? 'half a sent' : '' });
        break;
      case 'slow':
        client.submitGate = turns(5);
        break;
      case 'unknown, and it went in':
        return attempt({ outcome: 'unknown', wentIn: true });
      case 'unknown, and it did not':
        return attempt({ outcome: 'throws', wentIn: false });
      case 'crash':
        this.#crash();
        this.#open();
        break;
      case 'close':
        await Promise.all([rig.control.close(), Promise.allSettled(this.#sends)]);
        this.#open();
        break;
      default:
        act satisfies never;
    }
  }

  #answer(): void {
    const client = this.rig.client();
    const prompt = client.record.findLast(({ turn }) => turn === client.turn);
    if (client.turn !== null && prompt) client.answer(echo(prompt.text));
  }

  /** Removes everything that holds prompts up, and waits until every prompt has ended. */
  async finish(): Promise<void> {
    const client = this.rig.client();
    client.attempts.length = 0;
    client.reply = echo;
    client.set({ dialog: null, draft: '' });
    this.#answer();
    await Promise.all(this.#sends);
    await within(20_000, async () => (await this.rig.store.open()).length === 0);
    // The worker has now read the record to its end.
    await within(20_000, async () => (await this.rig.store.binding('web'))?.place === String(client.record.length));
  }

  async check(): Promise<void> {
    const { store } = this.rig;
    const { typed, record } = this.rig.client();
    const lines = await store.history({ session: 'web', after: 0, limit: 1000 });
    const sent = lines.filter(({ from }) => from === 'api');
    expect(typed).toEqual([...new Set(typed)]);
    expect(typed).toEqual(sent.map(({ text }) => text).filter((text) => typed.includes(text)));
    for (const line of sent) await this.#checkEnd(line);
    const said = record
      .filter(({ kind, text }) => kind === 'prompt' && text.startsWith('person'))
      .map(({ text }) => text);
    expect(lines.filter(({ from }) => from === 'human').map(({ text }) => text)).toEqual(said);
    const replies = lines.filter(({ from }) => from === 'claude');
    for (const { text, reply_to } of replies)
      expect(text).toBe(echo(lines.find(({ id }) => id === reply_to)?.text ?? ''));
    const ends = record.filter((event) => event.kind === 'end' && event.how === 'done').map(({ text }) => text);
    expect(replies.map(({ text }) => text).toSorted()).toEqual(ends.toSorted());
  }

  async #checkEnd({ id, text }: SessionMessage): Promise<void> {
    const state = (await this.rig.store.prompt(id))?.state;
    const turn = this.rig.client().record.find((event) => event.kind === 'prompt' && event.text === text)?.turn;
    const end = this.rig.client().record.find((event) => event.kind === 'end' && event.turn === turn);
    expect([text, state]).toEqual([text, end?.kind === 'end' && end.how === 'done' ? 'answered' : 'failed']);
  }
}

async function turns(count: number): Promise<void> {
  for (let n = 0; n < count; n += 1) await new Promise<void>((resolve) => setImmediate(resolve));
}

it('types every prompt at most once and in order, and stores the answer of each with it [CCC-49, CCC-60, CCC-157]', async () => {
  await fc.assert(
    fc.asyncProperty(Story, async (story) => {
      const play = new Play(`${quickFolder()}/ledger.db`);
      await play.begin();
      for (const { act, pause } of story) {
        await play.act(act);
        await turns(pause);
      }
      await play.finish();
      await play.check();
      await play.rig.close();
    }),
    { numRuns: Number(process.env['PARLEY_TEST_RUNS'] ?? 60), endOnFailure: false },
  );
});
