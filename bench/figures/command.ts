import { readFileSync } from 'node:fs';
import { beside, notMeasured } from '../figure.ts';
import type { Bench, Row } from '../figure.ts';
import { BODY } from '../mailroom.ts';
import { interleave } from '../measure.ts';
import { envOf, run } from '../program.ts';

const BECAUSE =
  'about a third is the start of the runtime, a tenth loading our own code, a tenth opening and healing the ledger, and the ' +
  'rest deciding who sees it how, and storing it with two flushes';

/** How long a command may take, compared with an empty start of Node. */
export const COMMAND_LIMIT = 0.75;
export const START = '`node -e 0`';

/** Commands of the compiled program, compared with an empty start of Node. */
export async function commandFigure(bench: Bench): Promise<Row[]> {
  const env = envOf(bench.fresh());
  for (const name of ['alice', 'bob']) run([bench.program(), 'init', name], env);
  const send = [bench.program(), 'send', '@bob', BODY];
  const bch = (...words: string[]): string[] => [bench.program(), 'bch', ...words];
  // In a separate home: a name that two homes know would need its full address.
  const bchEnv = envOf(bench.fresh());
  for (const name of ['alice', 'bob']) run(bch('init', name), bchEnv);
  const times = await interleave(bench.quick ? 30 : 150, {
    node: () => run(['node', '-e', '0'], env),
    send: () => run(send, env),
    inbox: () => run([bench.program(), 'inbox'], env),
    bchSend: () => run(bch('send', '@alice', BODY), bchEnv),
  });
  return [
    {
      ...beside('`parley send`, compiled and durable', START, COMMAND_LIMIT, times.send, times.node),
      because: BECAUSE,
    },
    beside('`parley inbox`, nothing waiting', START, COMMAND_LIMIT, times.inbox, times.node),
    beside('`bch send`, compiled and durable', START, COMMAND_LIMIT, times.bchSend, times.node),
    flushes(send, env, bench),
  ];
}

/** How often a send waits for the disk: counted, not timed. The floor is one flush. */
function flushes(send: string[], env: Record<string, string>, bench: Bench): Row {
  const what = 'flushes of one `parley send`';
  const floor = 'one flush';
  if (!Bun.which('strace')) return notMeasured(what, floor, 4, 'strace is not installed');
  const log = `${bench.fresh()}/strace`;
  const counts: number[] = [];
  for (let n = 0; n < (bench.quick ? 5 : 21); n += 1) {
    run(['strace', '-f', '-o', log, '-e', 'trace=fsync,fdatasync,sync,syncfs,msync', ...send], env);
    counts.push(readFileSync(log, 'utf8').match(/\b(fsync|fdatasync|sync|syncfs|msync)\(/g)?.length ?? 0);
  }
  const sorted = counts.toSorted((a, b) => a - b);
  const median = sorted[Math.floor(sorted.length / 2)] ?? 0;
  const most = sorted.at(-1) ?? 0;
  return {
    what,
    floor,
    ours: `${median} / ${most} (${counts.length}×)`,
    beside: '1',
    ratio: median,
    tail: most,
    limit: 4,
    ...(most > median && { note: 'more when the ledger moves its log into the main file, about every twentieth time' }),
  };
}
