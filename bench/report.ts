import { writeFileSync } from 'node:fs';
import { cpus, loadavg, release, totalmem } from 'node:os';
import type { Row } from './figure.ts';

/** What the figures depend on. */
export interface Machine {
  date: string;
  processor: string;
  system: string;
  disk: string;
  runtime: string;
  load: string;
}

export function machine(disk: string): Machine {
  const processors = cpus();
  return {
    date: new Date().toISOString().slice(0, 16).replace('T', ' '),
    processor: `${processors[0]?.model.trim() ?? 'unknown'}, ${processors.length} cores, ${Math.round(totalmem() / 2 ** 30)} GiB`,
    system: `${process.platform} ${release()}`,
    disk,
    runtime: `Bun ${Bun.version}, Node ${versionOf('node')}`,
    // Other work on the machine makes the p99 of both sides longer; who reads the table should know.
    load: loadavg()[1]?.toFixed(1) ?? '',
  };
}

export function verdict({ ratio, limit }: Row): string {
  if (ratio === null) return '*not measured*';
  if (limit === null) return '';
  return ratio <= limit ? 'met' : '**missed**';
}

/** One line per figure, for a terminal. */
export function line(row: Row): string {
  const ratio = row.ratio === null ? '' : ` ${row.ratio.toFixed(2)}×`;
  const limit = row.limit === null || row.ratio === null ? '' : ` (at most ${row.limit})`;
  return `${row.what} beside ${row.floor}:${ratio}${limit} ${verdict(row).replaceAll('*', '')}`.trimEnd();
}

/** The page that `npm run bench` leaves. */
export function page(rows: Row[], { date, processor, system, disk, runtime, load }: Machine): string {
  const notes = [...new Set(rows.flatMap(notesOf))];
  const cells = rows.map((row) => [
    [row.what, ...notesOf(row).map((note) => `[${notes.indexOf(note) + 1}]`)].join(' '),
    row.floor,
    row.ours,
    row.beside,
    row.ratio === null ? '' : row.ratio.toFixed(2),
    row.tail === null ? '' : row.tail.toFixed(2),
    row.limit === null ? '' : `≤ ${row.limit}`,
    verdict(row),
  ]);
  return `# Performance

Written by \`npm run bench\`; do not edit. Each figure stands beside its floor: the least that any program would have to do
for the same. Both are measured in turns within one run, so what slows the machine slows both, and what counts is the ratio.

- ${date} UTC; five-minute load of the machine during the run ${load}
- ${processor}; ${system}; ${disk}
- ${runtime}

${table(['figure', 'floor', 'ours: median / p99', 'floor: median / p99', 'ratio', 'ratio of p99', 'target', ''], cells)}

${notes.map((note, at) => `${at + 1}. ${note}`).join('\n')}
`;
}

function notesOf(row: Row): string[] {
  const isMissed = row.ratio !== null && row.limit !== null && row.ratio > row.limit;
  return [row.note, isMissed ? row.because : undefined].filter((note) => note !== undefined);
}

function table(heads: string[], rows: string[][]): string {
  const row = (cells: string[]): string => `| ${cells.join(' | ')} |`;
  return [row(heads), `|${'---|'.repeat(heads.length)}`, ...rows.map(row)].join('\n');
}

export function writePage(path: string, text: string): void {
  writeFileSync(path, text);
}

function versionOf(program: string): string {
  return Bun.which(program) ? Bun.spawnSync([program, '--version']).stdout.toString().trim() : 'missing';
}
