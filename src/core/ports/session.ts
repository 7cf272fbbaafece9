import { Refusal } from '../refusal.ts';

/**
 * What control needs of one session of a client: read its state from the client's own records, start it, stop it, and give it prompts of its
 * user. A driver reads the screen only to forbid typing, never to learn what the session does.
 */

/** `waiting`: the session asks its user something. `starting`: the client may lose what is typed. */
export type SessionStatus = 'active' | 'idle' | 'waiting' | 'starting' | 'stopped';

export interface SessionState {
  status: SessionStatus;
  /** What the session waits for, in the client's words: `input needed`, `permission prompt`. */
  waitingFor?: string;
  /** The client's own id of the conversation. */
  conversation?: string;
  pid?: number;
}

/** Identifies a session and says how to start it. Comes from the user's settings and from what the store remembers. */
export interface SessionTarget {
  /** `myproject`, or `msi:backend` on another host. */
  name: string;
  host: string;
  /** The client, by the name of clients/clients.ts. */
  client: string;
  /** The absolute path of the folder in which the client is started. */
  folder: string;
  /** The client's program and the options that its user chose for it. */
  command: readonly string[];
  /** The conversation that this session had last; null if it never had one. */
  conversation: string | null;
  /** Another session has the same folder, so the folder alone does not prove that a conversation or a client belongs to this session. */
  sharesFolder?: boolean;
  startTimeoutMs: number;
}

/** A prompt of the user, ready for one client. */
export interface Prompt {
  /** The id of the prompt. A client that takes ids (Codex) repeats it in its record. */
  key: string;
  /** The text as `prepare` returned it. */
  text: string;
  /** An earlier attempt may have left the text in the composer. Only then a draft with the same words counts as this prompt. */
  isRetry?: boolean;
}

/** A place in a client's record. Only the driver that made it can interpret it. It stays valid after a restart of this program. */
export type RecordPlace = string;

/** An entry of the client's record. `turn` is the client's own id. `shared`: another prompt joined the turn, and the answer is to both. */
export type TurnEvent =
  | { kind: 'prompt'; turn: string; text: string; at: number; key?: string }
  | { kind: 'end'; turn: string; how: 'done' | 'interrupted' | 'failed'; text: string; at: number; shared?: true };

/**
 * The result of one attempt to submit a prompt. `submitted`: the client has acknowledged the prompt. `left`: nothing was typed. `unknown`: the
 * prompt may have been typed, and only the client's record can tell; it must not be tried again before that. `isTaken`: our Enter removed
 * the prompt from the composer, so it is not tried again at all.
 */
export type Submission =
  | { outcome: 'submitted' }
  | { outcome: 'left'; because: string; retry: boolean }
  | { outcome: 'unknown'; because: string; isTaken?: boolean };

/** One question of a dialog, and its options. */
export interface AskedQuestion {
  question: string;
  header: string;
  options: readonly { label: string; description?: string }[];
  multiSelect: boolean;
}

/** What a client asks its user in the dialog that is open now. */
export interface OpenQuestion {
  /** The id of this dialog. A later dialog with the same words has another id. */
  call: string;
  /** `permission`, `plan`: the answer approves or denies what the client is about to do. */
  kind: 'question' | 'permission' | 'plan';
  questions: readonly AskedQuestion[];
  /** When the dialog opened, Unix ms. */
  askedAt: number;
}

/** The answer to one question: options by their index, or a free text. */
export type Choice = { options: readonly number[] } | { text: string };

/**
 * The result of an answer. `answered`: the client's record has exactly this answer. `gone`: the dialog is not open any more, and another
 * answer closed it. `left`: the dialog is open and not answered. `unknown`: only the client's record can tell.
 */
export type Answering =
  | { outcome: 'answered' }
  | { outcome: 'gone' }
  | { outcome: 'left'; because: string }
  | { outcome: 'unknown'; because: string };

/** Reads and answers the questions of one session. They come from the client's own records, so none is lost when this program restarts. */
export interface QuestionDriver {
  /** The dialog that is open now, or null. */
  open(): Promise<OpenQuestion | null>;
  /** Answers the dialog with this id, with one choice for each of its questions. The answer never reaches a later dialog. */
  answer(call: string, choices: readonly Choice[], signal: AbortSignal): Promise<Answering>;
}

export interface ScreenOptions {
  /** With colours and styles, as escape sequences (SGR). */
  styles?: boolean;
}

/** The host of a session does not answer. The state of the session is unknown, and a prompt that was typed may still be answered. */
export class HostUnreachable extends Refusal {
  constructor(message: string) {
    super('unreachable', message);
  }
}

/** Controls one session. If the session is on another host that does not answer, every method except `submit` throws HostUnreachable. */
export interface SessionDriver {
  /** Absent: the questions of this client can be seen and answered only where it runs. */
  readonly questions?: QuestionDriver;
  /** The current state, from the client's own records. Cheap: starts no process. */
  state(): Promise<SessionState>;
  /**
   * Calls `changed` when the state or the record may have changed, and at least once a second while a client runs. Returns a function that
   * stops the calls.
   */
  watch(changed: () => void): () => void;
  /** Changes a text so that this client takes it as one prompt and not as a command. Throws a Refusal if that is impossible. */
  prepare(text: string, options?: { raw?: boolean }): string;
  /** The end of the client's record. */
  place(): Promise<RecordPlace>;
  /**
   * The events that were recorded since a place, in order, complete entries only, and the place after the last of them (the same place if
   * there is none). From a place in an earlier conversation of the session, reading continues in the current conversation.
   */
  events(since: RecordPlace): Promise<{ events: TurnEvent[]; next: RecordPlace }>;
  /** Whether the client recorded this prompt with this event. */
  isOurs(event: TurnEvent, prompt: Prompt): boolean;
  /** Makes one attempt. Types only into an idle session of this client with an empty composer. */
  submit(prompt: Prompt, signal: AbortSignal): Promise<Submission>;
  /** For a client with its own queue: removes a prompt that has not begun a turn. Does nothing if the prompt is not in the queue. */
  takeBack?(prompt: Prompt): Promise<void>;
  /**
   * Starts the client and returns when it takes prompts. The client resumes the conversation of the session, else the newest of the folder,
   * else it begins a new one. Throws a Refusal `outcome_unknown` if the client ends, with its last line, or if it is not ready in time; any
   * other code if nothing was started.
   */
  start(): Promise<{ started: 'resumed' | 'fresh' }>;
  /** Ends the client and its terminal. Does nothing if the client does not run. */
  stop(): Promise<void>;
  /** The last lines of the session's terminal. Throws a Refusal if the client does not run or has no terminal. */
  screen(lines: number, options?: ScreenOptions): Promise<string>;
  /**
   * Saves a file for the client to read, in the folder of the session. Only this user can read the file. Returns its path there. A long
   * file is saved in parts, in order: `offset` says where a part begins.
   */
  saveFile(name: string, bytes: Uint8Array, offset?: number): Promise<string>;
  close(): Promise<void>;
}
