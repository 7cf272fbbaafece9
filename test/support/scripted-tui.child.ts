// A small agent for a terminal: `bun scripted-tui.child.ts <folder>`. It takes bracketed pastes in raw mode, draws a composer and, on
// order, a dialog. It logs each prompt and each answer as one JSON line in <folder>/log, and writes its state to <folder>/sign. Orders come
// as lines on the socket <folder>/orders: dialog, draft <text>, busy, idle, starting, slow, mute, quit, deaf <number> (this many Enters do
// nothing).
import { appendFileSync, writeFileSync } from 'node:fs';
import { writeClientState } from '../../src/sessions/client-state.ts';
import type { Activity } from '../../src/sessions/client-state.ts';

const folder = process.argv[2] ?? '';
const plain = process.argv[3] === 'plain';
const BEGIN = '\u001b[200~';
const END = '\u001b[201~';

let state: Activity = 'idle';
let composer = '';
let pasting = false;
/** The number of pastes and of single keys in the composer. */
let made = { pastes: 0, keys: 0 };
let turns = true;
let mute = false;
let deaf = 0;
let input = '';

async function become(next: Activity): Promise<void> {
  state = next;
  draw();
  if (!mute) await writeClientState(`${folder}/sign`, next, Date.now(), process.pid);
  note({ state: next });
}

function note(what: Record<string, unknown>): void {
  appendFileSync(`${folder}/log`, `${JSON.stringify(what)}\n`);
}

function draw(): void {
  const shown = composer.includes('\n') || composer.length > 60 ? `[pasted ${composer.length}]` : composer;
  const rows =
    state === 'dialog'
      ? ['Run this command?', ' 1. Yes', ' 2. No']
      : state === 'starting'
        ? ['loading']
        : [...(state === 'busy' ? ['Working…'] : []), `> ${shown === '' ? '\u001b[2mask anything\u001b[0m' : shown}`];
  process.stdout.write(`\u001b[2J\u001b[Hscripted agent\r\n${rows.join('\r\n')}`);
}

async function enter(): Promise<void> {
  if (state === 'dialog') {
    note({ approved: true });
    return become('idle');
  }
  if (composer === '') return;
  if (deaf > 0) {
    deaf -= 1;
    return;
  }
  note({ prompt: composer, ...made });
  made = { pastes: 0, keys: 0 };
  composer = '';
  await become('busy');
  if (turns) await become('idle');
}

/** Handles the complete keys and pastes in the input; leaves an incomplete one for later. */
async function take(): Promise<void> {
  for (;;) {
    if (pasting) {
      const end = input.indexOf(END);
      if (end < 0) return;
      if (state !== 'dialog') composer += input.slice(0, end);
      made.pastes += 1;
      [input, pasting] = [input.slice(end + END.length), false];
      draw();
    } else if (input.startsWith(BEGIN)) [input, pasting] = [input.slice(BEGIN.length), true];
    else if (input === '' || (input.startsWith('\u001b') && input.length < BEGIN.length)) return;
    else {
      const key = input[0] ?? '';
      input = input.slice(1);
      if (key === '\r') await enter();
      else if (key === '\u0015') {
        made = { pastes: 0, keys: 0 };
        composer = composer.slice(0, composer.lastIndexOf('\n') + 1).replace(/\n$/, '');
        draw();
      } else if (state !== 'dialog') {
        composer += key;
        made.keys += 1;
      }
    }
  }
}

async function order(words: string): Promise<void> {
  const [what = '', ...rest] = words.split(' ');
  if (what === 'draft') {
    composer = rest.join(' ');
    draw();
  } else if (what === 'slow') turns = false;
  else if (what === 'mute') mute = true;
  else if (what === 'deaf') deaf = Number(rest[0]);
  else if (what === 'quit') process.exit(0);
  else await become(what as Activity);
}

Bun.listen<{ rest: string }>({
  unix: `${folder}/orders`,
  socket: {
    open: (socket) => void (socket.data = { rest: '' }),
    data: async (socket, bytes) => {
      socket.data.rest += bytes.toString();
      const lines = socket.data.rest.split('\n');
      socket.data.rest = lines.pop() ?? '';
      for (const line of lines) {
        await order(line);
        socket.write(`done\n`);
      }
    },
  },
});

const decoder = new TextDecoder();
let taking = Promise.resolve();
process.stdin.setRawMode(true);
process.stdin.on('data', (bytes: Buffer) => {
  input += decoder.decode(bytes, { stream: true });
  taking = taking.then(take);
});
if (!plain) process.stdout.write('\u001b[?2004h');
writeFileSync(`${folder}/pid`, String(process.pid));
await become('idle');
