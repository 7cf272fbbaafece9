import { readFileSync, readdirSync, rmSync } from 'node:fs';
import * as v from 'valibot';
import { HookSession, hookFolder } from '../../cli/dialects/c2c/hook-session.ts';
import { claudeComposer } from '../../clients/claude/screen.ts';
import { ClaudeSigns } from '../../clients/claude/signs.ts';
import { codexComposer, codexEnding } from '../../clients/codex/screen.ts';
import { KIMI_ENTER_AFTER, kimiComposer } from '../../clients/kimi/screen.ts';
import { openCodeComposer } from '../../clients/opencode/screen.ts';
import { OpenCodeSigns } from '../../clients/opencode/signs.ts';
import { TerminalWay } from '../../delivery/terminal.ts';
import { Heart, Waker } from '../../delivery/wake.ts';
import type { WakeNotes, Woken } from '../../delivery/wake.ts';
import type { Way } from '../../delivery/way.ts';
import { waiting } from '../../flow/deliver.ts';
import { offer } from '../../flow/offer.ts';
import type { Who } from '../../flow/workspace.ts';
import { userHome } from '../../platform/env.ts';
import type { Env } from '../../platform/env.ts';
import type { MessageId } from '../../protocol/names.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { Schema } from '../../protocol/schema.ts';
import { unseen } from '../../sessions/composer.ts';
import type { ReadComposer } from '../../sessions/composer.ts';
import { ForeignPty } from '../../sessions/foreign-pty.ts';
import { SignFile } from '../../sessions/sign-file.ts';
import { signFileOf } from '../../sessions/sign-hook.ts';
import type { Sign, Signs } from '../../sessions/sign.ts';
import { statefilePath } from '../../sessions/statefile.ts';
import type { Terminal } from '../../sessions/terminal.ts';
import { TmuxServer } from '../../sessions/tmux.ts';
import type { Broker } from '../../storage/c2c/broker.ts';
import { ifThere, isMissing } from '../../storage/disk.ts';
import type { Waiting } from '../../storage/spool/spool.ts';
import { enveloped } from './commands.ts';
import { writeWhole, signsFolder } from './loop-files.ts';
import type { Wanted } from './loop-files.ts';

/** How soon a client is asked again whether it is idle, while something waits for it. */
const SIGN_MS = 500;
/** One paste carries no more than this, unless a single message does. */
const PASTE_MESSAGES = 20;
const PASTE_CHARS = 9000;
const LONGEST_PAUSE_MS = 5000;

/** A client in its terminal, and how something is typed there. */
interface SessionTarget {
  terminal: Terminal;
  signs: Signs;
  typing: (terminal: Terminal) => Way;
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

/** Way 6: the session is told that mail waits; the mail stays where it is. spec: c2c#wake */
export function wakeLoop(parts: TerminalParts, gapMs: number, notes: WokenFile): Look {
  let who: Who;
  const waker = new Waker({
    client: parts.client,
    terminal: parts.sessionTarget.terminal,
    typing: parts.sessionTarget.typing,
    gapMs,
    notes,
    now: parts.now,
    waits: async () => {
      const { isDnd, leftMs } = await dndOf(parts.broker, parts.session, parts.now());
      if (isDnd) return { ids: [], againMs: leftMs };
      // What other programs left gets its decision here: it may be quiet.
      await who.home.spool.adopt(who.name);
      return { ids: await who.home.spool.ids(who.name, true), againMs: null };
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
  for (const id of ids) await who.home.ledger.record(who.name, id, { step: 'knocked', at, evidence });
}

/** Way 3 in a loop: the mail itself goes into the terminal, each message once. */
export function deliverLoop(parts: TerminalParts): Look {
  const { sessionTarget, broker, session, now, onNews } = parts;
  const way = sessionTarget.typing(sessionTarget.terminal);
  const handed = new Set<MessageId>();
  // What is put back rings the bell like what arrives.
  let notBefore = 0;
  return async (who, stop) => {
    if (notBefore > now()) return notBefore - now();
    const { isDnd, leftMs } = await dndOf(broker, session, now());
    if (isDnd) return leftMs;
    const mail = await nextPaste(who, handed);
    if (mail.length === 0) return null;
    // Asked before anything is taken: a client that works for an hour must not have its mail moved to and fro.
    if ((await sessionTarget.signs.latest())?.state !== 'idle') return SIGN_MS;
    const said = await offer(who, mail, {
      way,
      wrap: (outgoing) => enveloped(who.name, outgoing),
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

/** The loop's own looks, and beside them a heartbeat: whichever is due first. */
export function withHeart(look: Look, parts: TerminalParts, alias: string, intervalMs: number): Look {
  let waits = 0;
  const way = parts.sessionTarget.typing(parts.sessionTarget.terminal);
  const heart = new Heart({ alias, way, intervalMs, waiting: async () => waits, now: parts.now });
  return async (who, stop) => {
    const againMs = await look(who, stop);
    waits = (await who.home.spool.ids(who.name, true)).length;
    const beatMs = await heart.look(stop);
    return againMs === null ? beatMs : Math.min(againMs, beatMs);
  };
}

/** How long the client's own word that it got what was typed is waited for. */
const PROOF_MS = 3000;
/**
 * Between a paste and its Enter, at least. Enter waits in any case until the screen shows the paste, and then Claude Code 2.1, Codex 0.166
 * and OpenCode 1.18 take it for what it is, also behind 64 KB.
 */
const ENTER_MS = 5;
/** Where no screen says that the paste has come: the end of a bracketed paste is marked, so most clients need no more than this. */
const BLIND_ENTER_MS = 20;
const CLAUDE_BLIND_ENTER_MS = 100;

/** How a client is typed to: what its screen shows, how long after a paste Enter follows, and how a text must end. */
interface TypingStyle {
  composer: ReadComposer;
  enterAfter: number;
  /** The same where its screen cannot be read. */
  blindEnterAfter: number;
  ending?: (text: string) => string;
}

/** A terminal with its client, as a loop needs it. The caller closes it. */
export async function openTarget(
  wanted: Wanted,
  env: Env,
  own?: Terminal,
): Promise<SessionTarget & { close(): Promise<void> }> {
  const { terminal, close } = own ? { terminal: own, close: async () => {} } : await openTerminal(wanted, env);
  const signs = signsOf(wanted, env);
  const known = TYPING_STYLES.get(wanted.client) ?? UNKNOWN_CLIENT;
  // The screen of a terminal that is not ours cannot be read.
  const style = wanted.terminal?.startsWith('pty:')
    ? { ...known, composer: unseen, enterAfter: known.blindEnterAfter }
    : known;
  const enterAfter = wanted.options.submit_delay_ms ?? style.enterAfter;
  const typing = (where: Terminal) =>
    new TerminalWay({ ...style, terminal: where, signs, enterAfter, proofWithin: PROOF_MS });
  return { terminal, signs, typing, close };
}

async function openTerminal(wanted: Wanted, env: Env): Promise<{ terminal: Terminal; close(): Promise<void> }> {
  const spec = readTerminal(wanted.terminal ?? '');
  if (spec.kind === 'foreign') {
    // A terminal that is named by its numbers was asked for.
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

const USUAL = { enterAfter: ENTER_MS, blindEnterAfter: BLIND_ENTER_MS };

/** Clients whose screen we can read. For any other program its signs must do alone. */
const TYPING_STYLES = new Map<string, TypingStyle>(
  Object.entries({
    claude: { ...USUAL, composer: claudeComposer, blindEnterAfter: CLAUDE_BLIND_ENTER_MS },
    codex: { ...USUAL, composer: codexComposer, ending: codexEnding },
    opencode: { ...USUAL, composer: openCodeComposer },
    kimi: { composer: kimiComposer, enterAfter: KIMI_ENTER_AFTER, blindEnterAfter: KIMI_ENTER_AFTER },
  }),
);
const UNKNOWN_CLIENT: TypingStyle = { ...USUAL, composer: unseen, enterAfter: BLIND_ENTER_MS };

/** Where a client runs, as it is written on a command line and in a file. spec: c2c#terminals */
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
    `"${text.replace(/\p{Cc}/gu, '?').slice(0, 80)}" names no terminal; write tmux:%3, tmux:work:0.1, tmux@<server>:<session> or pty:<terminal pid>:<pts>`,
  );
}

/** tmux takes the beginning of a name for the name, unless it is told not to. */
function exact(target: string): string {
  if (target.startsWith('%') || target.startsWith('=')) return target;
  return target.includes(':') ? `=${target}` : `=${target}:`;
}

/** What the client says of itself: its own register, its plugin's state, or what its hooks left. */
export function signsOf({ client, session, pid, ...wanted }: Wanted, env: Env): Signs {
  switch (client) {
    case 'claude':
      return new ClaudeSigns(env['CLAUDE_CONFIG_DIR'] || `${userHome(env)}/.claude`, session, pid);
    case 'opencode': {
      const path = statefilePath({ ...env, HOME: userHome(env) }, wanted.options.instance);
      return new OpenCodeSigns({ path, sessionId: session });
    }
    default:
      return new HookSigns({ session, broker_root: wanted.broker_root }, env);
  }
}

/** The newest of what hooks left under any name that this session has. */
class HookSigns implements Signs {
  constructor(
    readonly whose: Whose,
    readonly env: Env,
  ) {}

  async latest(): Promise<Sign | null> {
    const files = signFilesOf(this.whose, this.env).map((path) => new SignFile(path));
    const signs = (await Promise.all(files.map((file) => file.latest()))).filter((sign) => sign !== null);
    return signs.toSorted((a, b) => b.at - a.at)[0] ?? null;
  }
}

type Whose = Pick<Wanted, 'session' | 'broker_root'>;

/** Removes what hooks said of a former run: a client that was killed could not take back that it was idle. */
export function forgetSigns(whose: Whose, env: Env): void {
  for (const path of signFilesOf(whose, env)) rmSync(path, { force: true });
}

function signFilesOf(whose: Whose, env: Env): string[] {
  const names = new Set([whose.session, ...otherNames(whose, env)]);
  return [...names].map((name) => signFileOf(signsFolder(env), name));
}

/** The client's own names for it, where it is certain that they are: a guess by its folder may be another session's. */
function otherNames({ broker_root, session }: Whose, env: Env): string[] {
  const folder = hookFolder(env);
  return (ifThere(() => readdirSync(folder)) ?? []).filter((name) => {
    const bound = HookSession.open(folder, name)?.bound();
    return bound?.sure && bound.root === broker_root && bound.sessionId === session;
  });
}

const Noted = new Schema(() => v.object({ ids: v.array(v.string()), at: v.number() }));

/** What a session was woken for, in a file of its own that outlives every loop. spec: c2c#wake */
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
    try {
      const noted = Noted.safeParse(JSON.parse(readFileSync(this.path, 'utf8')));
      return noted.success ? { ids: noted.data.ids as MessageId[], at: noted.data.at } : { ids: [], at: 0 };
    } catch (error) {
      if (isMissing(error) || error instanceof SyntaxError) return { ids: [], at: 0 };
      throw error;
    }
  }
}

/** The first of what waits that goes out together: so many at most, and so many characters, unless a single one has more. */
export function fitting(
  waiting: readonly Waiting[],
  isDone: (id: Waiting['message']['id']) => boolean,
  most: number,
  characters: number,
): Waiting[] {
  let size = 0;
  const open = waiting.filter(({ message }) => !isDone(message.id)).slice(0, most);
  return open.filter(({ message }, at) => {
    size += message.body.length;
    return at === 0 || size <= characters;
  });
}

/** Does this session want no disturbance now, and for how long (ms; null: until it says otherwise)? spec: c2c#dnd */
export async function dndOf(
  broker: Broker,
  sessionId: string,
  now: number,
): Promise<{ isDnd: boolean; leftMs: number | null }> {
  const row = (await broker.session(sessionId))?.row;
  if (row?.dnd !== true) return { isDnd: false, leftMs: null };
  const until = row.dnd_until === undefined ? null : row.dnd_until * 1000;
  if (until !== null && until <= now) return { isDnd: false, leftMs: null };
  return { isDnd: true, leftMs: until === null ? null : until - now };
}
