// Whatever sessions do in whatever order: mail is never lost, never settled without proof, never shown twice without a mark, and what a
// guard keeps never prolongs a turn.
import fc from 'fast-check';
import { afterAll, expect, it } from 'bun:test';
import { HookEvent, isCompaction } from '../../src/delivery/hook-event.ts';
import { release } from '../../src/core/mail/settle.ts';
import { takeOne } from '../../src/core/mail/deliver.ts';
import type { Attention } from '../../src/core/attention/attention.ts';
import type { MessageId } from '../../src/core/names.ts';
import { contextIn, Hooks } from '../support/hooks.ts';
import { bob, LOUD } from '../support/mail.ts';

const PLAYER = new URL('../support/hook-player.child.ts', import.meta.url).pathname;
const SESSIONS = ['s1', 's2', 's3'];
/** Events of Claude Code with the prompt that each belongs to; a prompt is the next one. `Compacted` is a start after a compaction. */
const PROVING = ['PostToolUse', 'PostToolUseFailure', 'Stop', 'PostCompact', 'Compacted'];
/** At these, what is owed is repeated after a compaction. */
const REPEATING = ['UserPromptSubmit', 'PostToolUse', 'PostToolUseFailure'];
const EVENTS = [...PROVING, 'UserPromptSubmit', 'SessionStart', 'SessionEnd', 'SubagentTool'];

const LONG = 'long '.repeat(2_400);
const KEPT: Attention = { ...LOUD, policy: 'must_not_respond', injection: 'digest', reason: 'loop' };
const MAIL = {
  short: { attention: LOUD, body: 'short' },
  long: { attention: LOUD, body: LONG },
  knock: { attention: { ...LOUD, policy: 'may_respond', injection: 'notify' }, body: 'knock' },
  kept: { attention: KEPT, body: 'kept' },
  'long kept': { attention: KEPT, body: LONG },
} satisfies Record<string, { attention: Attention; body: string }>;
type Kind = keyof typeof MAIL;
const KINDS = Object.keys(MAIL) as Kind[];

const Act = fc.oneof(
  { weight: 3, arbitrary: fc.record({ do: fc.constant('send' as const), kind: fc.constantFrom(...KINDS) }) },
  {
    weight: 8,
    arbitrary: fc.record({ do: fc.constant('event' as const), session: fc.nat(2), name: fc.constantFrom(...EVENTS) }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('release' as const, 'take' as const), which: fc.nat() }) },
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
      env: { PATH: process.env['PATH'] ?? '', HOME: hooks.user, PARLEY_NO_DAEMON: '1' },
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

/** A message in a text: as a whole, or by a sign that leaves it waiting. */
interface Shown {
  session: string;
  sign: boolean;
  marked: boolean;
  /** Its session has proven afterwards that its model was asked. */
  proven: boolean;
  /** Its reader has given it back afterwards. */
  released: boolean;
}

/** What the sessions of one machine did, and what each was shown. */
class Story {
  readonly prompts = new Map<string, number>();
  readonly sent = new Map<MessageId, Kind>();
  readonly shown = new Map<MessageId, Shown[]>();
  /** What another reader took. */
  readonly taken = new Set<MessageId>();
  /** Sessions that had a compaction, after which nothing was repeated yet. */
  readonly compacted = new Set<string>();

  constructor(
    readonly hooks: Hooks,
    readonly player: Player,
  ) {}

  async act(act: Act): Promise<void> {
    if (act.do === 'send') await this.send(act.kind);
    else if (act.do === 'event') await this.event(SESSIONS[act.session] ?? '', act.name);
    else if (act.do === 'release') await this.release(act.which);
    else if (act.do === 'take') await this.take(act.which);
    else await this.leasesRunOut();
  }

  async send(kind: Kind): Promise<void> {
    const { attention, body } = MAIL[kind];
    this.sent.set((await this.hooks.send({ body }, 'bob', attention)).id, kind);
  }

  async event(session: string, name: string): Promise<void> {
    const sub = name === 'SubagentTool' ? { agent_id: 'a1' } : {};
    const hook_event_name = { SubagentTool: 'PostToolUse', Compacted: 'SessionStart' }[name] ?? name;
    const source = name === 'Compacted' ? 'compact' : 'startup';
    if (name === 'UserPromptSubmit') this.prompts.set(session, (this.prompts.get(session) ?? 0) + 1);
    const prompt_id = `${session}-${this.prompts.get(session) ?? 0}`;
    const event = { ...this.hooks.event({ session_id: session, hook_event_name, prompt_id, source }), ...sub };
    const owed = REPEATING.includes(name) && this.compacted.delete(session) ? await this.#owedBy(session) : [];
    const text = await this.player.answer(event);
    for (const id of owed) expect(text).toContain(` ${id.slice(0, 8)} from `);
    if (isCompaction(HookEvent.parse(event))) this.compacted.add(session);
    if (PROVING.includes(name)) this.#proveAll(session);
    await this.#note(session, name, text);
    await this.#check();
  }

  /** What must be answered and was shown to this session, whole or by a pointer. */
  async #owedBy(session: string): Promise<MessageId[]> {
    const owed: MessageId[] = [];
    for (const [id, kind] of this.sent) {
      const copy = await this.hooks.mail.journal.copy(bob, id);
      const isPointed = kind === 'long' && this.shown.get(id)?.some((one) => one.session === session);
      if (this.taken.has(id)) continue;
      if (isPointed || (kind === 'short' && copy?.settledBy?.['session'] === session)) owed.push(id);
    }
    return owed;
  }

  /** The reader gives back one of the messages that its sessions were shown. */
  async release(which: number): Promise<void> {
    const held = [...(await this.hooks.mail.journal.open(bob)).values()].filter(({ owner }) => owner !== null);
    const copy = held[which % Math.max(1, held.length)];
    if (!copy) return;
    await release({ name: bob, home: this.hooks.mail }, copy.id, { by: 'release' });
    for (const one of this.shown.get(copy.id) ?? []) one.released = true;
  }

  /** Another reader of the mailbox takes one of the messages that wait. */
  async take(which: number): Promise<void> {
    const waiting = await this.hooks.mail.mailboxes.ids(bob);
    const id = waiting.toSorted()[which % Math.max(1, waiting.length)];
    if (id && (await takeOne({ name: bob, home: this.hooks.mail }, id, { by: 'take' }))) this.taken.add(id);
  }

  async leasesRunOut(): Promise<void> {
    const open = await this.hooks.mail.journal.open(bob);
    const owners = new Set([...open.values()].flatMap(({ owner }) => owner ?? []));
    for (const owner of owners) await this.hooks.mail.mailboxes.renew({ mailbox: bob, owner }, { ms: -1 });
  }

  #proveAll(session: string): void {
    for (const all of this.shown.values()) {
      for (const one of all) if (one.session === session && !one.released) one.proven = true;
    }
  }

  async #note(session: string, event: string, text: string): Promise<void> {
    const lines = text.split('\n').filter((line) => /^\[parley \w+\] (message|long message|knock) /.test(line));
    const inText = new Set<MessageId>();
    for (const line of lines) {
      const id = [...this.sent.keys()].find((one) => line.includes(` ${one.slice(0, 8)} from `));
      if (!id) throw new Error(`nobody sent this: ${line}`);
      expect(inText.has(id)).toBe(false);
      inText.add(id);
      const before = this.shown.get(id) ?? [];
      const marked = line.includes('redelivered');
      expect({ id, marked }).toEqual({ id, marked: before.length > 0 });
      const sign = !/^\[parley \w+\] message /.test(line);
      this.shown.set(id, [...before, { session, sign, marked, proven: false, released: false }]);
      await this.#checkPlace(id, session, event);
    }
    if (event === 'Stop' && text !== '') expect([...inText].some((id) => this.sent.get(id) !== 'knock')).toBe(true);
  }

  /** What a guard keeps comes with a prompt only; what is repeated after a compaction was this session's, and prolongs no turn. */
  async #checkPlace(id: MessageId, session: string, event: string): Promise<void> {
    if (MAIL[this.sent.get(id) ?? 'short'].attention === KEPT) expect(event).toBe('UserPromptSubmit');
    const copy = await this.hooks.mail.journal.copy(bob, id);
    if (copy?.state !== 'settled') return;
    expect({ event, session }).not.toMatchObject({ event: 'Stop' });
    expect(copy.settledBy).toMatchObject({ session });
  }

  async #check(): Promise<void> {
    for (const id of this.sent.keys()) {
      const copy = await this.hooks.mail.journal.copy(bob, id);
      expect(copy?.state).toBeOneOf(['stored', 'held', 'settled']);
      if (copy?.state !== 'settled' || this.taken.has(id)) continue;
      const whole = (this.shown.get(id) ?? []).filter(({ sign }) => !sign);
      expect(whole.some(({ session, proven }) => proven && session === copy.settledBy?.['session'])).toBe(true);
    }
  }

  /** In the end every session ends, and a new one is shown everything that nobody has proven, and proves it. */
  async end(): Promise<void> {
    await this.leasesRunOut();
    for (const session of SESSIONS) await this.event(session, 'SessionEnd');
    await this.event('last', 'SessionStart');
    for (let n = 0; n < 4; n += 1) {
      await this.event('last', 'UserPromptSubmit');
      await this.event('last', 'Stop');
    }
    for (const id of this.sent.keys()) {
      if (this.taken.has(id)) continue;
      const shown = this.shown.get(id) ?? [];
      expect({ id, proven: shown.some(({ proven }) => proven) }).toEqual({ id, proven: true });
      const state = shown.some(({ sign }) => sign) ? 'stored' : 'settled';
      expect(await this.hooks.mail.journal.copy(bob, id)).toMatchObject({ state });
    }
  }
}

const players: Player[] = [];
afterAll(() => players.forEach((player) => player.close()));

it('no mail is lost, settled without proof or shown twice without a mark, and guard mail prolongs no turn', async () => {
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
    { numRuns: 40 },
  );
}, 300_000);
