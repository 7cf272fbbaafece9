// The agent in the terminal of the wake's figure: `bun agent.child.ts <socket> <sign file>`. It looks like Codex as far as a loop can
// tell: raw mode, bracketed paste, the same composer, and a sign of how it is. It says on the socket, with the time, when a text has been
// pasted (`pasted <ms> <text>`) and when Enter has come (`entered <ms>`); then it works for a moment, and is idle again (`idle <ms>`).
import { renameSync, writeFileSync } from 'node:fs';
import { sharedClock } from './clock.ts';

/** What it says. */
export type Word = 'pasted' | 'entered' | 'idle';

const [, , socketPath = '', signPath = ''] = process.argv;
const BEGIN = '\u001b[200~';
const END = '\u001b[201~';
const HINT = '\u001b[2mAsk for anything\u001b[0m\u001b[3;3H';
/** A turn of the model is longer. This one has to be seen, and nothing more. */
const TURN_MS = 40;

const socket = await Bun.connect({ unix: socketPath, socket: { data: () => {}, close: () => process.exit(0) } });
let composer = '';
let input = '';

function say(word: Word, text = ''): void {
  socket.write(`${word} ${sharedClock()} ${text}\n`);
  socket.flush();
}

/** As a client's hooks do it. */
function sign(state: 'idle' | 'busy'): void {
  writeFileSync(`${signPath}.new`, `${state} ${Math.floor(Date.now() / 1000)} ${process.pid}\n`);
  renameSync(`${signPath}.new`, signPath);
}

function draw(): void {
  process.stdout.write(`\u001b[2J\u001b[Ha scripted agent\r\n\r\n› ${composer === '' ? HINT : composer}`);
}

function entered(): void {
  say('entered');
  composer = '';
  sign('busy');
  setTimeout(() => {
    draw();
    sign('idle');
    say('idle');
  }, TURN_MS);
}

/** Ctrl-U. */
function erase(): void {
  composer = '';
  draw();
}

/** Takes what came in from its beginning, as far as it is whole. */
function take(): void {
  while (input !== '') {
    if (input.startsWith(BEGIN)) {
      const end = input.indexOf(END);
      if (end < 0) return;
      composer += input.slice(BEGIN.length, end);
      input = input.slice(end + END.length);
      say('pasted', composer);
      draw();
    } else if (BEGIN.startsWith(input)) return;
    else {
      const key = input[0];
      input = input.slice(1);
      if (key === '\r') entered();
      if (key === '\u0015') erase();
    }
  }
}

process.stdin.setRawMode(true);
process.stdin.on('data', (bytes: Buffer) => {
  input += bytes.toString();
  take();
});
process.stdout.write('\u001b[?2004h');
draw();
sign('idle');
say('idle');
