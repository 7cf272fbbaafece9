// A stand-in for Claude Code 2.1.325 in a terminal: `bun claude-tui.child.ts <folder> [-c | --resume <id>] [flags…]`. See claude-tui.ts.
// It keeps the client's own records (registry, transcript), draws its composer, and has its pitfalls: prompts typed while it works are
// joined into one turn, `!` runs a shell, `/status` opens a panel, Enter answers an open question, Esc puts a prompt back into the composer.
// It takes messages of other programs on its messaging socket.
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { startOf } from '../../src/platform/process.ts';
import { ClaudeDialog, type DialogEnd } from './claude-dialog.ts';
import type { ClaudeAnswer, ClaudeStart } from './claude-tui.ts';

const [, , folder = '', ...argv] = process.argv;
const env = process.env;
const config = env['CLAUDE_CONFIG_DIR'] || `${env['HOME']}/.claude`;
const cwd = process.cwd();
const projects = `${config}/projects/${cwd.replace(/[^A-Za-z0-9]/g, '-')}`;
const registry = `${config}/sessions/${process.pid}.json`;
const messaging = `${folder}/socks/${process.pid}.sock`;
const startOptions = (): ClaudeStart =>
  existsSync(`${folder}/start.json`) ? (JSON.parse(readFileSync(`${folder}/start.json`, 'utf8')) as ClaudeStart) : {};
const start = startOptions();

const NBSP = '\u00A0';
const PASTE = { begin: '\u001B[200~', end: '\u001B[201~' };
/** Characters that the client removes from a prompt; those of `REVIEWED` make it ask for a second Enter. */
const INVISIBLE =
  /[\u00AD\u200B\u200E\u200F\u2060-\u2064\uFEFF\u{E0000}-\u{E007F}]|[\u0000-\u0008\u000B-\u001F\u007F]/gu;
const REVIEWED = /[\u202A-\u202E\u2066-\u2069]/gu;
const ESC_MS = 60;

const KEYS: Record<string, string> = { '\u001B[A': 'Up', '\u001B[B': 'Down', '\u001B[C': 'Right', '\u001B[D': 'Left' };

type Mode = 'composer' | 'dialog' | 'panel' | 'asking';
/** A message that another program wrote to the messaging socket. */
interface PeerMessage {
  content: string;
  from: string;
  msg_id: string;
}
interface Turn {
  /** The user lines of this turn. */
  uuids: string[];
  prompts: string[];
  answer: ClaudeAnswer;
  at: number;
  hasSaid: boolean;
  finish: (text?: string) => void;
}

let session = crypto.randomUUID() as string;
let mode: Mode = 'composer';
let [composer, isReviewed, notice] = ['', false, ''];
let shown: string[] = [];
let turn: Turn | null = null;
let queued: (string | PeerMessage)[] = [];
/** Messages that wait for the user's approval. */
let held: PeerMessage[] = [];
let status: { status?: string; waitingFor?: string } = {};
let parent: string | null = null;
let index = 0;
/** The last request to the model: its answer (`of`, turn and message id) and its id. All blocks of a message answer one request. */
let request = { of: '', id: '' };
/** The call whose dialog is open, and the function to call with its end. */
let asking: { id: string; dialog: ClaudeDialog; ended: (end: DialogEnd) => void } | null = null;
let isBehind = false;
let isSwallowing = false;
const startedAt = Date.now() - (start.ageMs ?? 0);

/** One line of the log that the test reads. */
function note(what: Record<string, unknown>): void {
  appendFileSync(`${folder}/log`, `${JSON.stringify({ pid: process.pid, session, cwd, ...what })}\n`);
}

function register(next: typeof status): void {
  status = next;
  const now = Date.now();
  const entry = {
    pid: process.pid,
    sessionId: session,
    cwd,
    startedAt,
    procStart: startOf(process.pid),
    version: '2.1.325',
    kind: 'interactive',
    entrypoint: 'cli',
    ...(tmux && { tmux }),
    messagingSocketPath: messaging,
    name: 'stand-in',
    ...next,
    updatedAt: now,
    ...(next.status && { statusUpdatedAt: now }),
  };
  // Draw first: a reader of the registry may read the screen next.
  draw();
  mkdirSync(`${config}/sessions`, { recursive: true });
  writeFileSync(`${registry}.new`, JSON.stringify(entry));
  renameSync(`${registry}.new`, registry);
}

const transcript = (id = session): string => `${projects}/${id}.jsonl`;

function write(...lines: Record<string, unknown>[]): void {
  mkdirSync(projects, { recursive: true });
  appendFileSync(transcript(), lines.map((line) => `${JSON.stringify({ ...line, sessionId: session })}\n`).join(''));
}

/** Writes an entry of the conversation, whose parent is the last one. */
function entry(type: string, more: Record<string, unknown>): string {
  const uuid = crypto.randomUUID();
  const common = { userType: 'external', entrypoint: 'cli', cwd, version: '2.1.325', gitBranch: 'HEAD' };
  write({
    parentUuid: parent,
    isSidechain: false,
    type,
    ...more,
    uuid,
    timestamp: new Date().toISOString(),
    ...common,
  });
  parent = uuid;
  return uuid;
}

function userLine(text: string, promptSource: 'typed' | 'queued'): string {
  write({ type: 'file-history-snapshot', messageId: crypto.randomUUID(), isSnapshotUpdate: false });
  write({ type: 'api-request-blob', hash: '0', message: { role: 'user', content: [{ type: 'text', text }] } });
  return entry('user', {
    promptId: crypto.randomUUID(),
    message: { role: 'user', content: text },
    permissionMode: 'default',
    origin: { kind: 'human' },
    promptSource,
    turnOrigin: 'human',
    turnPosition: { promptIndex: index, turnIndex: index },
  });
}

function assistantLine(id: string, block: Record<string, unknown>, stop: string | null): void {
  const message = { id, type: 'message', role: 'assistant', model: 'stand-in', content: [block], stop_reason: stop };
  if (request.of !== `${index} ${id}`) {
    request = { of: `${index} ${id}`, id: crypto.randomUUID() };
    // The real client records the request before it connects.
    write({ type: 'api-request', id: request.id, timestamp: new Date().toISOString(), keep: 0, tail: [] });
  }
  entry(
    'assistant',
    start.inbound === 'offline' ? { message, isApiErrorMessage: true } : { message, requestRef: request.id },
  );
}

const textOf = (said: string | PeerMessage): string => (typeof said === 'string' ? said : said.content);
const originOf = ({ from, msg_id }: PeerMessage): Record<string, unknown> => ({ kind: 'peer', from, msg_id });
const queueLine = (operation: string, more: Record<string, unknown> = {}): void =>
  write({ type: 'queue-operation', operation, timestamp: new Date().toISOString(), ...more });

/** Writes a message of another program as a line of the conversation. */
function peerLine(peer: PeerMessage): string {
  const content = `Another Claude session sent a message:\n${peer.content}\n\nThis came from another Claude session.`;
  const message = { role: 'user', content };
  return entry('user', {
    promptId: crypto.randomUUID(),
    message,
    isMeta: true,
    origin: originOf(peer),
    promptSource: 'system',
  });
}

/** Gives messages of other programs that came during the turn to the model, as after a tool call. */
function absorb(): void {
  const peers = queued.filter((one) => typeof one !== 'string');
  queued = queued.filter((one) => typeof one === 'string');
  for (const peer of peers) {
    queueLine('remove', { content: peer.content, reason: 'absorbed_mid_turn' });
    const attachment = { type: 'queued_command', prompt: peer.content, origin: originOf(peer), isMeta: true };
    entry('attachment', { attachment });
    note({ absorbed: peer.content });
  }
}

/** Handles one line on the messaging socket. */
async function receive(line: string): Promise<void> {
  const { type, message, from, msg_id, session_id } = JSON.parse(line) as Record<string, string> & {
    message: { content: string };
  };
  if (type !== 'user' || (session_id !== undefined && session_id !== session)) return;
  const peer = { content: message.content, from: from ?? '', msg_id: msg_id ?? '' };
  note({ received: peer.content });
  if (start.inbound === 'die') process.kill(process.pid, 'SIGKILL');
  if (start.inbound === 'deaf') return;
  if (start.inbound === 'hold') {
    held.push(peer);
    entry('system', { subtype: 'informational', content: 'Held peer message', isMeta: false });
    return report(peer, { status: 'held' });
  }
  if (start.inbound === 'refuse') return report(peer, { status: 'expired', status_detail: 'refused' });
  if (start.inbound === 'drop') return report(peer, { status: 'dropped', drop_reason: 'rate-limited' });
  enqueue(peer);
}

function enqueue(peer: PeerMessage): void {
  queueLine('enqueue', { content: peer.content });
  queued.push(peer);
  if (!turn && mode === 'composer') void next();
}

/** Reports the outcome of a message to its sender's own socket. */
async function report({ from, msg_id }: PeerMessage, status: Record<string, string>): Promise<void> {
  const socket = await Bun.connect({ unix: from.slice('uds:'.length), socket: { data() {} } });
  socket.write(
    `${JSON.stringify({ type: 'control', action: 'peer_message_status', ...status, orig_msg_id: msg_id })}\n`,
  );
  socket.end();
}

/** The answer that a prompt asks for: `@@{"delay":500,"text":"…"}@@` anywhere in it. */
function answerFor(text: string): ClaudeAnswer {
  const [, json] = /@@(\{.*?\})@@/s.exec(text) ?? [];
  return json === undefined ? { text: `re: ${text.slice(0, 60)}` } : (JSON.parse(json) as ClaudeAnswer);
}

async function work(said: (string | PeerMessage)[], source: 'typed' | 'queued'): Promise<void> {
  index += 1;
  const prompts = said.map(textOf);
  const answer = answerFor(prompts.at(-1) ?? '');
  const { promise, resolve } = Promise.withResolvers<string | undefined>();
  const mine: Turn = { uuids: [], prompts, answer, at: Date.now(), hasSaid: false, finish: resolve };
  turn = mine;
  shown.push(...prompts.map((prompt) => `❯${NBSP}${prompt.split('\n')[0]?.slice(0, 60)}`));
  register({ status: 'busy' });
  mine.uuids = said.map((one) => (typeof one === 'string' ? userLine(one, source) : peerLine(one)));
  note({ prompt: prompts.join('\n'), prompts });
  if (answer.die) process.kill(process.pid, 'SIGKILL');
  if (answer.tool) {
    mine.hasSaid = true;
    assistantLine('msg_tool', { type: 'text', text: 'I look first.' }, null);
    assistantLine(
      'msg_tool',
      { type: 'tool_use', id: 'toolu_1', name: 'Bash', input: { command: 'true' } },
      'tool_use',
    );
    const content = [{ tool_use_id: 'toolu_1', type: 'tool_result', content: 'done', is_error: false }];
    entry('user', { message: { role: 'user', content }, toolUseResult: { stdout: 'done' } });
  }
  if (answer.asks) {
    await askAll(answer.asks);
    if (turn !== mine) return;
  }
  if (answer.ask) openDialog(answer.ask);
  const text = answer.hold || answer.ask ? await promise : await afterDelay(mine, promise);
  if (turn !== mine) return;
  absorb();
  const id = `msg_${crypto.randomUUID()}`;
  for (const [n, part] of (answer.parts ?? [text ?? answer.text ?? 'ok']).entries()) {
    const isLast = n === (answer.parts?.length ?? 1) - 1;
    assistantLine(id, { type: 'text', text: part }, isLast ? 'end_turn' : null);
    shown.push(`● ${part.split('\n')[0]}`);
  }
  if (!answer.noEnd) entry('system', { subtype: 'turn_duration', durationMs: Date.now() - mine.at, isMeta: false });
  turn = null;
  await next();
}

/** Runs calls that open dialogs. All calls are recorded first; then their dialogs open one after the other, without a pause. */
async function askAll(calls: NonNullable<ClaudeAnswer['asks']>): Promise<void> {
  const all = calls.map((call) => ({ id: `toolu_${crypto.randomUUID()}`, dialog: new ClaudeDialog(call) }));
  for (const { id, dialog } of all) assistantLine('msg_ask', { type: 'tool_use', id, ...dialog.tool }, 'tool_use');
  let last: { id: string; end: DialogEnd } | null = null;
  for (const { id, dialog } of all) {
    const { promise, resolve } = Promise.withResolvers<DialogEnd>();
    [asking, mode] = [{ id, dialog, ended: resolve }, 'asking'];
    note({ opened: id });
    if (last) await result(last);
    register({ status: 'waiting', waitingFor: dialog.waitingFor });
    last = { id, end: await promise };
    note({ closed: id, end: last.end });
  }
  if (last) await result(last);
  register({ status: 'busy' });
}

/** Records the result of a call. With `lagMs` it does this late and does not draw meanwhile, while the next dialog already takes keys. */
async function result({ id, end }: { id: string; end: DialogEnd }): Promise<void> {
  if (start.lagMs) {
    isBehind = true;
    await Bun.sleep(start.lagMs);
    isBehind = false;
  }
  const answers = typeof end === 'object' && 'answers' in end ? end.answers : undefined;
  const content = [
    { type: 'tool_result', tool_use_id: id, content: JSON.stringify(end), is_error: end === 'cancelled' },
  ];
  entry('user', { message: { role: 'user', content }, toolUseResult: answers ? { answers, annotations: {} } : {} });
}

/** Handles a key in an open dialog. If another dialog follows, it is open before the next key is handled. */
function pressDialog(key: string): void {
  const open = asking;
  if (!open || (start.deafMs && performance.now() < start.deafMs)) return;
  note({ key, into: open.id });
  const end = open.dialog.press(key);
  if (end !== null) {
    [asking, mode] = [null, 'composer'];
    open.ended(end);
  }
  draw();
}

async function afterDelay(mine: Turn, promise: Promise<string | undefined>): Promise<string | undefined> {
  const timer = setTimeout(() => mine.finish(), mine.answer.delay ?? 20);
  return promise.finally(() => clearTimeout(timer));
}

/** Starts one turn with all queued prompts and messages. */
async function next(): Promise<void> {
  const waiting = queued.splice(0);
  if (waiting.length === 0) return register({ status: 'idle' });
  for (const _one of waiting) queueLine('dequeue');
  await work(waiting, 'queued');
}

/** Handles Esc during a turn. Before the first output, the prompt returns to the composer and no interruption is recorded. */
async function interrupt(): Promise<void> {
  const cut = turn;
  if (!cut) return;
  turn = null;
  note({ interrupted: cut.prompts });
  if (cut.hasSaid) {
    const content = [{ type: 'text', text: '[Request interrupted by user]' }];
    entry('user', { message: { role: 'user', content } });
  } else composer = cut.prompts.join('\n');
  await next();
}

function openDialog(waitingFor: string): void {
  mode = waitingFor === 'dialog open' ? 'panel' : 'dialog';
  register({ status: 'waiting', waitingFor });
}

async function closeDialog(): Promise<void> {
  mode = 'composer';
  if (turn) {
    register({ status: 'busy' });
    turn.finish();
  } else await next();
}

async function enter(): Promise<void> {
  if (mode === 'asking') return pressDialog('Enter');
  if (start.ignoresEnter) return note({ ignored: composer });
  if (mode === 'composer' && isSwallowing) {
    composer = '';
    return draw();
  }
  if (mode === 'panel') return note({ panel: 'Enter' });
  if (mode === 'dialog') {
    note({ approved: true });
    return closeDialog();
  }
  if (composer.endsWith('\\')) {
    composer = `${composer.slice(0, -1)}\n`;
    return draw();
  }
  if (/(^|\s)(:[a-z+]\w+|@\/\S+)$/.test(composer)) {
    // Enter accepts the completion of the word, and does not submit.
    composer += ' ';
    note({ completed: composer });
    return draw();
  }
  const clean = composer.replace(INVISIBLE, '').replace(REVIEWED, '').trim();
  const uncovers = /^[!/]/.test(clean) && !/^\s*[!/]/.test(composer);
  if (!isReviewed && clean !== composer.trim() && (REVIEWED.test(composer) || uncovers)) {
    [composer, isReviewed, notice] = [clean, true, 'Removed invisible characters · review and press Enter to send'];
    note({ reviewed: clean });
    return draw();
  }
  const isShell = composer.startsWith('!');
  [composer, isReviewed, notice] = ['', false, ''];
  if (clean === '') return draw();
  if (isShell) {
    note({ shell: clean.slice(1) });
    entry('user', {
      promptId: crypto.randomUUID(),
      message: { role: 'user', content: `<bash-input>${clean.slice(1)}</bash-input>` },
    });
    return draw();
  }
  const [, command] = /^\/([^\s/]*)(?:\s|$)/.exec(clean) ?? [];
  if (command !== undefined) return slash(command);
  if (/^(exit|quit|:q!?|:wq!?)$/.test(clean)) return quit(0);
  if (turn) {
    queueLine('enqueue', { content: clean });
    queued.push(clean);
    note({ queued: clean });
    return draw();
  }
  // Not awaited: keys are handled during the turn.
  void work([clean], 'typed');
}

function slash(command: string): void {
  note({ command });
  if (command === 'clear') {
    [session, parent, shown] = [crypto.randomUUID(), null, []];
    return register({ status: 'idle' });
  }
  if (command === 'status' || command === 'config') return openDialog('dialog open');
  notice = `Unknown command: /${command}`;
  draw();
}

function quit(code: number): void {
  note({ ended: code });
  rmSync(registry, { force: true });
  rmSync(messaging, { force: true });
  process.stdout.write('\u001B[?2004l\r\n');
  process.exit(code);
}

let drawing: ReturnType<typeof setTimeout> | undefined;

function draw(): void {
  if (!start.drawMs) return drawNow();
  clearTimeout(drawing);
  drawing = setTimeout(drawNow, start.drawMs);
}

function drawNow(): void {
  if (isBehind) return;
  const width = process.stdout.columns || 80;
  const rule = '─'.repeat(width);
  const dialog = [' Do you want to proceed?', ' ❯ 1. Yes', '   2. No', '', ' Esc to cancel'];
  const panel = ['▔'.repeat(width), '   Settings  Status   Config', '   Version: 2.1.325', '   Esc to cancel'];
  const long = composer.length > 800 || composer.split('\n').length > 3;
  const typed = long ? [`[Pasted text #1 +${composer.split('\n').length} lines]`] : composer.split('\n');
  const rows = typed.map((line, n) => `${n === 0 ? `❯${NBSP}` : '  '}${line}`);
  const box =
    mode === 'asking'
      ? (asking?.dialog.draw(width) ?? [])
      : mode === 'dialog'
        ? dialog
        : mode === 'panel'
          ? panel
          : [
              ...(turn ? ['✽ Creating… (0s)', ''] : []),
              rule,
              ...rows,
              rule,
              `  ${notice || '? for shortcuts'}${turn ? ' · esc to interrupt' : ''}`,
            ];
  const above = ['Claude Code v2.1.325 (a stand-in)', '', ...shown.slice(-8), ''];
  const screen = status.status === undefined ? ['loading'] : [...above, ...box];
  const row = screen.lastIndexOf(rule) - 1;
  const column = 2 + Bun.stringWidth(typed.at(-1) ?? '');
  const cursor =
    mode === 'composer' && row > 0 ? `\u001B[${row + 1 + Math.floor(column / width)};${(column % width) + 1}H` : '';
  process.stdout.write(`\u001B[2J\u001B[H${screen.join('\r\n')}${cursor}`);
}

let [input, pasting] = ['', false];
let escape: ReturnType<typeof setTimeout> | undefined;

/** Handles the complete keys and pastes in the input; leaves an incomplete one for later. */
async function take(): Promise<void> {
  for (;;) {
    if (pasting) {
      const end = input.indexOf(PASTE.end);
      if (end < 0) return;
      const text = withImages(input.slice(0, end)).replaceAll('\r', '\n').replaceAll('\t', '    ');
      [input, pasting] = [input.slice(end + PASTE.end.length), false];
      if (mode === 'composer') composer += text;
      else if (mode === 'asking') {
        note({ pasted: text, into: asking?.id });
        asking?.dialog.paste(text);
      } else note({ [mode]: text });
      draw();
    } else if (input.startsWith(PASTE.begin)) [input, pasting] = [input.slice(PASTE.begin.length), true];
    else if (input === '') return;
    else if (input.startsWith('\u001B') && PASTE.begin.startsWith(input)) {
      clearTimeout(escape);
      escape = setTimeout(() => void escaped(), ESC_MS);
      return;
    } else if (KEYS[input.slice(0, 3)] !== undefined) {
      const key = KEYS[input.slice(0, 3)] ?? '';
      input = input.slice(3);
      if (mode === 'asking') pressDialog(key);
      // A dialog that this key opens is open before the next key is handled.
      await Promise.resolve();
    } else {
      const key = input[0] ?? '';
      input = input.slice(1);
      await press(key);
    }
  }
}

/** Replaces each line that is only the path of an image by an image mark. */
function withImages(text: string): string {
  const lines = text.split('\n');
  const isImage = (line: string): boolean =>
    /^\/.*\.(png|jpe?g|gif|webp)$/i.test(line.trim()) && existsSync(line.trim());
  const images = lines.filter(isImage).map((_line, n) => `[Image #${n + 1}]`);
  return [images.join(' '), lines.filter((line) => !isImage(line)).join('\n')].join('');
}

async function escaped(): Promise<void> {
  if (input !== '\u001B') return;
  input = '';
  if (mode === 'asking') {
    note({ escaped: mode });
    asking?.ended('cancelled');
    [asking, mode] = [null, 'composer'];
    return;
  }
  if (mode !== 'composer') {
    note({ escaped: mode });
    return closeDialog();
  }
  await interrupt();
}

async function press(key: string): Promise<void> {
  if (key === '\r') return enter();
  if (key === '\u0003') return quit(0);
  if (mode === 'asking') return pressDialog(key);
  if (mode !== 'composer') return note({ [mode]: key });
  if (key === '\u0015') composer = composer.slice(0, composer.lastIndexOf('\n') + 1).replace(/\n$/, '');
  else if (key === '\u007F') composer = composer.slice(0, -1);
  else composer += key;
  draw();
}

/** Carries out an order of the test, one JSON object per line: see ClaudeOrder. */
async function order(what: Record<string, string>): Promise<void> {
  if (what['draft'] !== undefined) composer = what['draft'];
  if (what['enter'] !== undefined) {
    start.ignoresEnter = what['enter'] === 'ignored';
    isSwallowing = what['enter'] === 'swallowed';
  }
  if (what['dialog'] !== undefined) openDialog(what['dialog']);
  if (what['close'] !== undefined) await closeDialog();
  // The decision of a PermissionRequest hook.
  if (what['decides'] !== undefined && asking) {
    const { ended } = asking;
    [asking, mode] = [null, 'composer'];
    ended(JSON.parse(what['decides']) as DialogEnd);
  }
  if (what['finish'] !== undefined) turn?.finish(what['finish']);
  if (what['status'] !== undefined) register({ status: what['status'] });
  if (what['inbound'] !== undefined) start.inbound = what['inbound'] as NonNullable<ClaudeStart['inbound']>;
  for (const peer of what['held'] === undefined ? [] : held.splice(0)) {
    await report(peer, { status: what['held'] === 'deliver' ? 'delivered' : 'denied' });
    if (what['held'] === 'deliver') enqueue(peer);
  }
  if (what['quit'] !== undefined) quit(Number(what['quit']));
  draw();
}

function conversations(): string[] {
  if (!existsSync(projects)) return [];
  const names = readdirSync(projects).filter((name) => name.endsWith('.jsonl'));
  const byAge = names.toSorted((a, b) => statSync(`${projects}/${b}`).mtimeMs - statSync(`${projects}/${a}`).mtimeMs);
  return byAge.map((name) => name.slice(0, -'.jsonl'.length));
}

/** Prints the error, and exits when the terminal has drawn it, because tmux loses output that it has not read. The terminal's cursor report shows that. */
async function fail(line: string, code: number): Promise<never> {
  note({ started: argv, ended: code });
  process.stdout.write(`${line}\r\n`);
  if (!process.stdin.isTTY) process.exit(code);
  process.stdin.setRawMode(true);
  process.stdout.write('\u001B[6n');
  await new Promise((resolve) => process.stdin.once('data', resolve));
  process.exit(code);
}

function tmuxPane(): string {
  if (!env['TMUX'] || !env['TMUX_PANE']) return '';
  const format = '#{session_name}:#{window_id}.#{pane_id}';
  return Bun.spawnSync(['tmux', 'display-message', '-p', '-t', env['TMUX_PANE'], format]).stdout.toString().trim();
}

/** Draws the dialog of the real client for a folder that its user does not trust, and waits for the answer. */
async function trustDialog(): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const rows = [' Accessing workspace:', '', ` ${cwd}`, '', ' Quick safety check: Is this a project you trust?', ''];
  let isYes = false;
  const drawn = (): void => {
    const choices = [` ${isYes ? ' ' : '❯'} No, exit`, ` ${isYes ? '❯' : ' '} Yes, I trust this folder`];
    const screen = [...rows, ...choices, '', ' Enter to confirm · Esc to cancel'];
    process.stdout.write(`\u001B[2J\u001B[H${screen.join('\r\n')}`);
  };
  const heard = (bytes: Buffer): void => {
    for (const key of bytes.toString().split(/(?=\u001B)|(?<=\r)|(?=\r)/)) {
      if (KEYS[key] === 'Down') isYes = true;
      else if (key === '\r' && isYes) resolve();
      else if (key === '\r' || key === '\u001B') void fail('', 1);
      else note({ dialog: key });
    }
    drawn();
  };
  process.stdin.setRawMode(true);
  process.stdin.on('data', heard);
  drawn();
  await promise;
  process.stdin.off('data', heard);
  note({ trusted: true });
  process.stdout.write('\u001B[2J\u001B[H');
}

if (start.exit) await fail(start.exit.line, start.exit.code);
if (argv.includes('--resume')) {
  session = argv[argv.indexOf('--resume') + 1] ?? '';
  if (!existsSync(transcript())) await fail(`No conversation found with session ID: ${session}`, 1);
} else if (argv.includes('-c')) session = conversations()[0] ?? (await fail('No conversation found to continue', 1));
if (existsSync(transcript())) index = readFileSync(transcript(), 'utf8').split('"promptSource"').length - 1;
const tmux = tmuxPane();
note({ started: argv });
if (start.trust) await trustDialog();
register({});
const decoder = new TextDecoder();
let taking = Promise.resolve();
process.stdin.setRawMode(true);
process.stdin.on('data', (bytes: Buffer) => {
  if (status.status === undefined) note({ early: bytes.toString() });
  clearTimeout(escape);
  input += decoder.decode(bytes, { stream: true });
  taking = taking.then(take);
});
process.stdin.on('end', () => quit(0));
process.on('SIGHUP', () => quit(129));
process.stdout.on('resize', draw);
process.stdout.write('\u001B[?2004h');
if (start.ms) await Bun.sleep(start.ms);
while (start.isHeld && startOptions().isHeld) await Bun.sleep(10);
mkdirSync(`${folder}/socks`, { recursive: true, mode: 0o700 });
listens(messaging, receive);
chmodSync(messaging, 0o600);
listens(`${folder}/${process.pid}.sock`, async (line, answer) => {
  await order(JSON.parse(line) as Record<string, string>);
  answer('done\n');
});
register({ status: 'idle' });
if (start.dialog) openDialog(start.dialog);

/** Listens on a socket, and handles its lines one after the other. */
function listens(path: string, take: (line: string, answer: (text: string) => void) => Promise<void>): void {
  let taken = Promise.resolve();
  Bun.listen<{ rest: string }>({
    unix: path,
    socket: {
      open: (socket) => void (socket.data = { rest: '' }),
      data: (socket, bytes) => {
        const lines = (socket.data.rest + bytes.toString()).split('\n');
        socket.data.rest = lines.pop() ?? '';
        for (const line of lines) taken = taken.then(() => take(line, (text) => void socket.write(text)));
      },
    },
  });
}
