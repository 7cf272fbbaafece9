import * as fc from 'fast-check';
import { describe, expect, it } from 'bun:test';
import { asksQuestion, isOnlyThanks, asksToLeave } from './thanks.ts';

describe('thanks', () => {
  it.each([
    'thanks!',
    'Thank you so much',
    'got it 👍',
    'on it',
    'ok, sounds good',
    'LGTM',
    'ack',
    '+1',
    ':+1:',
    '👍🏽',
    '❤️',
    'THX!!',
    'Roger that.',
    '@bob thanks',
    'Great work, everyone 🎉',
    'Thanks so much for the quick review, team!',
    'Got it ✅',
    '> please look\nthanks',
    'You’re welcome! Let me know if you need anything else.',
    'Perfect, thanks for letting me know. Standing by.',
  ])('%p is only thanks', (body) => {
    expect(isOnlyThanks(body)).toBe(true);
  });

  it.each([
    ['a request', 'thanks, and can you also fix X?'],
    ['a request without a question mark', 'thanks, please rebase'],
    ['a presumed favour', 'thanks in advance'],
    ['an order', 'ok, stand by'],
    ['a question', 'ok?'],
    ['code', 'thanks `npm test`'],
    ['a code block', 'thanks\n```\nnpm test\n```'],
    ['a path', 'ok src/a.ts'],
    ['a link', 'thanks https://example.com'],
    ['a number', 'ok 42'],
    ['a negation', 'not ok'],
    ['an unknown word', 'thanks for fixing the login'],
    ['an answer', 'yes'],
    ['a result', 'done'],
    ['a lone tick (it says done)', '✅'],
    ['a decision', 'approved'],
    ['a refusal by sign', '👎'],
    ['a greeting', 'hello'],
    ['nothing', ''],
    ['punctuation', '!!!'],
    ['only a name', '@bob'],
    ['only a quote', '> thanks'],
  ])('%s is not only thanks', (_what, body) => {
    expect(isOnlyThanks(body)).toBe(false);
  });

  it('is never found in a text with any other word', () => {
    const more = fc.constantFrom(
      'deploy',
      'src/a.ts',
      '7',
      'https://x.y',
      '`rm`',
      'why?',
      'what?!',
      'no',
      'blocked',
      '❌',
      'fix it',
      'ship',
    );
    const polite = fc.array(fc.constantFrom('thanks', 'ok', 'got it', 'great work', 'so much', '👍', '!', ','), {
      maxLength: 6,
    });
    fc.assert(
      fc.property(polite, more, polite, (before, word, after) => {
        expect(isOnlyThanks([...before, word, ...after].join(' '))).toBe(false);
      }),
    );
  });
});

describe('a question', () => {
  it.each([
    'why?',
    'Is the deploy blocked?',
    'can you look at it',
    'Thanks and could you check',
    'Done! What is the port',
    'is it green now',
    'ok？',
    '(really?)',
    'ready?🙏',
    'thanks, would you rebase',
  ])('is asked by %p', (body) => {
    expect(asksQuestion(body)).toBe(true);
  });

  it.each([
    'thanks',
    'will do',
    'Have a great day',
    'Do it',
    '`a ? b : c`',
    'a?.b is safe',
    'see https://example.com/?a=1',
    '> why?\nbecause',
    'Alice, who is on call, fixed it',
    '```\nwhy?\n```',
    '',
  ])('is not asked by %p', (body) => {
    expect(asksQuestion(body)).toBe(false);
  });
});

describe('a request to leave', () => {
  it.each([
    'please leave this thread',
    'Thanks, you can leave the channel now.',
    '@bob please leave this channel',
    'bob, please leave this thread',
    'Could you please stay out of this discussion?',
    'Stop replying here.',
    'please be quiet in this thread',
    'leave #ops please',
    'All done. You may leave this conversation!',
    'stay out of it',
  ])('is %p', (body) => {
    expect(asksToLeave(body)).toBe(true);
  });

  it.each([
    'please leave a comment in the thread',
    'do not leave this channel',
    'I will leave this thread',
    'leave the channel open',
    'leave this thread unresolved',
    'did alice leave the room?',
    '> please leave this thread\nno',
    '`please leave this thread`',
    'stop the server',
    'keep the tests out of main',
    '',
  ])('is not %p', (body) => {
    expect(asksToLeave(body)).toBe(false);
  });
});
