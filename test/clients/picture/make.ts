// `npm run picture`: records a real run of Claude Code and Codex, and draws docs/talk.svg from it. With a file, the
// recording is kept there, or read from there if it exists: to draw the same run again.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { closeAll } from '../support/opened.ts';
import { drawn } from './draw.ts';
import { record, SHAPE } from './record.ts';
import type { Recording } from './record.ts';

const PICTURE = new URL('../../../docs/talk.svg', import.meta.url).pathname;
const [kept] = process.argv.slice(2);
const recording = await recorded();
const svg = drawn(recording, SHAPE);
writeFileSync(PICTURE, svg);
console.log(`docs/talk.svg has ${Math.round(svg.length / 1024)} KB; the question was ${recording.steps.join(', ')}`);

async function recorded(): Promise<Recording> {
  if (kept !== undefined && existsSync(kept)) return JSON.parse(readFileSync(kept, 'utf8')) as Recording;
  try {
    const fresh = await record();
    if (kept !== undefined) writeFileSync(kept, JSON.stringify(fresh));
    return fresh;
  } finally {
    await closeAll();
  }
}
