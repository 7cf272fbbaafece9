import { describe, expect, it } from 'bun:test';
import { isNovel } from './lineage.ts';

const thread = [
  {
    id: '3f2a9c1d-40d5-43e8-bc93-6894a57f9324',
    body: 'Tests fail in src/api/users.ts:42 since 9abcdef12, 14 of 200, on v1.2.3.',
    refs: ['ISSUE-7'],
  },
  { id: '40718293-40d5-43e8-bc93-6894a57f9324', body: 'ci.example runs, rate limit: retry in 30 s' },
  { id: 'msg_9', body: 'See https://ci.example/run/9.\n```ts\nconst port = 8080;\n```' },
];

describe('news in a thread', () => {
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
  ])('is %s that it did not hold', (_what, said) => {
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

  it('takes no longer than a blink on the largest hostile body', () => {
    const started = performance.now();
    for (const part of ['.', '1,', 'a/', '`', '@a/', '\n', '~~~\n', '1:', 'ab1 ']) {
      const body = part.repeat((256 * 1024) / part.length);
      isNovel({ body: `${body}x` }, [{ body }]);
    }
    expect(performance.now() - started).toBeLessThan(20_000);
  });
});
