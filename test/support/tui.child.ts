// A client in a terminal, as far as a loop can tell: it takes bracketed pastes and keys, sends what stands in its composer on Enter,
// says in its sign file what it does, and keeps in <folder>/<session>.jsonl its starts and everything that was sent to it.
// `tui.child.ts <folder> …`. A file <folder>/state (busy, dialog, …) says what it should be instead of idle.
import { appendFileSync, existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';

const [, , folder = '', ...argv] = process.argv;
const env = process.env;
const session = env['C2C_MCP_SESSION_ID'] ?? 'none';
const signs = `${env['HOME']}/.local/share/c2c/signs`;
const log = `${folder}/${session}.jsonl`;
const NAMES = [
  'C2C_MCP_SESSION_ID',
  'C2C_MCP_AUTO_REGISTER_ALIAS',
  'C2C_INSTANCE_NAME',
  'C2C_MCP_BROKER_ROOT',
  'C2C_MCP_CLIENT_PID',
];
const PASTE = /\u001B\[200~([\s\S]*?)\u001B\[201~/;

let composer = '';
let said = '';
let works = false;

function sign(state: string): void {
  if (said === state) return;
  said = state;
  mkdirSync(signs, { recursive: true });
  writeFileSync(`${signs}/.${session}`, `${state} ${Math.floor(Date.now() / 1000)} ${process.pid}\n`);
  renameSync(`${signs}/.${session}`, `${signs}/${session}`);
}

function draw(): void {
  process.stdout.write(`\u001B[2J\u001B[Hscripted client\r\n\r\n› ${composer.replaceAll('\n', ' ')}`);
}

function wished(): string {
  return existsSync(`${folder}/state`) ? readFileSync(`${folder}/state`, 'utf8').trim() : 'idle';
}

function submit(): void {
  if (composer === '') return;
  appendFileSync(log, `${JSON.stringify({ sent: composer, at: Date.now() })}\n`);
  composer = '';
  works = true;
  sign('busy');
  setTimeout(() => {
    works = false;
    sign(wished());
  }, 30);
}

const given = Object.fromEntries(NAMES.map((name) => [name, env[name] ?? null]));
appendFileSync(log, `${JSON.stringify({ started: argv, pid: process.pid, env: given, cwd: process.cwd() })}\n`);
process.stdin.setRawMode(true);
process.stdout.write('\u001B[?2004h');
draw();
sign(wished());
setInterval(() => {
  if (!works) sign(wished());
}, 20);

let rest = '';
process.stdin.on('data', (chunk: Buffer) => {
  rest += chunk.toString();
  for (;;) {
    const paste = PASTE.exec(rest);
    if (paste?.index === 0) {
      composer += (paste[1] ?? '').replaceAll('\r', '\n');
      rest = rest.slice(paste[0].length);
    } else if (rest.startsWith('\u001B[200~') || rest === '') break;
    else {
      const key = rest.slice(0, 1);
      rest = rest.slice(1);
      if (key === '\r') submit();
      else if (key === '\u0015') composer = '';
      else composer += key;
    }
  }
  draw();
});
