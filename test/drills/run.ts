// `npm run drill [-- word]`: the long races and crashes, with counts; one line each, and an exit code. Words pick
// those whose names have all of them: `npm run drill -- clients claude`.
import { clientFaults } from './clients.ts';
import type { Drill, Outcome } from './drill.ts';
import { lineOf, passed } from './drill.ts';
import { DRILLS } from './drills.ts';

const words = process.argv.slice(2).flatMap((word) => (word.startsWith('--') ? [] : word.toLowerCase()));
const short = process.argv.includes('--short');
const isPicked = ({ name }: Drill): boolean => words.every((word) => name.toLowerCase().includes(word));

// Those with real clients take long and need them: they run only if they are asked for.
const picked = words.length === 0 ? DRILLS : [...DRILLS, ...clientFaults].filter(isPicked);
if (picked.length === 0) {
  console.error(`no drill is called so; there is: ${[...DRILLS, ...clientFaults].map(({ name }) => name).join(' · ')}`);
  process.exit(1);
}

let failed = 0;
for (const drill of picked) {
  console.error(`${drill.name} …`);
  const start = performance.now();
  const outcome = await drill.run(!short, (text) => console.error(`  ${text}`)).catch(broken);
  console.log(lineOf(drill.name, outcome, performance.now() - start));
  if (!passed(outcome)) failed += 1;
}

/** A drill that could not be finished did not pass. */
function broken(error: unknown): Outcome {
  console.error(error);
  return { counts: {}, faults: [error instanceof Error ? error.message : String(error)] };
}

console.log(failed === 0 ? 'every drill passed' : `${failed} drills failed`);
process.exit(failed === 0 ? 0 : 1);
