// Holds a program in this terminal, as `parley run` does: `bun held.child.ts <command…>`. Ends as the program does.
import { argv, env, pid } from 'node:process';
import { exitNow } from '../../src/platform/libc.ts';
import { HeldTerminal } from '../../src/sessions/pass-through.ts';

const held = new HeldTerminal(argv.slice(2), { cwd: process.cwd(), env, drew() {} });
const end = await held.ended();
if (typeof end === 'number') exitNow(end);
process.removeAllListeners(end);
process.kill(pid, end);
