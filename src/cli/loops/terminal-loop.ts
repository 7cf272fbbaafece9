import { Heart, Waker } from '../../delivery/wake.ts';
import type { Way } from '../../delivery/way.ts';
import { waiting } from '../../flow/deliver.ts';
import type { Who } from '../../flow/desk.ts';
import { attempt } from '../../flow/attempt.ts';
import type { MessageId } from '../../protocol/names.ts';
import type { StateReader } from '../../sessions/client-state.ts';
import type { Terminal } from '../../sessions/terminal.ts';
import type { Broker } from '../../storage/c2c/broker.ts';
import { enveloped } from '../dialects/c2c/entries.ts';
import { fitting } from './fitting.ts';
import { hushOf } from './hush.ts';
import type { WokenFile } from './woken.ts';

/** How soon a client is asked again whether it is idle, while something waits for it. */
const SIGN_MS = 500;
/** One paste carries no more than this, unless a single message does. */
const PASTE_MESSAGES = 20;
const PASTE_CHARS = 9000;
const LONGEST_PAUSE_MS = 5000;

/** A client in its terminal, and how something is typed there. */
export interface Seat {
  terminal: Terminal;
  signs: StateReader;
  typing: (terminal: Terminal) => Way;
}

export interface TerminalParts {
  session: string;
  client: string;
  broker: Broker;
  seat: Seat;
  now: () => number;
  onNews: (event: string, facts: Record<string, string | number>) => void;
}

type Look = (who: Who, stop: AbortSignal) => Promise<number | null>;

/** Way 6: the session is told that mail waits; the mail stays where it is. spec: c2c#wake */
export function wakeLoop(parts: TerminalParts, gapMs: number, notes: WokenFile): Look {
  let who: Who;
  const waker = new Waker({
    client: parts.client,
    terminal: parts.seat.terminal,
    typing: parts.seat.typing,
    gapMs,
    notes,
    now: parts.now,
    waits: async () => {
      const { hushed, leftMs } = await hushOf(parts.broker, parts.session, parts.now());
      if (hushed) return { ids: [], againMs: leftMs };
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
  const { seat, broker, session, now, onNews } = parts;
  const way = seat.typing(seat.terminal);
  const handed = new Set<MessageId>();
  // What is put back rings the bell like what arrives.
  let notBefore = 0;
  return async (who, stop) => {
    if (notBefore > now()) return notBefore - now();
    const { hushed, leftMs } = await hushOf(broker, session, now());
    if (hushed) return leftMs;
    const mail = await nextPaste(who, handed);
    if (mail.length === 0) return null;
    // Asked before anything is taken: a client that works for an hour must not have its mail moved to and fro.
    if ((await seat.signs.latest())?.state !== 'idle') return SIGN_MS;
    const said = await attempt(who, mail, {
      way,
      wrap: (outgoing) => enveloped(who.name, outgoing),
      by: { drained_by: seat.terminal.name.startsWith('tmux') ? 'tmux' : 'pty' },
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
  const way = parts.seat.typing(parts.seat.terminal);
  const heart = new Heart({ alias, way, intervalMs, waiting: async () => waits, now: parts.now });
  return async (who, stop) => {
    const againMs = await look(who, stop);
    waits = (await who.home.spool.ids(who.name, true)).length;
    const beatMs = await heart.look(stop);
    return againMs === null ? beatMs : Math.min(againMs, beatMs);
  };
}
