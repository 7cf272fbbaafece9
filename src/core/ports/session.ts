import { Refusal } from '../refusal.ts';

/**
 * One session of a client, as control needs it: seen from the client's own records, started, stopped, and given prompts of its user.
 * A screen is read only to forbid typing, never to learn what the session does.
 */

/** `waiting`: it asks its user something. `starting`: it may lose what is typed. */
export type SessionStatus = 'active' | 'idle' | 'waiting' | 'starting' | 'stopped';

export interface SessionState {
  status: SessionStatus;
  /** What it waits for, in the client's words: `input needed`, `permission prompt`. */
  waitingFor?: string;
  /** The client's own id of the conversation. */
  conversation?: string;
  pid?: number;
}

/** Which session is meant, and how it is started. Comes from the user's settings and from what the store remembers. */
export interface SessionTarget {
  /** `myproject`, or `msi:backend` on another host. */
  name: string;
  host: string;
  /** The client, by the name of clients/clients.ts. */
  client: string;
  /** Where the client is started, absolute. */
  folder: string;
  /** The client's program and the options that its user chose for it. */
  command: readonly string[];
  /** The conversation that this session had last; null if it never had one. */
  conversation: string | null;
  /** Another session has the same folder: then a conversation or a client is not this one's for its folder alone. */
  sharesFolder?: boolean;
  startTimeoutMs: number;
}

/** A prompt of the user, ready for one client. */
export interface Prompt {
  /** Goes with the prompt where a client takes an id (Codex), and comes back in its record. */
  key: string;
  /** As `prepare` returned it. */
  text: string;
  /** An attempt before this one may have left it in the composer. Only then a draft with the same words is taken for it. */
  isRetry?: boolean;
}

/** A place in a client's record. Only the driver that made it can read it; it survives a restart of this program. */
export type RecordPlace = string;

/** What the client wrote down. `turn` is the client's own id of it. `shared`: another prompt joined the turn, and the answer is to both. */
export type TurnEvent =
  | { kind: 'prompt'; turn: string; text: string; at: number; key?: string }
  | { kind: 'end'; turn: string; how: 'done' | 'interrupted' | 'failed'; text: string; at: number; shared?: true };

/**
 * What became of one attempt to submit a prompt. `submitted`: the client has acknowledged it. `left`: nothing went in. `unknown`: it may
 * have gone in, and only the client's record can tell; it must not be tried again before that. `isTaken`: it left the composer by our
 * Enter, so it is not tried again at all.
 */
export type Submission =
  | { outcome: 'submitted' }
  | { outcome: 'left'; because: string; retry: boolean }
  | { outcome: 'unknown'; because: string; isTaken?: boolean };

/** One question of a dialog, and what may be chosen. */
export interface AskedQuestion {
  question: string;
  header: string;
  options: readonly { label: string; description?: string }[];
  multiSelect: boolean;
}

/** What a client asks its user in the dialog that is open now. */
export interface OpenQuestion {
  /** Names this very dialog. A later one with the same words has another. */
  call: string;
  /** `permission`, `plan`: to answer is to approve or to deny what the client is about to do. */
  kind: 'question' | 'permission' | 'plan';
  questions: readonly AskedQuestion[];
  /** When the dialog opened, Unix ms. */
  askedAt: number;
}

/** What was chosen for one question: options by their index, or words of one's own. */
export type Choice = { options: readonly number[] } | { text: string };

/**
 * What became of an answer. `answered`: the client's record has this very answer. `gone`: that dialog is not open any more, and another
 * answer closed it. `left`: it is open and not answered. `unknown`: only the client's record can tell.
 */
export type Answering =
  | { outcome: 'answered' }
  | { outcome: 'gone' }
  | { outcome: 'left'; because: string }
  | { outcome: 'unknown'; because: string };

/** The questions of one session. They come from the client's own records, so none is lost when this program restarts. */
export interface QuestionDriver {
  /** The dialog that is open now, or null. */
  open(): Promise<OpenQuestion | null>;
  /** Answers this very dialog, with one choice for each of its questions. Nothing reaches a dialog that comes after it. */
  answer(call: string, choices: readonly Choice[], signal: AbortSignal): Promise<Answering>;
}

export interface ScreenOptions {
  /** With colours and styles, as escape sequences (SGR). */
  styles?: boolean;
}

/** The host of a session does not answer. What the session does now is not known, and a prompt that it has may still be answered. */
export class HostUnreachable extends Refusal {
  constructor(message: string) {
    super('unreachable', message);
  }
}

/** A driver of a session on another host throws HostUnreachable where that host does not answer, from every method but `submit`. */
export interface SessionDriver {
  /** Absent: what this client asks can be seen and answered only where it runs. */
  readonly questions?: QuestionDriver;
  /** What the client says of itself now. Cheap: starts no process. */
  state(): Promise<SessionState>;
  /** Calls back when the state or the record may have changed. Calls at least once a second while a client runs. Returns how to stop. */
  watch(changed: () => void): () => void;
  /** The text as this client takes it as one prompt that is no command of its own. Throws a Refusal if it cannot be said. */
  prepare(text: string, options?: { raw?: boolean }): string;
  /** The end of the client's record. */
  place(): Promise<RecordPlace>;
  /**
   * What was recorded since a place, in order, whole entries only; and the place behind it, which is the same if there was nothing. A place
   * in an earlier conversation of the session leads on into the one that it has now.
   */
  events(since: RecordPlace): Promise<{ events: TurnEvent[]; next: RecordPlace }>;
  /** Whether the client recorded this prompt in this event. */
  isOurs(event: TurnEvent, prompt: Prompt): boolean;
  /** One attempt. Puts nothing into anything but an idle session of this client with an empty composer. */
  submit(prompt: Prompt, signal: AbortSignal): Promise<Submission>;
  /** For a client with a queue of its own: takes out a prompt that no turn has begun with. Nothing happens if it is not there. */
  takeBack?(prompt: Prompt): Promise<void>;
  /**
   * Starts the client and returns when it takes prompts: with the conversation that it had, else the newest of its folder, else a fresh one.
   * Throws a Refusal `outcome_unknown` with the client's last line if it ends, and if it is not ready in time; any other code if nothing was started.
   */
  start(): Promise<{ started: 'resumed' | 'fresh' }>;
  /** Ends the client and its terminal. Nothing happens if it does not run. */
  stop(): Promise<void>;
  /** The last lines of its terminal. Throws a Refusal if it does not run or has no terminal. */
  screen(lines: number, options?: ScreenOptions): Promise<string>;
  /**
   * Saves a file for the client to read, in the folder of the session, for this user only; its path there. A long file is saved in parts:
   * each says where it begins, and follows the one before it.
   */
  saveFile(name: string, bytes: Uint8Array, offset?: number): Promise<string>;
  close(): Promise<void>;
}
