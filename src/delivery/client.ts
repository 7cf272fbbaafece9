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
  /** How the client runs hooks. Null: it runs none. */
  hook: HookClient | null;
  /** How text is typed into the client. Null: its screen is not known. */
  typing: Typing | null;
  /** Reads the state of a session. Without it, the client's hooks write the state into a file. */
  state?: (session: SessionPlace) => StateReader;
  /** Follows the client's record of a session: whether a turn is open; null without a record. Used because hooks may be late. */
  openTurn?: (session: Pick<SessionPlace, 'session' | 'env'>) => () => boolean | null;
  /** Reads in the client's record what its model was shown in a session. */
  evidence?: (folders: readonly string[], session: string) => ShownEvidence;
  /** Searches the client's record of a session for these messages, which our hook printed after `since` (Unix ms). */
  hookRecord?: (place: Pick<SessionPlace, 'session' | 'env'>, ids: readonly MessageId[], since: number) => HookRecord;
  /** Starts and follows a session and gives it prompts. Without it, the client cannot be controlled. `env` has HOME and PATH. */
  session?: (target: SessionTarget, env: SessionPlace['env']) => SessionDriver;
  /** Whether this process of the client may run the hooks and tools of many sessions: then only the client's own id names the session. */
  sharesProcess?: (client: { pid: number; words: readonly string[] }, env: SessionPlace['env']) => boolean;
  /** Each window is its own process, which the list of running sessions names. Its first hook runs with the first prompt of its user. */
  isWindowed?: true;
  /** The client's running sessions, and the ways to them. `env` has HOME. */
  live?: (env: SessionPlace['env']) => LiveSessions;
  /** How mail is typed into the client in a terminal that `parley run` holds. Without it, no mail is typed there. */
  held?: (place: HeldPlace) => HeldClient;
  /** The ways in, the best first. spec: c2c#ways */
  ways: readonly PossibleWay[];
}

/** A client that runs in a terminal of ours. */
export interface HeldPlace {
  pid: number;
  /** Unix ms. */
  startedAt: number;
  folder: string;
  /** The arguments that the user gave to the client. */
  args: readonly string[];
  env: SessionPlace['env'];
}

export interface HeldClient {
  states: StateReader;
  /** The client's own id of its session; null if it is not known yet. */
  readonly session: string | null;
  /** Whether the client takes prompts already: many clients draw their composer before they do. */
  isReady(screen: Screen): boolean;
  /** Called when the screen has changed. */
  look(screen: Screen): void;
  /** Whether the composer holds this very text, as far as the screen shows. */
  holds(screen: Screen, text: string): boolean;
  /** As in Typing. */
  enterAfter: number;
  /** As in TypingOptions. */
  shownFor?: number;
  /** The keys that erase a part of the typed text and answer no question; Ctrl-U by default. */
  eraseKeys?: string;
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

/** What a client's record says about messages that our hook printed. Asks no other program, because a turn waits for it. */
export interface HookRecord {
  /** The messages that were in a request to the model. Each call reads on from where the last one ended. */
  shown(): ReadonlyMap<MessageId, ShownProof>;
  /** Whether the client keeps a record of this session, as of the last call. */
  readonly isThere: boolean;
  /**
   * Whether this message is part of the conversation, as of the last call of `shown`, so that the next request has it: its request failed, or
   * the client was started again (`isResumed`) and continues the conversation. False for a message that the user took back with a prompt.
   */
  stays(id: MessageId, isResumed: boolean): boolean;
}

/** How text is typed into a client: how its screen is read, how long after a paste Enter follows, and how a text must end. */
export interface Typing {
  composer: ReadComposer;
  /** The least time between paste and Enter, ms. Enter also waits until the screen shows the paste; most clients then take it at once. */
  enterAfter: number;
  /** The same for a terminal whose screen cannot be read. */
  blindEnterAfter: number;
  ending?: (text: string) => string;
}

/** The facts that decide by which ways the mail of a session can come. */
export interface WayFacts {
  /** Our hook is in the client's settings, and nothing shows that the client does not run it. */
  hook: boolean;
  /** Our MCP server is in the client's settings. */
  server: boolean;
  /** Our plugin is where the client loads plugins, and has reported its session. */
  plugin: boolean;
  /** The loop that runs for the session. */
  loop: 'wake' | 'deliver' | 'wire' | null;
  /** The client can be started in wire mode. */
  hasWire: boolean;
}

export type Rank = 'primary' | 'fallback' | 'baseline';

export interface PossibleWay {
  way: WayName;
  rank: Rank;
  isOn(facts: WayFacts): boolean;
  /** Whether this way could be turned on for this client. */
  isPossible?(facts: WayFacts): boolean;
  because: string;
  /** How to turn it on. */
  get: string;
}

/**
 * The form in which a text must be printed at one event of a client so that it reaches the model.
 * `context`: JSON with additionalContext on stdout. `plain`: the bare text on stdout. `block` and `deny`: a JSON decision on
 * stdout whose reason the model gets. `stderr`: the bare text on stderr, with exit code 2. spec: hook#clients
 */
export type Form = 'context' | 'plain' | 'block' | 'deny' | 'stderr';

/** A client that runs hooks. */
export interface HookClient {
  name: string;
  /** The events at which a text reaches the model. At every other event nothing is printed, so no mail may be taken. */
  events: Readonly<Record<string, Form>>;
  /** Events at which a turn of the session's own begins: mail that wakes no session is shown there. */
  beginsTurn: readonly string[];
  /** Events at the end of a turn: a text that is printed there costs another turn. */
  endsTurn: readonly string[];
  /** The client runs no second hook at the end of a turn that a text has prolonged: the next event is a prompt. */
  prolongsOnce?: boolean;
  /** Each process of the client has one session at a time: when another one starts, the one before has ended. */
  oneSession?: boolean;
  /** Tools after which the client drops what a hook prints. */
  deafAfter: readonly string[];
  /**
   * The client records what it gives its model before it runs the next hook. So a text that its record does not show was not given, or not
   * yet.
   */
  recordDecides?: true;
  /** Whether a subagent runs this hook, for clients whose event does not say it by `agent_id`. */
  isSubagent?(event: HookEvent): boolean;
  /** The unit in which the client measures whether a text is too long to be shown whole. */
  counts: 'characters' | 'bytes';
  /** The events for which the hook is registered. */
  registers: readonly string[];
  /** How long the hook may take, in the unit of the client. */
  timeout: number;
  /** The text that tells a person what to paste into which file, for this command. */
  settings(command: string): string;
}

/** The longest text that a hook prints. Claude Code and Codex put a text of more than 10,000 into a file, so a model would not see it whole. */
export const TEXT_LIMIT = 9000;

/** A text in the form that an event needs: what to write to which descriptor, and the exit code. */
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

/** The length of a text in the client's own unit. */
export function lengthFor(client: HookClient, text: string): number {
  return client.counts === 'bytes' ? Buffer.byteLength(text) : text.length;
}
