// A relay's storage that answers a rush and dies before it enters anything: `rush.child.ts <home>`, with the entries on stdin.
import { writeSync } from 'node:fs';
import type { Entry } from '../../src/storage/ledger/ledger.ts';
import { openLateHome } from './late.ts';

const entries = (await Bun.stdin.json()) as Entry[];
const { spool, ledger } = await openLateHome(process.argv[2] ?? '', { rush: { atOnce: 8, withinMs: 25, unreadMs: 0 } });
await Promise.all(entries.map((entry) => spool.put(entry)));
writeSync(1, `${entries.length} answered, ${await ledger.newest()} entered\n`);
process.kill(process.pid, 'SIGKILL');
