import { describe, expect, it } from 'bun:test';
import { BODY_LIMIT } from '../../src/core/message.ts';
import { raiseLate } from '../../src/core/obligations/tick.ts';
import { openWorkspace } from '../../src/daemon/homes.ts';
import { PARLEY, Program } from '../support/program.ts';
import { within } from '../support/within.ts';

interface Sent {
  id: string;
  copies: { mailbox: string; attention: { policy: string; injection: string } }[];
}
interface Owed {
  duties: {
    id: string;
    mailbox: string;
    from: string;
    state: string;
    note: string | null;
    message: { body: string };
  }[];
  count: number;
  more: boolean;
  next: string | null;
}
interface Reacted {
  reaction: string;
  disposition: string | null;
  final: boolean;
}

/** Two agents and a person. Ada asks codex something that it must answer. */
async function asked(...more: string[]): Promise<Program & { id: string }> {
  const parley = new Program();
  await parley.byPerson(['init', 'ada', '--human', '--owner']);
  await parley.init('codex', 'claude');
  const { id } = await parley.json<Sent>(['send', '@codex', 'is the deploy blocked?', ...more]);
  return Object.assign(parley, { id });
}

async function owes(parley: Program, as = 'codex'): Promise<string[]> {
  return (await parley.json<Owed>(['owe'], { as })).duties.map(({ id }) => id);
}

describe('what is owed', () => {
  it('is told to who owes it and to who waits for it, by one command each, from any process [C2A-N19]', async () => {
    const parley = await asked();
    expect(await parley.json<Owed>(['owe'], { as: 'codex' })).toMatchObject({
      duties: [{ id: parley.id, mailbox: 'codex', from: 'ada', message: { body: 'is the deploy blocked?' } }],
      count: 1,
      more: false,
      next: null,
    });
    const words = await parley.run(['owe'], { as: 'codex' });
    expect(words.out).toStartWith(`${parley.id.slice(0, 8)}  for @ada  just now`);
    expect(words.err).toContain('parley reply <id>');
    expect((await parley.json<Owed>(['owe', '--blocking'])).duties.map(({ id }) => id)).toEqual([parley.id]);
    expect((await parley.run(['owe', '--blocking'])).out).toContain('@codex owes you');
    expect((await parley.run(['owe'])).out).toBe('you owe nothing\n');
    expect((await parley.run(['owe', '--blocking'], { as: 'codex' })).out).toBe('nobody owes you anything\n');
    // Anyone who asks first.
    expect((await (await asked()).json<Owed>(['owe', '--blocking'])).count).toBe(1);
  });

  it('stays owed when it was only shown, and ends with an answer', async () => {
    const parley = await asked();
    await parley.run(['drain'], { as: 'codex' });
    expect(await owes(parley)).toEqual([parley.id]);
    await parley.run(['reply', parley.id, 'no, it went out at nine'], { as: 'codex' });
    expect(await owes(parley)).toEqual([]);
  });

  it('for work that stands still is discharged by its sender or delegate alone, whatever its reader says [C2A-N10]', async () => {
    const parley = await asked('--blocks', 'halted', '--or-else', 'I keep it', '--delegate', '@claude');
    await parley.run(['reply', parley.id, 'no, it is free'], { as: 'codex' });
    await parley.run(['react', parley.id, 'done'], { as: 'codex' });
    expect(await owes(parley)).toEqual([parley.id]);
    const done = await parley.run(['react', parley.id, 'done', '--for', '@codex'], { as: 'claude' });
    expect(done.code).toBe(0);
    expect(await owes(parley)).toEqual([]);
    const alone = await parley.run(['send', '@codex', 'hm', '--or-else', 'I keep it']);
    expect(alone).toMatchObject({ code: 64, err: expect.stringContaining('--blocks halted, degraded or none') });
  });

  it('is shown a page at a time, the oldest first', async () => {
    const parley = await asked();
    const ids = [parley.id];
    for (const n of [2, 3]) ids.push((await parley.json<Sent>(['send', '@codex', `question ${n}?`])).id);
    const first = await parley.json<Owed>(['owe', '--limit', '2'], { as: 'codex' });
    expect(first.duties.map(({ id }) => id)).toEqual(ids.slice(0, 2));
    expect(first).toMatchObject({ count: 3, more: true });
    const second = await parley.json<Owed>(['owe', '--after', first.next ?? ''], { as: 'codex' });
    expect(second.duties.map(({ id }) => id)).toEqual(ids.slice(2));
    const bad = await parley.run(['owe', '--after', 'there'], { as: 'codex' });
    expect(bad).toMatchObject({ code: 64, err: expect.stringMatching(/^parley: --after needs .*\n$/) });
  });

  it('stands in the trace beside its copy', async () => {
    const parley = await asked();
    await parley.run(['drain'], { as: 'codex' });
    expect((await parley.run(['trace', parley.id])).out).toMatch(/owes an answer: open, due again /);
    await parley.run(['reply', parley.id, 'no'], { as: 'codex' });
    expect((await parley.run(['trace', parley.id])).out).toMatch(/an answer was owed: responded at .*, reply /);
  });

  it.each([
    ['has nobody to go to', [], 'nobody got a notice: there is no owner'],
    ['went to its owner', ['--owner'], '@ada got a notice'],
  ])('is told in one way by the trace if it is late and %s', async (_what, owner, notice) => {
    const parley = new Program();
    await parley.byPerson(['init', 'ada', '--human', ...owner]);
    await parley.init('codex');
    const { id } = await parley.json<Sent>(['send', '@codex', 'is the deploy blocked?']);
    await parley.run(['drain'], { as: 'codex' });
    const workspace = openWorkspace(parley.env, { bodyLimit: BODY_LIMIT, durability: 'normal' });
    const [home] = workspace.homes;
    if (!home) throw new Error('a workspace has a home');
    await raiseLate(workspace, home, workspace.now() + 301_000, () => false);
    const { out } = await parley.run(['trace', id]);
    expect(out).toContain(`owes an answer: open, ${notice}\n`);
    expect(out).toContain('no longer waits; no proof that a model saw it');
    for (const word of ['held true', 'coordinator', 'ended', 'due again']) expect(out).not.toContain(word);
    const live = Bun.spawn([PARLEY, 'live'], { env: parley.env, stdio: ['ignore', 'pipe', 'ignore'] });
    let shown = '';
    const reading = (async () => {
      for await (const chunk of live.stdout) shown += Buffer.from(chunk).toString();
    })();
    await parley.run(['send', '@codex', 'a later one']);
    await within(20_000, async () => shown.includes('a later one'));
    live.kill();
    await reading;
    expect(shown).not.toContain('@owner');
  });

  it('has the same local time as the steps, and whole times with --verbose', async () => {
    const parley = await asked();
    const trace = async (...more: string[]) =>
      (await parley.atTerminal(['trace', parley.id, ...more], '', { env: { TZ: 'Asia/Tokyo' } })).shown;
    const isoTime = /\d\dT\d\d:\d\d/;
    expect(await trace()).toMatch(/due again (?:\S+ )?\d\d:\d\d:\d\d\s/);
    expect(await trace()).not.toMatch(isoTime);
    expect(await trace('--verbose')).toMatch(/due again \S+Z\s/);
    await parley.run(['read', parley.id], { as: 'codex' });
    expect(await trace()).not.toMatch(isoTime);
  });
});

describe('a reaction', () => {
  it.each([
    ['seen', 'seen', { disposition: null, final: false }, true],
    ['working [C2A-111c]', 'working', { disposition: 'claimed', final: false }, true],
    ['queued', 'queued', { disposition: 'deferred', final: false }, true],
    ['blocked [C2A-111h]', 'blocked', { disposition: 'deferred', final: false }, true],
    ['done [C2A-111f]', 'done', { disposition: 'responded', final: true }, false],
    ['declined', 'declined', { disposition: 'ignored', final: true }, false],
    ['a word of one’s own', 'x-later', { disposition: null, final: false }, true],
  ])('of %s says what it made of the message, and whether it is still owed', async (_title, signal, outcome, owed) => {
    const parley = await asked();
    const reacted = await parley.json<Reacted>(['react', parley.id.slice(0, 8), signal], { as: 'codex' });
    expect(reacted).toMatchObject(outcome);
    expect(await owes(parley)).toEqual(owed ? [parley.id] : []);
  });

  it('that only takes note ends what is owed where that is all that was asked for [C2A-108]', async () => {
    const parley = await asked();
    for (const signal of ['seen', 'agree']) await parley.run(['react', parley.id, signal], { as: 'codex' });
    expect(await owes(parley)).toEqual([parley.id]);
    const ask = ['send', '@codex', 'please approve the plan', '--intent', 'approval'];
    const { id } = await parley.json<Sent>(ask);
    expect(await owes(parley)).toContain(id);
    expect(await parley.json<Reacted>(['react', id, 'agree'], { as: 'codex' })).toMatchObject({
      disposition: 'acknowledged',
      final: true,
    });
    expect(await owes(parley)).toEqual([parley.id]);
  });

  it('of working or queued leaves a message among what is owed, under that word [C2A-109]', async () => {
    const parley = await asked();
    const { id } = await parley.json<Sent>(['send', '@codex', 'and is main green?']);
    await parley.run(['react', parley.id, 'working'], { as: 'codex' });
    await parley.run(['react', id, 'queued'], { as: 'codex' });
    const { duties } = await parley.json<Owed>(['owe'], { as: 'codex' });
    expect(duties.map((obligation) => [obligation.id, obligation.state])).toEqual([
      [parley.id, 'claimed'],
      [id, 'deferred'],
    ]);
  });

  it('of queued is deferred and costs its reader no turn: a quiet word with its eta [C2A-111d]', async () => {
    const parley = await asked();
    const said = await parley.run(['react', parley.id, 'queued', '--eta', 'after lunch'], { as: 'codex' });
    expect(said.out).toBe(`🕐 queued on ${parley.id.slice(0, 8)}: deferred, still owed\n`);
    const [copy] = await parley.json<{ body: string; quiet: boolean }[]>(['inbox']);
    expect(copy).toMatchObject({ body: 'queued · after lunch', quiet: true });
  });

  it('is a known word: a sign or a misspelling is refused in one line', async () => {
    const parley = await asked();
    const sign = await parley.run(['react', parley.id, '👍'], { as: 'codex' });
    expect(sign).toMatchObject({ code: 64, out: '' });
    expect(sign.err).toMatch(/^parley: "👍" is not a signal; use one of seen, agree, .*\n$/);
    const typo = await parley.run(['react', parley.id, 'wroking'], { as: 'codex' });
    expect(typo.err).toBe('parley: "wroking" is not a signal; did you mean working?\n');
    expect(await parley.json<object[]>(['inbox'])).toEqual([]);
  });

  it('to a message of others is refused', async () => {
    const parley = await asked();
    const refused = await parley.run(['react', parley.id, 'done'], { as: 'claude' });
    expect(refused.code).toBe(77);
    expect(refused.err).toContain('neither from you nor to you');
    expect(await owes(parley)).toEqual([parley.id]);
  });

  it('to a message that is still on its way is kept', async () => {
    const parley = await asked();
    const id = crypto.randomUUID();
    expect(await parley.json<Reacted>(['react', id, 'working'], { as: 'codex' })).toMatchObject({ final: false });
    expect((await parley.run(['react', id.slice(0, 8), 'working'], { as: 'claude' })).code).toBe(66);
  });
});

describe('deferring', () => {
  it('keeps it owed, with the reason for anyone who waits', async () => {
    const parley = await asked();
    const said = await parley.run(['defer', parley.id, '--reason', 'the tests run', '--until', '2h'], { as: 'codex' });
    expect(said.out).toMatch(/^deferred [0-9a-f]{8}: still owed, again from \S+Z\n$/);
    expect(await parley.json<Owed>(['owe', '--blocking'])).toMatchObject({
      duties: [{ id: parley.id, state: 'deferred', note: 'the tests run' }],
    });
    expect((await parley.run(['owe'], { as: 'codex' })).out).toMatch(/deferred · until \S+Z\n.*\n {2}the tests run\n/);
  });

  it('needs a reason and a time to come', async () => {
    const parley = await asked();
    expect((await parley.run(['defer', parley.id], { as: 'codex' })).err).toContain('--reason "…"');
    const late = await parley.run(['defer', parley.id, '--reason', 'x', '--until', '2020-01-01'], { as: 'codex' });
    expect(late.err).toContain('is in the past; give a later time');
  });
});

describe('resolving', () => {
  it('ends everything of an exchange that is one’s own', async () => {
    const parley = await asked();
    const more = await parley.json<Sent>(['send', '@codex', 'and is 4f2c1d in it?', '--reply-to', parley.id]);
    expect(new Set(await owes(parley))).toEqual(new Set([parley.id, more.id]));
    const { resolved } = await parley.json<{ resolved: string[] }>(['resolve', parley.id, '--note', 'fixed'], {
      as: 'codex',
    });
    expect(new Set(resolved)).toEqual(new Set([parley.id, more.id]));
    expect(await owes(parley)).toEqual([]);
    expect((await parley.run(['resolve', parley.id], { as: 'codex' })).out).toContain('there is nothing open');
  });
});

describe('a claim', () => {
  /** A message to a role that two agents have. */
  async function offered(): Promise<Program & { id: string }> {
    const parley = await asked();
    for (const name of ['codex', 'claude']) await parley.run(['role', 'add', `@${name}`, 'reviewer']);
    for (const name of ['codex', 'claude']) await parley.run(['sub', '#dev'], { as: name });
    const { id } = await parley.json<Sent>(['send', '#dev', 'who can look at src/api.ts?']);
    return Object.assign(parley, { id });
  }

  it('is one agent’s: the other is told who was first, and may have it when it is given up', async () => {
    const parley = await offered();
    const first = await parley.run(['claim', parley.id], { as: 'codex' });
    expect(first.out).toMatch(/^claimed [0-9a-f]{8} until \S+Z\n$/);
    const second = await parley.run(['claim', parley.id], { as: 'claude' });
    expect(second.code).toBe(75);
    expect(second.err).toContain('@codex');
    expect((await parley.run(['claim', parley.id, '--release'], { as: 'claude' })).out).toContain(
      'was not claimed by you',
    );
    expect((await parley.run(['claim', parley.id, '--release'], { as: 'codex' })).out).toContain(
      'another agent can claim it',
    );
    expect((await parley.run(['claim', parley.id], { as: 'claude' })).code).toBe(0);
  });

  it('has one winner of ten who want it at once', async () => {
    const parley = await offered();
    const tries = Array.from({ length: 10 }, (_, n) =>
      parley.run(['claim', parley.id], { as: n % 2 === 0 ? 'codex' : 'claude' }),
    );
    const runs = await Promise.all(tries);
    const winners = new Set(runs.flatMap(({ code }, n) => (code === 0 ? [n % 2 === 0 ? 'codex' : 'claude'] : [])));
    expect(winners.size).toBe(1);
  });

  it('stands beside the event in `parley events`', async () => {
    const parley = await offered();
    await parley.run(['claim', parley.id], { as: 'codex' });
    const { out } = await parley.run(['events', '--stream', '#dev'], { as: 'claude' });
    expect(out).toContain('claimed by @codex until');
  });
});

describe('parley events', () => {
  it('shows what one may see, narrowed by channel, policy and time, a page at a time', async () => {
    const parley = await asked();
    for (const name of ['codex', 'claude']) await parley.run(['sub', '#dev'], { as: name });
    const { id } = await parley.json<Sent>(['send', '#dev', 'main is red']);
    const list = async (as: string, ...words: string[]): Promise<string[]> =>
      (await parley.json<{ events: { id: string }[] }>(['events', ...words], { as })).events.map((one) => one.id);
    expect(await list('codex')).toEqual([id, parley.id]);
    expect(await list('claude')).toEqual([id]);
    expect(await list('codex', '--stream', '#dev')).toEqual([id]);
    expect(await list('codex', '--policy', 'must_respond')).toEqual([parley.id]);
    expect(await list('codex', '--since', '2030-01-01T00:00:00Z')).toEqual([]);
    const page = await parley.json<{ events: { id: string }[]; cursor: string }>(['events', '--limit', '1'], {
      as: 'codex',
    });
    expect(page.events.map((one) => one.id)).toEqual([id]);
    expect(await list('codex', '--cursor', page.cursor)).toEqual([parley.id]);
    expect((await parley.run(['events', '--policy', 'loud'], { as: 'codex' })).err).toContain(
      'is not a policy; use must_respond',
    );
  });
});

describe('parley why', () => {
  it('answers who did what with a message, when and why', async () => {
    const parley = await asked();
    await parley.run(['claim', parley.id], { as: 'codex' });
    await parley.run(['reply', parley.id, 'no'], { as: 'codex' });
    const { out } = await parley.run(['why', parley.id]);
    for (const part of ['ada', 'codex', 'must_respond', 'direct_message', 'claimed', 'responded'])
      expect(out).toContain(part);
    expect(out).not.toContain('is the deploy blocked');
    expect(out).toMatch(/^\d{4}-\d\d-\d\dT\S+Z /);
  });
});
