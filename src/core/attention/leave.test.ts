import { describe, expect, it } from 'bun:test';
import { asksToLeave } from './thanks.ts';

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
