import { describe, expect, it } from 'bun:test';
import * as fc from 'fast-check';
import { aMessage, bob, LOUD } from '../../test/support/mail.ts';
import { fenced, planText, renderText } from './fit.ts';
import type { FittedMail, TextLimits } from './fit.ts';

const voice = fenced({ reader: bob, mark: 'k3j9x2v7', now: 0, ago: () => '3 min ago', people: new Map() });
const limits: TextLimits = { limit: 9000, length: (text) => text.length, free: true };

let clock = Date.parse('2026-03-01T00:00:00.000Z');
function mail(length: number, injection: FittedMail['attention']['injection'] = 'buffered'): FittedMail {
  clock += 1000;
  const message = aMessage({ body: 'x'.repeat(length), ts: new Date(clock).toISOString() });
  return { message, attention: { ...LOUD, injection }, attempt: 0 };
}

describe('a text of a hook', () => {
  it('holds whole messages, oldest first, and counts those for which there is no room', () => {
    const waiting = Array.from({ length: 30 }, () => mail(1000));
    const round = planText(voice, waiting.toReversed(), limits);
    expect(round.pieces.map(({ mail }) => mail)).toEqual(waiting.slice(0, round.pieces.length));
    expect(round.pieces.length).toBeGreaterThanOrEqual(7);
    expect(round.left).toBe(30 - round.pieces.length);
    expect(renderText(voice, round)).toContain(`${round.left} more wait`);
  });

  it('begins with urgent messages', () => {
    const [old, pressing] = [mail(10), mail(10, 'immediate')];
    expect(planText(voice, [old, pressing], limits).pieces.map(({ mail }) => mail)).toEqual([pressing, old]);
  });

  it('has a pointer for a message that would not fit even alone', () => {
    const waiting = [mail(10), mail(20_000), mail(10)];
    expect(planText(voice, waiting, limits)).toMatchObject({
      pieces: [{ kind: 'whole' }, { kind: 'pointer' }, { kind: 'whole' }],
      left: 0,
    });
  });

  it('is measured in the unit of its client', () => {
    const japanese: FittedMail = { ...mail(0), message: aMessage({ body: '本'.repeat(4000) }) };
    expect(planText(voice, [japanese], limits).pieces[0]?.kind).toBe('whole');
    expect(planText(voice, [japanese], { ...limits, length: (text) => Buffer.byteLength(text) }).pieces[0]?.kind).toBe(
      'pointer',
    );
  });

  it('is not printed for knocks alone where printing costs a turn', () => {
    const knocks = [mail(10, 'notify'), mail(10, 'notify')];
    expect(planText(voice, knocks, limits).pieces.map(({ kind }) => kind)).toEqual(['knock', 'knock']);
    expect(planText(voice, knocks, { ...limits, free: false }).pieces).toEqual([]);
    expect(planText(voice, [...knocks, mail(10)], { ...limits, free: false }).pieces).toHaveLength(3);
  });

  it('never exceeds its limit, is never empty, and counts what is left', () => {
    const lengths = fc.array(fc.tuple(fc.nat(12_000), fc.constantFrom('buffered', 'immediate', 'notify')), {
      minLength: 1,
      maxLength: 60,
    });
    fc.assert(
      fc.property(lengths, (sizes) => {
        const waiting = sizes.map(([length, injection]) => mail(length, injection));
        const round = planText(voice, waiting, limits);
        expect(renderText(voice, round).length).toBeLessThanOrEqual(9000);
        expect(round.pieces.length).toBeGreaterThan(0);
        expect(round.pieces.length + round.left).toBe(waiting.length);
      }),
    );
  });
});
