// `npm run requirements`: how many requirements are proven by a test, and which ones are not. `--json` for programs.
import { REQUIREMENTS } from '../requirements.ts';
import { type Coverage, coverage, readCitations } from './citations.ts';

const WIDTH = 120;

/** One line for each system, then the unproven requirements of each. */
export function render(systems: Record<string, Coverage>): string {
  const entries = Object.entries(systems);
  const counts = entries.map(([name, { proven, total }]) => `${name} ${proven} of ${total} proven`);
  const open = entries.filter(([, { unproven }]) => unproven.length > 0);
  return [...counts, ...open.flatMap(([name, { unproven }]) => ['', `${name}, unproven:`, ...list(unproven)])].join(
    '\n',
  );
}

/** Each id with its sentence beside it, wrapped under itself. */
function list(ids: string[]): string[] {
  const column = Math.max(...ids.map((id) => id.length)) + 4;
  return ids.flatMap((id) =>
    wrap(REQUIREMENTS[id] ?? '', WIDTH - column).map((line, i) => (i === 0 ? `  ${id}` : '').padEnd(column) + line),
  );
}

function wrap(sentence: string, width: number): string[] {
  const lines = [''];
  for (const word of sentence.split(' ')) {
    const line = lines.at(-1) ?? '';
    if (line === '') lines[lines.length - 1] = word;
    else if (line.length + 1 + word.length <= width) lines[lines.length - 1] = `${line} ${word}`;
    else lines.push(word);
  }
  return lines;
}

async function main(args: string[]): Promise<number> {
  const unknown = args.find((arg) => arg !== '--json');
  if (unknown !== undefined) {
    console.error(`error: unknown option ${unknown}; the only one is --json`);
    return 64;
  }
  const { citations } = await readCitations(`${import.meta.dir}/../..`);
  const systems = coverage(citations);
  console.log(args.includes('--json') ? JSON.stringify(systems, null, 2) : render(systems));
  return 0;
}

if (import.meta.main) process.exitCode = await main(process.argv.slice(2));
