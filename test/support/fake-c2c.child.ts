// Stands in for `c2c` where a test looks at the OpenCode plugin alone. What it has is in the folder FAKE_C2C: a file per message in inbox/,
// supervisors.json, and the file `arrivals`, whose lines the monitor prints. What it is asked goes to calls.jsonl, what is streamed to it
// to stream.jsonl.
import { appendFileSync, existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';

const folder = process.env['FAKE_C2C'] ?? '';
const args = process.argv.slice(2);
const option = (name: string): string => args[args.indexOf(name) + 1] ?? '';
const read = (path: string): unknown[] =>
  existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as unknown[]) : [];
// Anyone who sees the call below in the file may rely on it that a monitor listens.
let known = read(`${folder}/arrivals.json`).length;
const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => /^(C2C_|OPENCODE_)/.test(name)));
appendFileSync(`${folder}/calls.jsonl`, `${JSON.stringify({ args, pid: process.pid, env })}\n`);

if (existsSync(`${folder}/broken`)) process.exit(1);
switch (args.slice(0, args[0] === 'oc-plugin' ? 2 : 1).join(' ')) {
  case 'oc-plugin stream-write-statefile':
    appendFileSync(`${folder}/stream.jsonl`, '{"event":"start"}\n');
    for await (const bytes of Bun.stdin.stream()) appendFileSync(`${folder}/stream.jsonl`, bytes);
    break;
  case 'oc-plugin drain-inbox-to-spool': {
    const path = option('--spool-path');
    const waiting = readdirSync(`${folder}/inbox`)
      .sort()
      .map((name) => `${folder}/inbox/${name}`);
    const messages = [...read(path), ...waiting.flatMap(read)];
    if (messages.length > 0) {
      writeFileSync(`${path}.draining`, JSON.stringify(messages));
      renameSync(`${path}.draining`, path);
    }
    for (const one of waiting) rmSync(one);
    console.log(JSON.stringify({ ok: true, session_id: '', spool_path: path, count: messages.length, messages }));
    break;
  }
  case 'monitor': {
    for (;;) {
      const arrivals = read(`${folder}/arrivals.json`);
      for (; known < arrivals.length; known += 1) console.log(arrivals[known]);
      await Bun.sleep(10);
    }
  }
  case 'repo':
    console.log(JSON.stringify({ supervisors: read(`${folder}/supervisors.json`) }));
    break;
  case 'check-pending-reply': {
    const valid = read(`${folder}/supervisors.json`).includes(args[2]);
    console.log(JSON.stringify({ valid, requester_session_id: null, error: null }));
    break;
  }
  default:
    console.log('{}');
}
