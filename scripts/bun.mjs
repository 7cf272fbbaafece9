// `node scripts/bun.mjs <arguments>`: the project's own Bun, set up first if need be.
import { runBun } from './setup.mjs';

await runBun(process.argv.slice(2));
