// A window of Codex, played: tells the daemon of codex-daemon.ts that it was opened, and stays until it is ended.
import { setTimeout as pause } from 'node:timers/promises';

const [socket = '', ...words] = process.argv.slice(2);
let args = words;
for (;;) {
  try {
    const body = JSON.stringify({ cwd: process.cwd(), args });
    const answer = await fetch('http://daemon/', { method: 'POST', body, unix: socket });
    const text = await answer.text();
    if (text === 'asks') {
      console.log('› 1. Review hooks\n  2. Trust all and continue\n\n  enter confirm');
      await new Promise((resolve) => process.stdin.once('data', resolve));
      args = words.filter((word) => word !== '--asks');
      console.log('\u001B[2J\u001B[H');
      continue;
    }
    console.log(text);
    if (!answer.ok) process.exit(1);
    break;
  } catch {
    // A window waits for a daemon that is not there yet.
    await pause(50);
  }
}
setInterval(() => {}, 60_000);
