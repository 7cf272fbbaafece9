import { expect, it } from 'bun:test';
import { aClock } from '../../test/support/clock.ts';
import { Pauses } from './pauses.ts';
import { WakeBudget } from './wake-budget.ts';

const DAY_MS = 24 * 60 * 60 * 1000;

it('does not make a pause longer when the clock is set back', () => {
  const clock = aClock(10 * DAY_MS);
  const pauses = new Pauses({ retryMs: 1000, longestRetryMs: 300_000 }, clock.now, () => {});
  pauses.pause('s1');
  expect(pauses.isPaused('s1')).toBe(true);
  clock.pass(-DAY_MS);
  expect(pauses.isPaused('s1')).toBe(false);
});

it('does not count wakes of a time that has not come yet, after the clock was set back', () => {
  const clock = aClock(10 * DAY_MS);
  const wakes = new WakeBudget(1, clock.now);
  wakes.note('s1');
  expect(wakes.isSpent('s1')).toBe(true);
  clock.pass(-DAY_MS);
  expect(wakes.isSpent('s1')).toBe(false);
});
