// Whatever sessions do in whatever order, mail is settled or waits, and is never shown twice without a mark.
import { afterAll, expect, it } from 'bun:test';
import fc from 'fast-check';
import type { MessageId } from '../../src/protocol/names.ts';
import { bodiesIn, contextIn, Hooks } from '../support/hooks.ts';
import { bob } from '../support/mail.ts';

const PLAYER = new URL('../support/hook-player.child.ts', import.meta.url).pathname;
const SESSIONS = ['s1', 's2', 's3'];
/** Events of Claude Code with the prompt that each belongs to; a prompt is the next one. */
const PROVING = ['PostToolUse', 'PostToolUseFailure', 'Stop', 'PostCompact'];
const EVENTS = [...PROVING, 'UserPromptSubmit', 'SessionStart', 'SessionEnd', 'SubagentTool'];

const Act = fc.oneof(
  { weight: 2, arbitrary: fc.record({ do: fc.constant('send' as const) }) },
  {
    weight: 8,
    arbitrary: fc.record({ do: fc.constant('event' as const), session: fc.nat(2), name: fc.constantFrom(...EVENTS) }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('leases run out' as const) }) },
);
type Act = typeof Act extends fc.Arbitrary<infer T> ? T : never;

/** One process that answers events, one line each. */
class Player {
  readonly #child;
  readonly #answers;

  constructor(hooks: Hooks) {
    this.#child = Bun.spawn([process.execPath, PLAYER], {
      cwd: hooks.user,
      env: { PATH: process.env['PATH'] ?? '', HOME: hooks.user },
      stdin: 'pipe',
      stdout: 'pipe',
      stderr: 'inherit',
    });
    this.#answers = this.#child.stdout.getReader();
  }

  async answer(event: object): Promise<string> {
    await this.#child.stdin.write(`${JSON.stringify({ client: 'claude', event })}\n`);
    await this.#child.stdin.flush();
    let out = '';
    while (!out.endsWith('\0\n')) {
      const { value, done } = await this.#answers.read();
      if (done) throw new Error('the player ended');
      out += Buffer.from(value).toString();
    }
    return contextIn(out.slice(0, -2));
  }

  close(): void {
    this.#child.kill();
  }
}

/** What the sessions of one machine did, and what each was shown. */
class Story {
  readonly prompts = new Map<string, number>();
  readonly sent: MessageId[] = [];
  /** For each message: by which session it was shown, whether it was marked, and whether its session proved it afterwards. */
  readonly shown = new Map<string, { session: string; marked: boolean; proven: boolean }[]>();

  constructor(
    readonly hooks: Hooks,
    readonly player: Player,
  ) {}

  async act(act: Act): Promise<void> {
    if (act.do === 'send') this.sent.push((await this.hooks.send({ body: `message ${this.sent.length}` })).id);
    else if (act.do === 'event') await this.event(SESSIONS[act.session] ?? '', act.name);
    else await this.leasesRunOut();
  }

  async event(session: string, name: string): Promise<void> {
    const sub = name === 'SubagentTool' ? { agent_id: 'a1' } : {};
    const hook_event_name = name === 'SubagentTool' ? 'PostToolUse' : name;
    if (name === 'UserPromptSubmit') this.prompts.set(session, (this.prompts.get(session) ?? 0) + 1);
    const prompt_id = `${session}-${this.prompts.get(session) ?? 0}`;
    const event = {
      ...this.hooks.event({ session_id: session, hook_event_name, prompt_id, source: 'startup' }),
      ...sub,
    };
    const text = await this.player.answer(event);
    if (PROVING.includes(name)) this.#proveAll(session);
    this.#note(session, text);
    await this.#check();
  }

  async leasesRunOut(): Promise<void> {
    const open = await this.hooks.mail.ledger.open(bob);
    const owners = new Set([...open.values()].flatMap(({ owner }) => owner ?? []));
    for (const owner of owners) await this.hooks.mail.ledger.renew(bob, owner, Date.now() - 1);
  }

  #proveAll(session: string): void {
    for (const all of this.shown.values()) for (const one of all) if (one.session === session) one.proven = true;
  }

  #note(session: string, text: string): void {
    for (const id of bodiesIn(text).keys()) {
      const header = text.split('\n').find((line) => line.includes(` message ${id} `)) ?? '';
      const marked = header.includes('redelivered');
      const before = this.shown.get(id) ?? [];
      if (before.length > 0) expect({ id, marked }).toEqual({ id, marked: true });
      this.shown.set(id, [...before, { session, marked, proven: false }]);
    }
  }

  async #check(): Promise<void> {
    for (const id of this.sent) {
      const copy = await this.hooks.mail.ledger.copy(bob, id);
      expect(copy?.state).toBeOneOf(['stored', 'held', 'settled']);
      if (copy?.state !== 'settled') continue;
      const shown = this.shown.get(id.slice(0, 8)) ?? [];
      expect(shown.some(({ session, proven }) => proven && session === copy.settledBy?.['session'])).toBe(true);
    }
  }

  /** In the end a new session is shown everything that still waits, and proves it. */
  async end(): Promise<void> {
    await this.leasesRunOut();
    await this.event('last', 'SessionStart');
    await this.event('last', 'UserPromptSubmit');
    for (let n = 0; n < 3; n += 1) await this.event('last', 'Stop');
    for (const id of this.sent) {
      expect(await this.hooks.mail.ledger.copy(bob, id)).toMatchObject({ state: 'settled' });
      expect(this.shown.get(id.slice(0, 8))?.[0]?.marked ?? 'never shown').toBe(false);
    }
  }
}

const players: Player[] = [];
afterAll(() => players.forEach((player) => player.close()));

it('mail is settled only where its session asked its model, and is otherwise shown again, marked', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(Act, { minLength: 10, maxLength: 40, size: 'max' }), async (acts) => {
      const hooks = await new Hooks().with('bob', 'alice');
      const player = new Player(hooks);
      players.push(player);
      const story = new Story(hooks, player);
      for (const act of acts) await story.act(act);
      await story.end();
      player.close();
    }),
    { numRuns: 25 },
  );
}, 300_000);
