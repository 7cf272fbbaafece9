import * as fc from 'fast-check';
import { describe, expect, it } from 'bun:test';
import type { Lineage } from '../message.ts';
import { MessageId } from '../names.ts';
import { nextLineage, isNovel } from './lineage.ts';
import type { Spoken } from './lineage.ts';

const ROOT = MessageId.parse('root');
const AGENTS = ['anna', 'ben', 'cleo'];

const spoken = (body: string, given: Partial<Spoken> = {}): Spoken => ({
  body,
  byAgent: true,
  insists: false,
  ...given,
});

/** Agents answer each other in turn. Returns the lineage of each answer. */
function exchange(bodies: readonly string[], opening = 'please look', agents = AGENTS): Lineage[] {
  const said: { from: string; body: string; parley?: { lineage: Lineage } }[] = [
    { from: agents[0] ?? '', body: opening },
  ];
  const lineages: Lineage[] = [];
  for (const [turn, body] of bodies.entries()) {
    const parent = { id: ROOT, from: agents[turn % agents.length] ?? '', lineage: lineages.at(-1) };
    const from = agents[(turn + 1) % agents.length] ?? '';
    const lineage = nextLineage(parent, ROOT, spoken(body, { from }), said);
    if (!lineage) continue;
    lineages.push(lineage);
    said.push({ from, body, parley: { lineage } });
  }
  return lineages;
}

describe('lineage', () => {
  it('begins with the first answer: the message that opens an exchange has none', () => {
    expect(nextLineage(null, undefined, spoken('hello'), [])).toBeUndefined();
    const first = nextLineage({ id: ROOT, from: 'anna' }, ROOT, spoken('hello back'), [{ body: 'hello' }]);
    expect(first).toEqual({ root: ROOT, hop: 1, visited: ['anna'], stale: 1 });
  });

  it('counts an unknown parent as the opening message', () => {
    expect(nextLineage(null, ROOT, spoken('hello'), [])).toEqual({ root: ROOT, hop: 1, visited: [], stale: 1 });
  });

  it('keeps the root and the visitors of three agents, however often they answer in a circle', () => {
    const last = exchange(Array.from({ length: 9 }, () => 'over to you')).at(-1);
    expect(last).toEqual({ root: ROOT, hop: 9, visited: AGENTS, stale: 9, echoes: 8 });
  });

  const anyLineage: fc.Arbitrary<Lineage> = fc.record({
    root: fc.constant(ROOT),
    hop: fc.nat(10_000),
    visited: fc.uniqueArray(fc.constantFrom('anna', 'ben', 'cleo', 'dora')),
    stale: fc.nat(10_000),
  });
  const anyText = fc.oneof(
    fc.lorem(),
    fc.string(),
    fc.constantFrom('see src/a.ts', '0a1b2c3', '```\na();\n```', '512 MB'),
  );

  it('always grows by one hop, keeps its root, and names each visitor once', () => {
    fc.assert(
      fc.property(
        anyLineage,
        fc.constantFrom('anna', 'ben', 'zoe'),
        anyText,
        fc.array(anyText),
        (lineage, from, body, past) => {
          const next = nextLineage(
            { id: MessageId.parse('m'), from, lineage },
            ROOT,
            spoken(body),
            past.map((body) => ({ body })),
          );
          expect(next?.hop).toBe(lineage.hop + 1);
          expect(next?.root).toBe(lineage.root);
          expect(next?.visited).toEqual(lineage.visited.includes(from) ? lineage.visited : [...lineage.visited, from]);
        },
      ),
    );
  });

  it('never resets staleness for a fact that the thread already has', () => {
    fc.assert(
      fc.property(anyLineage, fc.array(anyText, { minLength: 1 }), fc.nat(), (lineage, past, pick) => {
        const earlier = past.map((body) => ({ body }));
        const again = spoken(past[pick % past.length] ?? '');
        const next = nextLineage({ id: ROOT, from: 'anna', lineage }, ROOT, again, earlier);
        expect(next?.stale).toBe(lineage.stale + 1);
      }),
    );
  });

  it('counts echoes in a row, and starts again after a message that is no echo [C2A-D10]', () => {
    const counts = exchange(['I agree', 'I agree', 'I agree!', 'roll back, the site is down', 'I agree']).map(
      ({ echoes = 0 }) => echoes,
    );
    expect(counts).toEqual([0, 1, 2, 0, 1]);
  });

  it('never counts a message of a person, or one that asks for something, as an echo [C2A-D10]', () => {
    const earlier = [{ body: 'any news' }];
    const parent = { id: ROOT, from: 'anna' };
    expect(nextLineage(parent, ROOT, spoken('any news'), earlier)?.echoes).toBe(1);
    expect(nextLineage(parent, ROOT, spoken('any news', { byAgent: false }), earlier)?.echoes).toBeUndefined();
    expect(nextLineage(parent, ROOT, spoken('any news', { insists: true }), earlier)?.echoes).toBeUndefined();
  });

  it('never counts an answer to a question as an echo, in any words [C2A-D10]', () => {
    const bodies = ['yes', 'is step 4 done?', 'yes', 'is step 5 done?', 'yes', 'is step 6 done?', 'yes'];
    const counts = exchange(bodies, 'is step 3 done?').map(({ echoes = 0 }) => echoes);
    expect(Math.max(...counts)).toBe(1);
    const back = exchange(
      ['fine, and how are you?', 'fine, and how are you?', 'fine, and how are you?'],
      'how are you?',
    );
    expect(back.map(({ echoes = 0 }) => echoes)).toEqual([1, 2, 3]);
  });

  it('counts a counter of both agents as an echo, but not one report after another [C2A-D10]', () => {
    const reports = Array.from({ length: 20 }, (_, at) => (at % 2 ? `build ${41 + at} green` : 'noted, go on with it'));
    expect(Math.max(...exchange(reports, 'build 40 green', ['anna', 'ben']).map(({ echoes = 0 }) => echoes))).toBe(1);
    const counter = Array.from({ length: 20 }, (_, at) => `build ${41 + at} green`);
    expect(exchange(counter, 'build 40 green', ['anna', 'ben']).at(-1)?.echoes).toBe(20);
  });

  it('never counts the first reply to each of several messages as an echo [C2A-D10]', () => {
    const remarks = ['rename it', 'inline it', 'drop it'].map((body, at) => ({ id: `r${at}`, from: 'anna', body }));
    const fixed = (thread: string) => ({ id: `to-${thread}`, from: 'ben', thread, body: 'fixed' });
    const said = spoken('fixed', { from: 'ben', thread: 'r2' });
    const parent = { id: MessageId.parse('r2'), from: 'anna' };
    const earlier = [...remarks, fixed('r0'), fixed('r1')];
    expect(nextLineage(parent, parent.id, said, earlier)?.echoes).toBeUndefined();
    expect(nextLineage(parent, parent.id, said, [...earlier, fixed('r2')])?.echoes).toBe(1);
  });

  it('never counts a text with a new path, link, commit or code block as an echo [C2A-D10]', () => {
    const earlier = [{ body: 'please review it' }];
    for (const news of ['src/new.ts', 'https://ci.example/77', '0a1b2c3d', '```\na < b;\n```']) {
      expect(nextLineage(null, ROOT, spoken(`please review it ${news}`), earlier)?.echoes).toBeUndefined();
    }
  });
});

const thread = [
  {
    id: '3f2a9c1d-40d5-43e8-bc93-6894a57f9324',
    body: 'Tests fail in src/api/users.ts:42 since 9abcdef12, 14 of 200, on v1.2.3.',
    refs: ['ISSUE-7'],
  },
  { id: '40718293-40d5-43e8-bc93-6894a57f9324', body: 'ci.example runs, rate limit: retry in 30 s' },
  { id: 'msg_9', body: 'See https://ci.example/run/9.\n```ts\nconst port = 8080;\n```' },
];

describe('a new fact in a thread', () => {
  it.each([
    ['a ref', { body: 'look', refs: ['ISSUE-8'] }],
    ['a path', { body: 'it is src/api/teams.ts' }],
    ['another line of a known file', { body: 'it is src/api/users.ts:99' }],
    ['a path from the root', { body: 'in /etc/hosts' }],
    ['a deep folder', { body: 'in packages/web/login' }],
    ['a file name', { body: 'it is in users.test.ts' }],
    ['a link', { body: 'see https://ci.example/run/10' }],
    ['a commit', { body: 'fixed in 0a1b2c3' }],
    ['a version', { body: 'since v1.2.4' }],
    ['a number', { body: 'now 77 pass' }],
    ['a code block', { body: '```ts\nawait listen(port);\n```' }],
  ])('is %s that the thread did not have', (_what, said) => {
    expect(isNovel(said, thread)).toBe(true);
  });

  it.each([
    ['other words', { body: 'I agree wholeheartedly and will remain available as needed' }],
    ['a known path in other words', { body: 'as said: `src/api/users.ts:42`!' }],
    ['a known path moved to the refs', { body: 'there', refs: ['src/api/users.ts:42'] }],
    ['a known link with a full stop', { body: 'https://ci.example/run/9.' }],
    ['a longer form of a known commit', { body: '9ABCDEF1234567' }],
    ['a known number of something else', { body: 'my 14 cents' }],
    ['a number that counts on', { body: 'round 15' }],
    ['a number that counts on by turns', { body: 'round 16!' }],
    [
      'a known sentence with another number',
      { body: 'tests fail in src/api/users.ts:42 since 9abcdef12, 60 of 900, on v1.2.3.' },
    ],
    [
      'the same after a shout',
      { body: 'Oh! Tests fail in src/api/users.ts:42 since 9abcdef12, 60 of 900, on v1.2.3.' },
    ],
    ['a known block with another number', { body: '```ts\nconst port = 9090;\n```' }],
    ['thanks in a fence', { body: '```\nthank you kindly\n```' }],
    ['the same with other marks and small words', { body: 'Well, CI.example runs -- rate limit: retry in 90 s!!' }],
    ['the id of an earlier message, short', { body: 're 3f2a9c1d: noted' }],
    ['the id of an earlier message, short, that has only digits', { body: 're 40718293: noted' }],
    ['the id of an earlier message as a ref', { body: 'noted', refs: ['3f2a9c1d-40d5-43e8-bc93-6894a57f9324'] }],
    ['the id of an earlier message in another form', { body: 'noted', refs: ['msg_9'] }],
    ['a fresh id', { body: 'msg 8e03978e-40d5-43e8-bc93-6894a57f9324' }],
    ['a fresh id as a ref', { body: 'noted', refs: ['8e03978e-40d5-43e8-bc93-6894a57f9324'] }],
    ['a clock time', { body: 'still here at 12:03, on 2026-06-12T12:03:11.123Z, or 1748890000' }],
    ['a numbered list', { body: '77. more\n78. words' }],
    ['and/or in prose', { body: 'yes and/or no, w/o more' }],
    ['a name with a digit', { body: 'over to worker-77' }],
  ])('is not %s', (_what, said) => {
    expect(isNovel(said, thread)).toBe(false);
  });

  it('is found quickly in the largest hostile body', () => {
    const started = performance.now();
    for (const part of ['.', '1,', 'a/', '`', '@a/', '\n', '~~~\n', '1:', 'ab1 ']) {
      const body = part.repeat((256 * 1024) / part.length);
      isNovel({ body: `${body}x` }, [{ body }]);
    }
    expect(performance.now() - started).toBeLessThan(20_000);
  });
});
