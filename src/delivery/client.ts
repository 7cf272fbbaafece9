import type { MessageId } from '../core/names.ts';
import type { LiveSessions, ShownProof } from '../core/ports/live-session.ts';
import type { SessionDriver, SessionTarget } from '../core/ports/session.ts';
import type { Evidence } from '../core/receipt.ts';
import type { HookEvent } from './hook-event.ts';
import type { StateReader } from '../sessions/client-state.ts';
import type { ReadComposer, Screen } from '../sessions/terminal.ts';
import type { Parcel, WayName } from '../core/ports/way-in.ts';

/** What Parley knows about one client. There is one value per client, in the table of clients/clients.ts. */
export interface Client {
  name: string;
  /** Null: it runs no hooks. */
  hook: HookClient | null;
  /** How it is typed to. Null: its screen is not known. */
  typing: Typing | null;
  /** Reads the state of one of its sessions. Without it, its hooks leave the state in a file. */
  state?: (session: SessionPlace) => StateReader;
  /** Follows its own record of a session: whether a turn is open there; null without a record. For hooks that may be late. */
  openTurn?: (session: Pick<SessionPlace, 'session' | 'env'>) => () => boolean | null;
  /** Its own record of what it showed to the model of a session. */
  evidence?: (folders: readonly string[], session: string) => ShownEvidence;
  /** Its own record of a session, read for these messages, which our hook printed there after `since` (Unix ms). */
  hookRecord?: (place: Pick<SessionPlace, 'session' | 'env'>, ids: readonly MessageId[], since: number) => HookRecord;
  /** How a session of it is started, followed and given prompts. Without it, it cannot be controlled. `env` has HOME and PATH. */
  session?: (target: SessionTarget, env: SessionPlace['env']) => SessionDriver;
  /** Whether this process of it may run the hooks and tools of many sessions: then only the client's own id says which one is meant. */
  sharesProcess?: (client: { pid: number; words: readonly string[] }, env: SessionPlace['env']) => boolean;
  /** Each window is a process of its own, which its running sessions name, and its first hook runs with the first prompt of its user. */
  isWindowed?: true;
  /** Its running sessions, and how mail reaches them. `env` has HOME. */
  live?: (env: SessionPlace['env']) => LiveSessions;
  /** How mail is typed to it in a terminal that `parley run` holds. Without it, nothing is. */
  held?: (place: HeldPlace) => HeldClient;
  /** Its ways in, the best first. spec: c2c#ways */
  ways: readonly PossibleWay[];
}

/** A client that runs in a terminal of ours. */
export interface HeldPlace {
  pid: number;
  /** Unix ms. */
  startedAt: number;
  folder: string;
  /** The user's own words for it. */
  args: readonly string[];
  env: SessionPlace['env'];
}

export interface HeldClient {
  states: StateReader;
  /** Its own id of its session, as far as it is known by now. */
  readonly session: string | null;
  /** Whether it takes prompts by now: many clients draw their composer before that. */
  isReady(screen: Screen): boolean;
  /** Its screen has changed. */
  look(screen: Screen): void;
  /** Whether its composer holds this very text, as far as the screen shows. */
  holds(screen: Screen, text: string): boolean;
  /** As in Typing. */
  enterAfter: number;
  /** As in TypingOptions. */
  shownFor?: number;
}

/** Where a session of a client runs. */
export interface SessionPlace {
  session: string;
  /** The client's process, if we started it. */
  pid?: number | undefined;
  /** The name of a managed instance. */
  instance?: string | undefined;
  /** Has HOME. */
  env: Readonly<Record<string, string | undefined>>;
}

export interface ShownEvidence {
  /** Waits until the client's record shows these messages; null if it does not in time. */
  wait(parcels: readonly Parcel[], signal: AbortSignal): Promise<Evidence | null>;
}

/** What a client wrote down about messages that our hook printed. It asks no other program: a turn waits for it. */
export interface HookRecord {
  /** Those of them that were in a request to the model. Reads on from where the last call ended. */
  shown(): ReadonlyMap<MessageId, ShownProof>;
  /** Whether the client keeps a record of this session, as of the last call. */
  readonly isThere: boolean;
  /**
   * Whether this message is part of the conversation, as of the last call, so that the next request has it: its request failed, or the client
   * was started again (`isResumed`) and goes on with the conversation. What its user took back with a prompt is none.
   */
  stays(id: MessageId, isResumed: boolean): boolean;
}

/** How a client is typed to: what its screen shows, how long after a paste Enter follows, and how a text must end. */
export interface Typing {
  composer: ReadComposer;
  /** In ms, at least. Enter waits in any case until the screen shows the paste; then most clients take it at once, also behind 64 KB. */
  enterAfter: number;
  /** The same where its screen cannot be read. */
  blindEnterAfter: number;
  ending?: (text: string) => string;
}

/** What is known of a session when it is asked by which way its mail comes. */
export interface WayFacts {
  /** Our hook is in the client's settings, and the client runs it as far as that can be seen. */
  hook: boolean;
  /** Our server is there. */
  server: boolean;
  /** Our plugin is where the client loads plugins, and it has said who it is. */
  plugin: boolean;
  /** The loop that runs for the session. */
  loop: 'wake' | 'deliver' | 'wire' | null;
  /** The client is one that can be started in wire mode. */
  hasWire: boolean;
}

export type Rank = 'primary' | 'fallback' | 'baseline';

export interface PossibleWay {
  way: WayName;
  rank: Rank;
  isOn(facts: WayFacts): boolean;
  /** Could it be on, with this client? */
  isPossible?(facts: WayFacts): boolean;
  because: string;
  /** How it is got. */
  get: string;
}

/**
 * How a text must be handed over at one event of a client so that it reaches the model.
 * `context`: JSON with additionalContext on stdout. `plain`: the bare text on stdout. `block` and `deny`: a JSON decision on
 * stdout whose reason the model gets. `stderr`: the bare text on stderr, with exit code 2. spec: hook#clients
 */
export type Form = 'context' | 'plain' | 'block' | 'deny' | 'stderr';

/** A client that runs hooks. */
export interface HookClient {
  name: string;
  /** The events at which a text reaches the model. At every other event nothing is said, so nothing may be taken. */
  events: Readonly<Record<string, Form>>;
  /** Events at which a turn of the session's own begins: what wakes nobody is shown there. */
  beginsTurn: readonly string[];
  /** Events after which the model would rest: whatever is said there costs another turn. */
  endsTurn: readonly string[];
  /** It runs no second hook at the end of a turn that a text has prolonged: after that text comes the next prompt. */
  prolongsOnce?: boolean;
  /** Each of its processes has one session at a time: where another starts, the one before has ended. */
  oneSession?: boolean;
  /** Tools after which the client drops what a hook says. */
  deafAfter: readonly string[];
  /**
   * It writes down what it gives its model before it runs the next hook: where there is a record, what that does not show was not given, or
   * not yet.
   */
  recordDecides?: true;
  /** Whether a subagent runs this hook, where the event itself does not say so. */
  isSubagent?(event: HookEvent): boolean;
  /** What the client counts when it decides that a text is too long to be shown whole. */
  counts: 'characters' | 'bytes';
  /** The events at which the hook should be called, and how long it may take, in the unit of the client. */
  registers: readonly string[];
  timeout: number;
  /** What to paste into which file, for this command. */
  settings(command: string): string;
}

/** More than this never reaches a model whole: beyond 10,000 both Claude Code and Codex put the text into a file. */
export const TEXT_LIMIT = 9000;

/** A text in the form of an event: what to write where, and how to exit. */
export interface Framed {
  fd: 1 | 2;
  text: string;
  exit: 0 | 2;
}

export function framed(form: Form, event: string, text: string): Framed {
  switch (form) {
    case 'context':
      return json({ hookSpecificOutput: { hookEventName: event, additionalContext: text } });
    case 'block':
    case 'deny':
      return json({ decision: form, reason: text });
    case 'plain':
      return { fd: 1, text: `${text}\n`, exit: 0 };
    case 'stderr':
      return { fd: 2, text: `${text}\n`, exit: 2 };
  }
}

function json(value: unknown): Framed {
  return { fd: 1, text: `${JSON.stringify(value)}\n`, exit: 0 };
}

/** How long a text is in the client's own measure. */
export function lengthFor(client: HookClient, text: string): number {
  return client.counts === 'bytes' ? Buffer.byteLength(text) : text.length;
}
