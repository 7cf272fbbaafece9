// The moving picture in README.
import { describe, expect, it } from 'bun:test';
import { readFileSync } from 'node:fs';
import { drawn } from './clients/picture/draw.ts';
import type { Frame, Recording } from './clients/picture/record.ts';
import { gridOf } from '../src/sessions/picture/grid.ts';

const SHAPE = { columns: 12, rows: 2 };

async function aFrame(ms: number, text: string): Promise<Frame> {
  return { ms, grid: await gridOf(text) };
}

async function aRecording(): Promise<Recording> {
  return {
    left: [await aFrame(0, 'first\nstays'), await aFrame(60_000, 'last <a&b>\nstays')],
    right: [await aFrame(0, 'x\ny')],
    events: [
      { ms: 0, name: 'start' },
      { ms: 50_000, name: 'asked' },
      { ms: 60_000, name: 'read' },
    ],
    steps: ['stored', 'shown', 'discharged'],
  };
}

describe('a recording that is drawn', () => {
  it('shows each row for its time, and without motion the last screen', async () => {
    const svg = drawn(await aRecording(), SHAPE);
    const classOf = (word: string): string => new RegExp(`<g class="(a\\d+)"><text[^>]*>${word}`).exec(svg)?.[1] ?? '';
    const rules = (word: string): string => new RegExp(`\\.${classOf(word)}\\{[^}]*\\}`).exec(svg)?.[0] ?? '';
    expect(rules('first')).toContain('visibility:hidden');
    expect(rules('last')).not.toContain('hidden');
    expect(svg).toContain('>stays</text>');
    expect(svg).not.toMatch(/<g class="a\d+"><text[^>]*>stays/);
    expect(svg).toContain('@media (prefers-reduced-motion:reduce){*{animation:none!important}}');
  });

  it('leaves out long pauses, and never draws what was shown as markup', async () => {
    const svg = drawn(await aRecording(), SHAPE);
    expect(Number(/animation:a0 ([\d.]+)s/.exec(svg)?.[1])).toBeLessThan(8);
    expect(svg).toContain('last &lt;a&amp;b&gt;');
  });

  it('names only steps that the run proved', async () => {
    const svg = drawn(await aRecording(), SHAPE);
    expect(svg).toContain('>shown</text>');
    expect(svg).not.toContain('>accepted</text>');
  });

  it('describes the same steps to those who do not see it', async () => {
    expect(drawn(await aRecording(), SHAPE)).toContain('own records: stored, shown.</desc>');
  });
});

describe('the moving picture in README', () => {
  const svg = readFileSync(new URL('../docs/talk.svg', import.meta.url), 'utf8');

  it('is small, loops in 10 to 20 s, and stands still for those who want that', () => {
    expect(svg.length).toBeLessThan(400 * 1024);
    const seconds = Number(/animation:a0 ([\d.]+)s step-end infinite/.exec(svg)?.[1]);
    expect(seconds).toBeGreaterThanOrEqual(10);
    expect(seconds).toBeLessThanOrEqual(20);
    expect(svg).toContain('prefers-reduced-motion');
    expect(readFileSync(new URL('../README.md', import.meta.url), 'utf8')).toContain('<img src="docs/talk.svg"');
  });

  it('is described by README with the steps that it names itself', () => {
    const [, steps] = /own records: ([^<]*)<\/desc>/.exec(svg) ?? [];
    expect(readFileSync(new URL('../README.md', import.meta.url), 'utf8')).toContain(`Below: ${steps}"`);
  });

  it('has no path or name of the machine on which it was made', () => {
    expect(svg).not.toMatch(/\/(?:tmp|home|root|work|Users|var)\b|parley-test|127\.0\.0\.1/);
  });
});
