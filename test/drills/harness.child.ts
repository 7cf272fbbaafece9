// A harness that keeps what it was given, and says `done` to each event. One frame in ten is lost, doubled or late, both ways.
import { appendFileSync, existsSync, readFileSync } from 'node:fs';

/** What a harness is told to do. */
export interface Plan {
  socket: string;
  /** The diary: what was put before the model, and what the host knows to be done. */
  diary: string;
  readers: string[];
  token: string;
}

export interface Line {
  /** Put before the model of this reader, together, in this order. */
  shown?: string[];
  reader?: string;
  done?: string;
  /** Something that must not happen. */
  fault?: string;
}

interface Frame {
  id?: string;
  method?: string;
  params?: { eventId: string; merged?: string[]; sessionId: string };
  result?: object;
  error?: { code: number; message: string };
}

const CHAOS = 0.1;
const PATIENCE_MS = 500;
const AT_ONCE = 32;

const plan = JSON.parse(process.argv[2] ?? '') as Plan;
const shown = new Map<string, string>();
/** Shown, and not known to be done. */
const open = new Set<string>();
for (const line of diary()) {
  for (const id of line.shown ?? []) {
    shown.set(id, line.reader ?? '');
    open.add(id);
  }
  if (line.done !== undefined) open.delete(line.done);
}
const answers = new Map<string, (frame: Frame) => void>();
let write: (text: string) => void = () => {};
let count = 0;

for (;;) {
  try {
    await serve();
  } catch {
    // The host is away, or did not answer: from the start.
  }
  await Bun.sleep(50);
}

function diary(): Line[] {
  if (!existsSync(plan.diary)) return [];
  // The last line may be half written: it was never acted on.
  const lines = readFileSync(plan.diary, 'utf8').split('\n').slice(0, -1);
  return lines.map((line) => JSON.parse(line) as Line);
}

function note(line: Line): void {
  appendFileSync(plan.diary, `${JSON.stringify(line)}\n`);
}

async function serve(): Promise<void> {
  const closed = Promise.withResolvers<void>();
  const decoder = new TextDecoder();
  const heard = chaotic((text) => hear(JSON.parse(text) as Frame));
  let rest = '';
  const socket = await Bun.connect({
    unix: plan.socket,
    socket: {
      data(_socket, bytes) {
        const lines = (rest + decoder.decode(bytes, { stream: true })).split('\n');
        rest = lines.pop() ?? '';
        lines.forEach(heard);
      },
      close: () => closed.resolve(),
    },
  });
  let unsent = '';
  write = chaotic((text) => {
    unsent += `${text}\n`;
    const bytes = Buffer.from(unsent);
    const sent = socket.write(bytes);
    unsent = bytes.subarray(Math.max(sent, 0)).toString();
  });
  try {
    await ask('initialize', {
      protocolVersion: '2026-06-02',
      clientInfo: { name: 'drill', version: '1' },
      capabilities: {
        delivery: { ack: true, redelivery: true, idempotency: true },
        injection: { immediate: true, buffered: true, notify: true, tool_mailbox: true, digest: true },
        chatTools: { readThread: true, sendMessage: true, react: true, reactionSignals: true, claim: true },
      },
    });
    for (const reader of plan.readers) {
      await ask('session/bind', { sessionId: reader, identities: [reader], token: plan.token });
    }
    const isOver = { now: false };
    const working = workOff(isOver);
    await Promise.race([closed.promise, working]);
    isOver.now = true;
    await working;
  } finally {
    socket.end();
  }
}

/** Says `done` to everything that was shown, again until the host has heard it. */
async function workOff(isOver: { now: boolean }): Promise<void> {
  const asked = new Set<string>();
  const lanes = Array.from({ length: AT_ONCE }, async () => {
    while (!isOver.now) {
      const id = open.values().find((one) => !asked.has(one));
      if (id === undefined) await Bun.sleep(5);
      else {
        asked.add(id);
        await settle(id).catch(() => {});
        asked.delete(id);
      }
    }
  });
  await Promise.all(lanes);
}

async function settle(id: string): Promise<void> {
  const { error } = await ask('chat.react', { inReplyTo: id, signal: 'done', sessionId: shown.get(id) });
  if (error) note({ fault: `done was refused: ${error.message}` });
  open.delete(id);
  note({ done: id });
}

function hear(frame: Frame): void {
  if (frame.method !== 'chat/deliver' || !frame.params) {
    const answer = answers.get(String(frame.id));
    answers.delete(String(frame.id));
    return answer?.(frame);
  }
  const { eventId, merged = [eventId], sessionId } = frame.params;
  const fresh = merged.filter((id) => !shown.has(id));
  if (fresh.length > 0) {
    if (fresh.length < merged.length) note({ fault: `shown twice: ${merged.join(' ')}` });
    for (const id of fresh) {
      shown.set(id, sessionId);
      open.add(id);
    }
    note({ shown: fresh, reader: sessionId });
  }
  write(JSON.stringify({ jsonrpc: '2.0', id: frame.id, result: {} }));
}

async function ask(method: string, params: object): Promise<Frame> {
  count += 1;
  const id = `${process.pid}-${count}`;
  const answer = Promise.withResolvers<Frame>();
  answers.set(id, answer.resolve);
  const timer = setTimeout(() => answer.reject(new Error('no answer')), PATIENCE_MS);
  write(JSON.stringify({ jsonrpc: '2.0', id, method, params }));
  try {
    return await answer.promise;
  } finally {
    clearTimeout(timer);
    answers.delete(id);
  }
}

/** Loses, doubles or holds back some of what passes; what is held back comes after the next. */
function chaotic(pass: (text: string) => void): (text: string) => void {
  let held: string[] = [];
  return (text) => {
    const dice = Math.random() / CHAOS;
    if (dice < 1 / 3) return;
    if (dice < 2 / 3) pass(text);
    else if (dice < 1) return void held.push(text);
    const late = held;
    held = [];
    for (const one of [text, ...late]) pass(one);
  };
}
