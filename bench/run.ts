// `npm run bench`: every figure beside its floor; the table goes to docs/performance.md.
// `npm run bench -- --quick`: fewer rounds and no long history, for a first look; the table is only printed.
// `npm run bench -- word`: only the figures whose name has the word in it; the table is only printed.
import { mkdirSync } from 'node:fs';
import { attentionFigure } from './figures/attention.ts';
import { c2cFigure } from './figures/c2c.ts';
import { commandFigure } from './figures/command.ts';
import { controlFigure } from './figures/control.ts';
import { drainFigure, peekFigure } from './figures/drain.ts';
import { historyFigure } from './figures/history.ts';
import { hookFigure } from './figures/hook.ts';
import { openCodeFigure } from './figures/opencode.ts';
import { peersFigure } from './figures/peers.ts';
import { eventsFigure, relayFigure } from './figures/relay.ts';
import { reachedFigure } from './figures/reached.ts';
import { relayOriginalFigure } from './figures/relay-original.ts';
import { storeFigure } from './figures/store.ts';
import { takeFigure } from './figures/take.ts';
import type { Bench, Figure, Row } from './figure.ts';
import { openPlace } from './place.ts';
import { buildProgram } from './program.ts';
import { line, machine, page, writePage } from './report.ts';

/**
 * The figures in the order of the table. The relay comes first, and figures that delete many files come last: after that, ext4 for a while
 * checks every freed inode for each new file.
 */
const FIGURES: readonly Figure[] = [
  relayFigure,
  relayOriginalFigure,
  eventsFigure,
  hookFigure,
  commandFigure,
  c2cFigure,
  openCodeFigure,
  controlFigure,
  reachedFigure,
  storeFigure,
  attentionFigure,
  takeFigure,
  peekFigure,
  drainFigure,
  historyFigure,
  peersFigure,
];

const quick = process.argv.includes('--quick');
const words = process.argv.slice(2).filter((word) => !word.startsWith('--'));
const isPicked = ({ name }: Figure): boolean =>
  words.length === 0 || words.some((word) => name.toLowerCase().startsWith(word));
const place = openPlace();
let program: string | undefined;
const bench: Bench = {
  quick,
  fresh: () => place.fresh(),
  tell: (text) => console.error(text),
  program: () => {
    program ??= buildProgram(place.fresh());
    return program;
  },
};

const rows: Row[] = [];
try {
  for (const figure of FIGURES.filter(isPicked)) {
    for (const row of await figure(bench)) {
      rows.push(row);
      console.error(line(row));
    }
  }
  const text = page(rows, machine(place.disk));
  if (quick || words.length > 0) console.log(text);
  else {
    const docs = new URL('../docs/', import.meta.url).pathname;
    mkdirSync(docs, { recursive: true });
    writePage(`${docs}performance.md`, text);
    console.log(`${rows.length} figures in docs/performance.md`);
  }
} finally {
  place.close();
}
