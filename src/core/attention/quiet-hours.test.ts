import * as fc from 'fast-check';
import { describe, expect, it } from 'bun:test';
import { isQuietTime } from './quiet-hours.ts';

const NOW = Date.parse('2026-06-02T12:00:00.000Z');
const at = (hours: number, minutes = 0): number => hours * 60 + minutes;

describe('a quiet time', () => {
  it.each([
    ['nobody asked for it', undefined, at(3), false],
    ['it is on', { on: true }, at(3), true],
    ['it ends later', { until: '2026-06-02T12:00:00.001Z' }, at(12), true],
    ['it ended just now', { until: '2026-06-02T12:00:00.000Z' }, at(12), false],
    ['the hours begin now', { hours: '12:00-13:00' }, at(12), true],
    ['the hours end now', { hours: '11:00-12:00' }, at(12), false],
    ['before the hours', { hours: '12:01-13:00' }, at(12), false],
    ['before midnight, in hours across it', { hours: '22:00-07:30' }, at(23, 59), true],
    ['after midnight, in hours across it', { hours: '22:00-07:30' }, at(7, 29), true],
    ['at noon, with hours across midnight', { hours: '22:00-07:30' }, at(12), false],
    ['when they are over, with hours across midnight', { hours: '22:00-07:30' }, at(7, 30), false],
    ['with hours from a time to the same', { hours: '09:00-09:00' }, at(3), true],
  ] as const)('%s', (_when, quiet, minutes, expected) => {
    expect(isQuietTime(quiet, NOW, minutes)).toBe(expected);
  });

  it('between two times is always the opposite of that with the two times swapped', () => {
    const anyTime = fc.record({ h: fc.integer({ min: 0, max: 23 }), m: fc.integer({ min: 0, max: 59 }) });
    const two = (n: number): string => String(n).padStart(2, '0');
    const text = ({ h, m }: { h: number; m: number }): string => `${two(h)}:${two(m)}`;
    fc.assert(
      fc.property(anyTime, anyTime, fc.integer({ min: 0, max: 1439 }), (from, to, minutes) => {
        fc.pre(text(from) !== text(to));
        const there = isQuietTime({ hours: `${text(from)}-${text(to)}` }, NOW, minutes);
        const back = isQuietTime({ hours: `${text(to)}-${text(from)}` }, NOW, minutes);
        expect(there).toBe(!back);
      }),
    );
  });
});
