// Runs a command at a terminal of its own, types into it when it asks, and prints what came of it as JSON. The test starts it so that no
// process of the test is above it: the program must not see a client there, also where a client runs the tests.

import { readFileSync } from 'node:fs';
import type { AtTerminal } from './program.ts';

const {
  command,
  argv0,
  cwd,
  env,
  typed,
  files,
  interruptAfter,
  limitMs,
  cols = 200,
} = JSON.parse(process.argv[2] ?? '') as AtTerminal;
const answers = [typed].flat();
const decoder = new TextDecoder();
let shown = '';
let answered = 0;
let isInterrupted = false;
const child = Bun.spawn(files ? ['sh', '-c', 'exec "$@" >"$0.out" 2>"$0.err"', files, ...command] : command, {
  ...(argv0 !== undefined && !files && { argv0 }),
  cwd,
  env,
  terminal: {
    cols,
    data: (terminal, bytes) => {
      shown += decoder.decode(bytes, { stream: true });
      for (; answered < shown.split('Type yes:').length - 1; answered += 1)
        terminal.write(`${answers[answered] ?? answers.at(-1)}\n`);
      if (isInterrupted || interruptAfter === undefined) return;
      isInterrupted = new RegExp(interruptAfter).test(shown.replaceAll('\r\n', '\n'));
      if (isInterrupted) terminal.write('\u0003');
    },
  },
});
const limit = limitMs === undefined ? null : setTimeout(() => process.kill(-child.pid, 'SIGKILL'), limitMs);
const code = await child.exited;
if (limit) clearTimeout(limit);
child.terminal?.close();
const read = (end: string): string => (files ? readFileSync(`${files}.${end}`, 'utf8') : '');
console.log(JSON.stringify({ shown: shown.replaceAll('\r\n', '\n'), code, out: read('out'), err: read('err') }));
