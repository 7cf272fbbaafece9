import { describe, expect, it } from 'bun:test';
import { servingLog } from './log.ts';

function aLog(options: Partial<{ json: boolean; verbose: boolean }> = {}) {
  const lines: string[] = [];
  const clock = { now: Date.parse('2026-03-01T00:00:00.000Z') };
  const log = servingLog(
    { json: false, verbose: false, ...options },
    () => clock.now,
    (text) => lines.push(text),
  );
  return { lines, clock, log };
}

describe('the log of a program that serves', () => {
  it('is one line per event, and no value can begin another line', () => {
    const { lines, log } = aLog();
    log('refused', { status: 401, why: 'a\nforged line', agent: 'bob' });
    expect(lines).toHaveLength(1);
    expect(lines[0]?.split('\n')).toHaveLength(2);
    expect(lines[0]).toStartWith('2026-03-01T00:00:00.000Z refused status=401 why=');
    expect(lines[0]).toEndWith(' agent=bob\n');
  });

  it('is JSON for programs', () => {
    const { lines, log } = aLog({ json: true });
    log('refused', { status: 401 });
    expect(JSON.parse(lines[0] ?? '')).toEqual({ at: '2026-03-01T00:00:00.000Z', event: 'refused', status: 401 });
  });

  it.each([true, false])('masks a secret in an error (json: %j) [C2A-168]', (json) => {
    const { lines, log } = aLog({ json });
    log('failed', { error: 'no such file: AKIAIOSFODNN7EXAMPLE' });
    expect(lines[0]).toContain('no such file: [secret]');
  });

  it('has a line for every request only if it is verbose', () => {
    const { lines, log } = aLog();
    log('answered', { status: 200 });
    expect(lines).toEqual([]);
    const all = aLog({ verbose: true });
    all.log('answered', { status: 200 });
    expect(all.lines).toHaveLength(1);
  });

  it('writes the first lines of a burst and counts the rest', () => {
    const { lines, clock, log } = aLog();
    for (let n = 0; n < 10_000; n += 1) log('refused', { status: 401 });
    log('failed', { status: 500 });
    expect(lines.filter((line) => line.includes('refused'))).toHaveLength(50);
    expect(lines.at(-1)).toContain('failed');
    clock.now += 1000;
    log('refused', { status: 401 });
    expect(lines.at(-2)).toContain('refused more=9950');
    expect(lines.at(-1)).toContain('refused status=401');
  });

  it('writes an equal failure once a minute, with the number of those left out', () => {
    const { lines, clock, log } = aLog();
    for (let at = 0; at < 560; at += 1) {
      log('trouble', { id: `r-${at}`, error: 'ENOSPC: no space left on device' });
      clock.now += 100;
    }
    expect(lines).toHaveLength(1);
    clock.now += 60_000;
    log('trouble', { id: 'r-560', error: 'ENOSPC: no space left on device' });
    expect(lines).toHaveLength(2);
    expect(lines[1]).toContain('repeated=559');
    log('trouble', { id: 'r-561', error: 'EIO: i/o error' });
    expect(lines).toHaveLength(3);
  });

  it('adds advice to a failure if there is any', () => {
    const lines: string[] = [];
    const write = (text: string): unknown => lines.push(text);
    const log = servingLog({ json: true, verbose: false }, Date.now, write, () => 'start it again');
    for (const event of ['host.failed', 'refused']) log(event, {});
    expect(lines.map((line) => (JSON.parse(line) as { advice?: string }).advice)).toEqual([
      'start it again',
      undefined,
    ]);
  });
});
