// The old kimi with its wire, as far as a bridge can tell: `kimi.child.ts <folder> …`. What it does at each start with --wire is the next
// word of <folder>/plan.json (the last one stays); what it heard goes to <folder>/heard.jsonl.
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';

const [, , folder = '', ...argv] = process.argv;
const plan = JSON.parse(readFileSync(`${folder}/plan.json`, 'utf8')) as { version: string; acts: string[] };

function note(fact: object): void {
  appendFileSync(`${folder}/heard.jsonl`, `${JSON.stringify(fact)}\n`);
}

function say(frame: object): void {
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...frame })}\n`);
}

if (argv.includes('--version')) {
  console.log(`kimi, version ${plan.version}`);
  process.exit(0);
}
const [act = 'accept', ...others] = plan.acts;
if (others.length > 0) writeFileSync(`${folder}/plan.json`, JSON.stringify({ ...plan, acts: others }));
note({ started: argv, pid: process.pid });
if (act === 'fall') {
  console.error('no terminal');
  process.exit(1);
}
if (act === 'stubborn') process.on('SIGTERM', () => {});

const answers: Record<string, (id: string) => void> = {
  accept: (id) => say({ id, result: { status: 'finished', steps: 1 } }),
  busy: (id) => say({ id, error: { code: -32000, message: 'busy' } }),
  refuse: (id) => say({ id, error: { code: -32003, message: 'LLM is not reachable' } }),
  die: () => process.exit(3),
  hang: (id) => {
    calledOff = () => say({ id, result: { status: 'cancelled' } });
  },
  stubborn: () => {},
  ask: (id) => {
    say({ method: 'request', id: 'r1', params: { type: 'ApprovalRequest', payload: { id: 'a1', action: 'rm -rf' } } });
    waiting = () => say({ id, result: { status: 'finished' } });
  },
};
let waiting = (): void => {};
let calledOff = (): void => {};

for await (const line of linesOf(Bun.stdin.stream())) {
  const { id, method, params, result } = JSON.parse(line) as {
    id: string;
    method?: string;
    params?: Record<string, unknown>;
    result?: unknown;
  };
  if (method === 'initialize') {
    note({ initialize: params });
    say({
      id,
      result: { protocol_version: '1.10', server: { name: 'kimi', version: plan.version }, slash_commands: [] },
    });
  } else if (method === 'prompt') {
    note({ prompt: params?.['user_input'] });
    say({ method: 'event', params: { type: 'TurnBegin', payload: { user_input: params?.['user_input'] } } });
    answers[act]?.(id);
  } else if (method === 'cancel') {
    note({ cancel: true });
    say({ id, result: {} });
    calledOff();
  } else if (result !== undefined) {
    note({ reply: result });
    waiting();
  }
}
note({ ended: process.pid });
if (act === 'stubborn') await new Promise(() => setInterval(() => {}, 1000));

async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of stream) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n');
    rest = lines.pop() ?? '';
    yield* lines;
  }
}
