import * as v from 'valibot';
import type { Env } from '../../core/env.ts';
import { unseen } from '../../sessions/terminal.ts';
import { ForeignPty } from '../../sessions/pty.ts';
import { HookStateFile, clientStatePath } from '../../sessions/client-state.ts';
import type { StateReader, ClientState } from '../../sessions/client-state.ts';
import { attempt } from '../../core/mail/attempt.ts';
import type { Typing } from '../../delivery/client.ts';
import { clientNamed } from '../../clients/clients.ts';
import { QueueWay } from '../../clients/codex/queue.ts';
import { isKimiReady, kimiComposer } from '../../clients/kimi/state.ts';
import { isProcessAlive } from '../../platform/process.ts';
import { sentinel, heartbeat } from './envelope.ts';
import type { Broker } from './broker.ts';
import { existsSync, readdirSync, rmSync } from 'node:fs';
import { HookSession, hookFolder } from './hook-session.ts';
import { TerminalWay } from '../../delivery/terminal.ts';
import { Heart, Waker } from '../../delivery/wake.ts';
import type { WakeNotes, Woken } from '../../delivery/wake.ts';
import type { Way } from '../../core/ports/way-in.ts';
import { waiting } from '../../core/mail/deliver.ts';
import type { Who } from '../../core/mail/workspace.ts';
import { userHome } from '../../platform/env.ts';
import type { MessageId } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import { Schema } from '../../core/schema.ts';
import { envelopedParcels } from './envelope.ts';
import { dataFolder, signsFolder, writeWhole } from './loop-files.ts';
import type { LoopOrder } from './loop-files.ts';
import type { Terminal } from '../../sessions/terminal.ts';
import { TmuxServer } from '../../sessions/tmux.ts';
import { ifThere } from '../../core/disk.ts';
import { readJsonFile } from './files.ts';
import { dndOf } from './sessions.ts';
import type { WaitingMessage } from '../../core/ports/mailboxes.ts';

/** How often to check whether a client is idle while mail waits for it. */
const SIGN_MS = 500;
/** The most messages and characters in one paste. A single message may be longer. */
const PASTE_MESSAGES = 20;
const PASTE_CHARS = 9000;
const LONGEST_PAUSE_MS = 5000;

/** A client in its terminal, and how something is typed there. */
interface SessionTarget {
  terminal: Terminal;
  signs: StateReader;
  typing: (terminal: Terminal, note?: () => void) => Way;
}

interface TerminalParts {
  session: string;
  client: string;
  broker: Broker;
  sessionTarget: SessionTarget;
  now: () => number;
  onNews: (event: string, facts: Record<string, string | number>) => void;
}

type Look = (who: Who, stop: AbortSignal) => Promise<number | null>;

/** Way 6: types a notice that mail waits. The mail stays in the inbox. spec: c2c#wake */
export function wakeLoop(parts: TerminalParts, gapMs: number, notes: WokenFile): Look {
  let who: Who;
  const waker = new Waker({
    sentinel: sentinel(parts.client),
    terminal: parts.sessionTarget.terminal,
    typing: parts.sessionTarget.typing,
    gapMs,
    notes,
    now: parts.now,
    waits: async () => {
      const { isDnd, leftMs } = await dndLeft(parts.broker, parts.session, parts.now());
      if (isDnd) return { ids: [], againMs: leftMs };
      // Mail that other programs left gets its attention decision here, because it may be quiet.
      await who.home.mailboxes.adopt(who.name);
      return { ids: await who.home.mailboxes.ids(who.name, true), againMs: null };
    },
    onWoken: async (ids, terminal) => {
      parts.onNews('woken', { count: ids.length, terminal });
      await noteKnocks(who, ids, { way: 'wake', terminal }, parts.now());
    },
    onLeft: (because) => parts.onNews('not_woken_yet', { because }),
  });
  return async (reader, stop) => {
    who = reader;
    return waker.look(stop);
  };
}

async function noteKnocks(
  who: Who,
  ids: readonly MessageId[],
  evidence: Record<string, string>,
  now: number,
): Promise<void> {
  const at = new Date(now).toISOString();
  for (const id of ids) await who.home.journal.record(who.name, id, { step: 'knocked', at, evidence });
}

/** Way 3 in a loop: types the mail itself into the terminal, each message once. */
export function deliverLoop(parts: TerminalParts): Look {
  const { sessionTarget, broker, session, now, onNews } = parts;
  const way = sessionTarget.typing(sessionTarget.terminal);
  const handed = new Set<MessageId>();
  // Mail that is put back into the inbox looks like an arrival, so remember the pause.
  let notBefore = 0;
  return async (who, stop) => {
    if (notBefore > now()) return notBefore - now();
    const { isDnd, leftMs } = await dndLeft(broker, session, now());
    if (isDnd) return leftMs;
    const mail = await nextPaste(who, handed);
    if (mail.length === 0) return null;
    // Check before claiming: otherwise the mail of a client that works for an hour would be claimed and released all the time.
    if ((await sessionTarget.signs.latest())?.state !== 'idle') return SIGN_MS;
    const said = await attempt(who, mail, {
      way,
      wrap: (outgoing) => envelopedParcels(who.name, outgoing),
      by: { drained_by: sessionTarget.terminal.name.startsWith('tmux') ? 'tmux' : 'pty' },
      now,
      signal: stop,
    });
    if (said.outcome === 'left') {
      onNews('left', { count: said.ids.length, because: said.because });
      const pause = Math.min(said.againMs ?? LONGEST_PAUSE_MS, LONGEST_PAUSE_MS);
      notBefore = now() + pause;
      return pause;
    }
    for (const id of said.outcome === 'nothing' ? said.spent : said.ids) handed.add(id);
    if (said.outcome === 'nothing') return null;
    onNews(said.outcome === 'taken' ? 'delivered' : 'handed_over', { count: said.ids.length });
    return 0;
  };
}

async function nextPaste(who: Who, handed: ReadonlySet<MessageId>): Promise<MessageId[]> {
  const all = await waiting(who, { any: true, loudOnly: true });
  return fitting(all, (id) => handed.has(id), PASTE_MESSAGES, PASTE_CHARS).map(({ message }) => message.id);
}

/** Adds a heartbeat to a loop's looks, and asks for the next look at whichever time is earlier. */
export function withHeartbeat(look: Look, parts: TerminalParts, alias: string, intervalMs: number): Look {
  let waits = 0;
  const way = parts.sessionTarget.typing(parts.sessionTarget.terminal);
  const text = (count: number): string => heartbeat({ alias, ts: parts.now() / 1000, waiting: count });
  const heart = new Heart({ text, way, intervalMs, waiting: async () => waits, now: parts.now });
  return async (who, stop) => {
    const againMs = await look(who, stop);
    waits = (await who.home.mailboxes.ids(who.name, true)).length;
    const beatMs = await heart.look(stop);
    return againMs === null ? beatMs : Math.min(againMs, beatMs);
  };
}

/** Limit for the client to report a state that proves that it got the typed text. */
const PROOF_MS = 3000;
/** An unknown client: its screen cannot be read, so only its own state decides. */
const UNKNOWN: Typing = { composer: unseen, enterAfter: 20, blindEnterAfter: 20 };

/** Opens the terminal of a loop order, with its client's state and its way of typing. The caller closes it. */
export async function openTarget(
  wanted: LoopOrder,
  env: Env,
  own?: Terminal,
): Promise<SessionTarget & { close(): Promise<void> }> {
  const { terminal, close } = own ? { terminal: own, close: async () => {} } : await openTerminal(wanted, env);
  const reported = await signsOf(wanted, env);
  const isOurKimi = wanted.client === 'kimi' && wanted.options.instance !== undefined;
  const signs = isOurKimi ? new FreshKimi(reported, wanted.pid, terminal, env) : reported;
  const known = clientNamed(wanted.client)?.typing ?? UNKNOWN;
  // The screen of another program's terminal cannot be read.
  const typed = wanted.terminal?.startsWith('pty:')
    ? { ...known, composer: unseen, enterAfter: known.blindEnterAfter }
    : known;
  const enterAfter = wanted.options.submit_delay_ms ?? typed.enterAfter;
  const typing = (where: Terminal, note?: () => void): Way => {
    const way = new TerminalWay({ ...typed, terminal: where, states: signs, enterAfter, proofWithin: PROOF_MS });
    const queue = note && queueOf(wanted, env, note);
    return queue ? whicheverWay(way, queue, signs) : way;
  };
  return { terminal, signs, typing, close };
}

/** The time between the two looks at the screen of a new client. */
const FRESH_MS = 300;

/**
 * The state of a Kimi that we started. Before its first prompt Kimi has no session, so its hooks report nothing. Until then it counts as idle if
 * its process runs and two looks at its screen show the empty composer. Only if the hooks are installed, because they report the first prompt.
 */
export class FreshKimi implements StateReader {
  /** The first look that showed the empty composer. `from` is by performance.now(), which no change of the clock affects. */
  #emptySince: { at: number; from: number } | null = null;

  constructor(
    readonly reported: StateReader,
    readonly pid: number | undefined,
    readonly terminal: Pick<Terminal, 'screen'>,
    readonly env: Env,
  ) {}

  async latest(): Promise<ClientState | null> {
    const reported = await this.reported.latest();
    if (reported || this.pid === undefined || !isProcessAlive(this.pid)) return reported;
    if (!existsSync(`${dataFolder(this.env)}/hooks/kimi/sign.sh`)) return null;
    const screen = await this.terminal.screen();
    const composer = screen && isKimiReady(screen) ? kimiComposer(screen) : 'unknown';
    // A draft after the first look may be text that we typed. A draft of the user stops the typing by itself.
    const isFree = composer === 'empty' || (composer === 'draft' && this.#emptySince !== null);
    const now = performance.now();
    this.#emptySince = isFree ? (this.#emptySince ?? { at: Date.now(), from: now }) : null;
    if (this.#emptySince === null || now - this.#emptySince.from < FRESH_MS) return null;
    return { state: 'idle', at: this.#emptySince.at, source: 'event', detail: 'it had no prompt yet', pid: this.pid };
  }
}

/** The way by the queue of Codex, if the order names a conversation; else null. */
function queueOf({ options: { thread, command, work_dir } }: LoopOrder, env: Env, note: () => void): Way | null {
  if (thread === undefined || command === undefined) return null;
  return new QueueWay({ program: command, cwd: work_dir ?? process.cwd(), env }, thread, note);
}

/** Uses `typing` if the client reports a state, else `silent`: the client had no prompt yet, or its user does not trust its hooks. */
function whicheverWay(typing: Way, silent: Way, signs: StateReader): Way {
  return {
    name: typing.name,
    attempt: async (parcels, signal) => ((await signs.latest()) === null ? silent : typing).attempt(parcels, signal),
  };
}

async function openTerminal(wanted: LoopOrder, env: Env): Promise<{ terminal: Terminal; close(): Promise<void> }> {
  const spec = readTerminal(wanted.terminal ?? '');
  if (spec.kind === 'foreign') {
    // The user asked for this way by naming the terminal by its numbers.
    const terminal = ForeignPty.open({ asked: true, where: { pts: spec.pts }, terminal: spec.terminalPid });
    return { terminal, close: () => terminal.close() };
  }
  const { socket, path } = spec;
  const server = await TmuxServer.open({ ...(socket && { socket }), ...(path && { path }), env });
  try {
    return { terminal: await server.terminal(spec.target), close: () => server.close() };
  } catch (error) {
    await server.close();
    throw error;
  }
}

/** The terminal of a client, as it is given on a command line and in a loop order. spec: c2c#terminals */
type TerminalSpec =
  | { kind: 'tmux'; socket?: string; path?: string; target: string }
  | { kind: 'foreign'; terminalPid: number; pts: number };

const TMUX = /^tmux(?:@([A-Za-z0-9._-]+|\/[^:]+))?:(.+)$/;
const FOREIGN = /^pty:(\d{1,10}):(\d{1,6})$/;

/** `tmux:%3`, `tmux:work:0.1`, `tmux@c2c:work` (a server of that name), or `pty:<pid of the terminal>:<number of the pts>`. */
export function readTerminal(text: string): TerminalSpec {
  const [, server, target] = TMUX.exec(text) ?? [];
  if (target !== undefined) {
    const where = server === undefined ? {} : server.startsWith('/') ? { path: server } : { socket: server };
    return { kind: 'tmux', ...where, target: exact(target) };
  }
  const [, pid, pts] = FOREIGN.exec(text) ?? [];
  if (pid !== undefined && pts !== undefined) return { kind: 'foreign', terminalPid: Number(pid), pts: Number(pts) };
  throw new Refusal(
    'invalid_request',
    `"${text.replace(/\p{Cc}/gu, '?').slice(0, 80)}" is not a terminal; write tmux:%3, tmux:work:0.1, tmux@<server>:<session> or pty:<terminal pid>:<pts>`,
  );
}

/** Makes a tmux target exact with `=`, because tmux otherwise accepts the beginning of a name. */
function exact(target: string): string {
  if (target.startsWith('%') || target.startsWith('=')) return target;
  return target.includes(':') ? `=${target}` : `=${target}:`;
}

/** The reader of the client's own state: its registry, its plugin's statefile, or the files that its hooks write. */
export async function signsOf(wanted: LoopOrder, env: Env): Promise<StateReader> {
  const { client, session, pid, options } = wanted;
  const place = { session, pid, instance: options.instance, env: { ...env, HOME: userHome(env) } };
  return clientNamed(client)?.state?.(place) ?? new HookSigns(wanted, env);
}

/** The longest time that a hook runs. After it, the client's record has the turn that the hook reported. */
const HOOK_MS = 10_000;

/**
 * The newest state that hooks wrote under any id of this session. Some clients do not wait for their hooks: in a very short turn the first hook may
 * write `busy` after the last one wrote `idle`, and no event would follow. In that case the client's record decides.
 */
class HookSigns implements StateReader {
  readonly #turns = new Map<string, () => boolean | null>();

  constructor(
    readonly whose: Whose & Pick<LoopOrder, 'client'>,
    readonly env: Env,
  ) {}

  async latest(): Promise<ClientState | null> {
    const all = signNamesOf(this.whose, this.env).map(async (name) => {
      const sign = await new HookStateFile(signFile(name, this.env)).latest();
      return sign === null ? [] : [{ name, sign }];
    });
    const [newest] = (await Promise.all(all)).flat().toSorted((a, b) => b.sign.at - a.sign.at);
    if (!newest) return null;
    const { name, sign } = newest;
    const isLate = sign.state === 'busy' && Date.now() - sign.at >= HOOK_MS && this.#hasTurn(name) === false;
    return isLate ? { ...sign, state: 'idle', source: 'transcript', detail: 'its record has no open turn' } : sign;
  }

  #hasTurn(name: string): boolean | null {
    const env = { ...this.env, HOME: userHome(this.env) };
    const turn = this.#turns.get(name) ?? clientNamed(this.whose.client)?.openTurn?.({ session: name, env });
    if (turn) this.#turns.set(name, turn);
    return turn?.() ?? null;
  }
}

type Whose = Pick<LoopOrder, 'session' | 'broker_root'>;

/** Removes the states of a former run: a client that was killed may have left `idle`. */
export function forgetSigns(whose: Whose, env: Env): void {
  for (const name of signNamesOf(whose, env)) rmSync(signFile(name, env), { force: true });
}

function signNamesOf(whose: Whose, env: Env): string[] {
  return [...new Set([whose.session, ...otherNames(whose, env)])];
}

function signFile(name: string, env: Env): string {
  return clientStatePath(signsFolder(env), name);
}

/** The client's own ids of this session. Only registered ones count: a guess by the folder may belong to another session. */
function otherNames({ broker_root, session }: Whose, env: Env): string[] {
  const folder = hookFolder(env);
  return (ifThere(() => readdirSync(folder)) ?? []).filter((name) => {
    const bound = HookSession.open(folder, name)?.bound();
    return bound?.sure && bound.root === broker_root && bound.sessionId === session;
  });
}

const Noted = new Schema(() => v.object({ ids: v.array(v.string()), at: v.number() }));

/** The file with the messages that a session was woken for. It outlives the loop. spec: c2c#wake */
export class WokenFile implements WakeNotes {
  #known: Woken | undefined;

  constructor(readonly path: string) {}

  read(): Woken {
    this.#known ??= this.#load();
    return this.#known;
  }

  write(woken: Woken): void {
    writeWhole(this.path, `${JSON.stringify(woken)}\n`, { flush: false });
    this.#known = woken;
  }

  #load(): Woken {
    const noted = Noted.safeParse(readJsonFile(this.path));
    return noted.success ? { ids: noted.data.ids as MessageId[], at: noted.data.at } : { ids: [], at: 0 };
  }
}

/** The first waiting messages that fit into one text, by count and characters. A single message may have more characters. */
export function fitting(
  waiting: readonly WaitingMessage[],
  isDone: (id: WaitingMessage['message']['id']) => boolean,
  most: number,
  characters: number,
): WaitingMessage[] {
  let size = 0;
  const open = waiting.filter(({ message }) => !isDone(message.id)).slice(0, most);
  return open.filter(({ message }, at) => {
    size += message.body.length;
    return at === 0 || size <= characters;
  });
}

/** Whether do-not-disturb is on for this session, and for how long (ms; null: without an end). spec: c2c#dnd */
export async function dndLeft(
  broker: Broker,
  sessionId: string,
  now: number,
): Promise<{ isDnd: boolean; leftMs: number | null }> {
  const row = (await broker.session(sessionId))?.row;
  const { dnd, dnd_until: until } = row ? dndOf(row, now / 1000) : { dnd: false };
  return { isDnd: dnd, leftMs: until === undefined ? null : until * 1000 - now };
}
