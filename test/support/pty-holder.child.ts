// A terminal emulator that nobody sees: holds a PTY with a program in it. `bun pty-holder.child.ts <command…>`; prints the program's pid.
import { argv, env } from 'node:process';

const child = Bun.spawn(argv.slice(2), { env, terminal: { cols: 80, rows: 24 } });
console.log(child.pid);
await child.exited;
